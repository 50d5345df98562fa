// A job's progress as one line for people. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace gpunode::cli {

// "step 120/2000  loss 2.345  12.3k tokens/s  38.5 % of peak  3 members (a, b, c)  2m10s left";
// the share is what the node that was asked makes of its own devices, "-" where it is not known.
std::string progress_text(const nlohmann::json& progress);

// "as of 2m10s ago, before this node was started again", of step and loss; empty where they are as
// new as any. And when the job finished; empty: it is not, or nobody knows.
std::string as_of_text(const nlohmann::json& line);
std::string finished_text(const nlohmann::json& line);

// A loss of such a line, "not finite" where the node sent null, JSON's only word for that.
std::string loss_text(const nlohmann::json& line, const char* key);

}  // namespace gpunode::cli
