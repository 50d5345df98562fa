// What a person is told of a key of the job file: meaning and unit, and what raising it buys and costs.
#pragma once

#include <string>
#include <string_view>

namespace gpunode::job {

// Empty for a key that is none.
std::string setting_text(std::string_view key);

}  // namespace gpunode::job
