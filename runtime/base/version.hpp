// The version of this program, as `gpunode version` prints it. Members of a job run the same one:
// what a version changes in plans, order or arithmetic is no part of what nodes agree on.
#pragma once

#include <string_view>

namespace gpunode {

// "0.1.0"; from the project's CMakeLists.txt.
std::string_view program_version();

}  // namespace gpunode
