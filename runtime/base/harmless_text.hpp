// Texts that somebody else wrote, as a terminal or a log may see them: names, labels, reasons and
// errors of peers come to a person only through here. What could move a cursor, forge a line or turn
// the order of letters is replaced; all else that is well-formed UTF-8 stays. Stateless.
#pragma once

#include <string>
#include <string_view>

namespace gpunode {

// One line: each white space (line ends too) becomes a blank, each other control character, each
// that changes the direction of writing and each byte that is no UTF-8 becomes U+FFFD.
std::string harmless(std::string_view text);

// The same for a text of many lines: line ends and tabs stay.
std::string harmless_lines(std::string_view text);

// JSON that says the same to a program and nothing to a terminal: what harmless() would replace
// stands in it as \uXXXX. `json` is well formed, as a JSON library wrote it.
std::string harmless_json(std::string_view json);

}  // namespace gpunode
