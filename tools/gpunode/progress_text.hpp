// A job's progress as one line for people. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace gpunode::cli {

// "step 120/2000  loss 2.345  12.3k tokens/s  38.5 % of peak  3 members (a, b, c)  2m10s left";
// the share is what the node that was asked makes of its own devices, "-" where it is not known.
std::string progress_text(const nlohmann::json& progress);

// A loss of such a line, "not finite" where the node sent null, JSON's only word for that.
std::string loss_text(const nlohmann::json& line, const char* key);

}  // namespace gpunode::cli
