// A text in pieces on the way to its tokens, and the ways to cut pieces into smaller ones.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/tokenizer/token.hpp"

namespace gpunode::tokenizer::detail {

struct Piece {
  std::string text;
  bool first = false;   // begins where the whole text does
  Token token = kNone;  // it is this one already, and stays as it is
};
using Pieces = std::vector<Piece>;

// A part of a text: what was looked for, or what stands between. All parts of a text make it up.
struct Part {
  std::size_t begin = 0, end = 0;
  bool found = false;
};
using Parts = std::vector<Part>;
using Finder = std::function<Result<Parts>(std::string_view text)>;

// What becomes of that which was found.
enum class SplitBehaviour {
  removed,
  isolated,              // a piece each
  contiguous,            // a piece of all that follow each other
  merged_with_previous,  // the end of the piece before it
  merged_with_next       // the beginning of the one behind it
};

// Cuts all pieces that are no tokens. Fails with: what `find` fails with.
Result<void> split(Pieces& pieces, const Finder& find, SplitBehaviour behaviour);

// Adds one that was found, and what stands between it and the one before; and what stands behind all.
void add_found(Parts& parts, std::size_t begin, std::size_t end);
void add_rest(Parts& parts, std::size_t size);

// Finds the characters of which `is` says yes, each by itself.
Finder characters_that(std::function<bool(char32_t)> is);
// Finds a text. Nothing is found of an empty one.
Finder exactly(std::string text);
// Finds what `find` does not.
Finder all_but(Finder find);

}  // namespace gpunode::tokenizer::detail
