// A template's statements. What no chat template needs (blocks, includes, recursive loops ...) is
// refused by name. Throws a ThrownError.
#pragma once

#include <string_view>

#include "runtime/chat/detail/syntax.hpp"

namespace gpunode::chat::detail {

Syntax parse_template(std::string_view source);

}  // namespace gpunode::chat::detail
