// Values as text: as a template prints them, and as JSON with the options of transformers' `tojson`.
// Both throw a ThrownError for what has no such form, or one that is not known here.
#pragma once

#include <string>

#include "runtime/chat/detail/value.hpp"

namespace gpunode::chat::detail {

// Python's str(): a text as it is, undefined as nothing.
std::string printed(const Value& value, Budget& budget);
// Python's repr(), as values have it within lists.
std::string quoted(const Value& value, Budget& budget);
std::string real_text(double number);

struct JsonForm {
  bool ascii = false;                 // letters beyond ASCII as escapes
  std::optional<std::string> indent;  // what one level is set in by; none: all in one line
  std::string item = ", ", key = ": ";
  bool sorted = false;
};
std::string json_text(const Value& value, const JsonForm& form, Budget& budget);

}  // namespace gpunode::chat::detail
