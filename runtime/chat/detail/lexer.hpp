// A template's text cut into what is printed as it stands and the words of its tags, with the white
// space around tags gone as Jinja has it with trim_blocks and lstrip_blocks. Throws a ThrownError.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/chat/detail/budget.hpp"

namespace gpunode::chat::detail {

struct Token {
  enum class Kind {
    data,
    block_begin,
    block_end,
    print_begin,
    print_end,
    name,
    text,
    integer,
    real,
    sign,  // an operator or a bracket
    end
  };
  Kind kind;
  std::string text;  // of a text without its quotes and escapes
  int line;
};

// Ends with one token of kind `end`.
std::vector<Token> tokens_of(std::string_view source);

[[noreturn]] void wrong_at(int line, const std::string& detail);
[[noreturn]] void not_known_at(int line, const std::string& detail);

}  // namespace gpunode::chat::detail
