// Tests: what stands behind `is`, and what `select` and its kind choose by.
#pragma once

#include <string_view>

#include "runtime/chat/detail/value.hpp"

namespace gpunode::chat::detail {

// Throws a ThrownError for values that it has no meaning for.
using Test = bool (*)(const Value& value, const Arguments& given, Budget& budget);
// Null: not known here.
Test find_test(std::string_view name);

}  // namespace gpunode::chat::detail
