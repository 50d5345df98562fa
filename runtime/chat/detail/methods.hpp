// Methods that values have of themselves, as Python's texts and dicts: of them those that templates
// use. The others are refused by name, and those that would change a value are undefined. Throw a
// ThrownError.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/chat/detail/value.hpp"

namespace gpunode::chat::detail {

// A method bound to its value, an attribute of a namespace or a loop; none: it has none of that name.
std::optional<Value> own_attribute(const Value& value, const std::string& name, Budget& budget);
// It is a method of Python's texts that is not known here, so that calls of it need not be waited for.
bool known_method_elsewhere(std::string_view name);

// Python's replace; a negative count: all of them.
std::string replaced(std::string_view text, std::string_view old, std::string_view by,
                     std::int64_t count, Budget& budget);
std::vector<std::string_view> lines_of(std::string_view text, bool with_ends);

}  // namespace gpunode::chat::detail
