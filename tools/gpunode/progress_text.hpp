// A job's progress as one line for people. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace gpunode::cli {

// "step 120/2000  loss 2.345  12.3k tokens/s  3 members (a, b, c)  2m10s left"
std::string progress_text(const nlohmann::json& progress);

}  // namespace gpunode::cli
