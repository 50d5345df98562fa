// JSON as values of a template: what a request gives for messages, tools and documents.
#pragma once

#include <string_view>

#include "runtime/chat/detail/value.hpp"

namespace gpunode::chat::detail {

// Throws a ThrownError: invalid_argument (no JSON), unsupported (an integer beyond 64 bits),
// resource_exhausted. `what` it is, for errors.
Value value_of_json(std::string_view json, std::string_view what, Budget& budget);

}  // namespace gpunode::chat::detail
