// "did you mean": the known word that is closest to a mistyped one, for messages about unknown
// flags, keys and names.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace gpunode {

// The known word with the smallest edit distance (insert, delete, replace, swap of neighbours), or
// an empty string when none is within half of the longer word's length.
std::string nearest_of(std::string_view word, std::span<const std::string> known);

// "unknown key 'stpes'; did you mean 'steps'?" or, with nothing near, a list of what is known.
std::string unknown_word(std::string_view what, std::string_view word,
                         std::span<const std::string> known);

}  // namespace gpunode
