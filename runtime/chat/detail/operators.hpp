// Operators of expressions with Python's meaning, on integers of 64 bits. Throw a ThrownError for
// values that they have no meaning for.
#pragma once

#include <string_view>

#include "runtime/chat/detail/value.hpp"

namespace gpunode::chat::detail {

// One of + - * / // % **.
Value arithmetic(std::string_view sign, const Value& left, const Value& right, Budget& budget);
Value with_sign(std::string_view sign, const Value& value);
// One of == != < <= > >= in, not in.
bool compare(std::string_view sign, const Value& left, const Value& right, Budget& budget);
bool contains(const Value& whole, const Value& part, Budget& budget);

// value[key]; undefined where it has none.
Value subscript(const Value& value, const Value& key, Budget& budget);
// value.name; undefined where it has none.
Value attribute(const Value& value, const std::string& name, Budget& budget);
// value[start:stop:step]; none where left out.
Value slice(const Value& value, const Value& start, const Value& stop, const Value& step,
            Budget& budget);
// Python's "..." % arguments, of %s and %d.
Value formatted(std::string_view pattern, const Value& arguments, Budget& budget);

}  // namespace gpunode::chat::detail
