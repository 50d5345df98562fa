// JSON that strangers wrote, with a bound for how deep it is: whoever copies or writes it recurses. Private
// to the parsers of requests.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace gpunode::inference {

// No object, where it is none to its last byte, or has more levels than `deepest`.
template <class Tree>
Tree object_within(std::string_view text, int deepest) {
  if (text.find('\0') != std::string_view::npos) return {};  // the parser would end there
  bool deep = false;
  Tree json = Tree::parse(
      text,
      [&](int depth, typename Tree::parse_event_t, Tree&) {
        return !(deep = deep || depth > deepest);
      },
      false);
  return deep ? Tree() : json;
}

}  // namespace gpunode::inference
