// TOML as job files and nodes' settings are written in: Debian's library reports mistakes by throwing,
// which stops here.
#pragma once

#include <toml++/toml.h>

#include <sstream>
#include <string>
#include <string_view>

#include "runtime/base/result.hpp"

namespace gpunode {

inline std::string toml_place(const toml::node& node) {
  return " (line " + std::to_string(node.source().begin.line) + ")";
}

// `what`: is it, for the error. Fails with: invalid_argument, with line and column.
inline Result<toml::table> parse_toml(std::string_view text, const std::string& what) {
  try {
    return toml::table(toml::parse(text));
  } catch (const toml::parse_error& mistake) {
    std::ostringstream where;
    where << mistake.source().begin;
    return Error{
        ErrorCode::invalid_argument,
        what + " is not TOML: " + std::string(mistake.description()) + " at " + where.str()};
  }
}

}  // namespace gpunode
