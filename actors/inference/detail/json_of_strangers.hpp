// JSON that strangers wrote, with a bound for how deep it is: whoever copies or writes it recurses. Private
// to the parsers of requests.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace gpunode::inference {

// Of JSON, or of a text that is none and whose parser says so.
inline bool has_more_levels(std::string_view text, int than) {
  int levels = 0;
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (letter == '"')
      quoted = !quoted;
    else if (quoted)
      at += letter == '\\' ? 1 : 0;
    else if (letter == '{' || letter == '[')
      levels += 1;
    else if (letter == '}' || letter == ']')
      levels -= 1;
    if (levels > than) return true;
  }
  return false;
}

// No object, where it is none to its last byte, or has more levels than `deepest`.
template <class Tree>
Tree object_within(std::string_view text, int deepest) {
  if (text.find('\0') != std::string_view::npos) return {};  // the parser would end there
  if (has_more_levels(text, deepest)) return {};
  return Tree::parse(text, nullptr, false);
}

}  // namespace gpunode::inference
