#include "runtime/tokenizer/detail/pieces.hpp"

#include <algorithm>
#include <utility>

#include "runtime/tokenizer/detail/unicode.hpp"

namespace gpunode::tokenizer::detail {
namespace {

// Each part that was found becomes the end of what stands before it, unless that is one too.
Parts merged_backwards(const Parts& parts) {
  Parts made;
  bool was_found = false;
  for (const Part& part : parts) {
    if (part.found && !was_found && !made.empty())
      made.back().end = part.end;
    else
      made.push_back(part);
    was_found = part.found;
  }
  return made;
}

Parts merged_forwards(Parts parts) {
  std::ranges::reverse(parts);
  Parts made;
  bool was_found = false;
  for (const Part& part : parts) {
    if (part.found && !was_found && !made.empty())
      made.back().begin = part.begin;
    else
      made.push_back(part);
    was_found = part.found;
  }
  std::ranges::reverse(made);
  return made;
}

Parts merged_alike(const Parts& parts) {
  Parts made;
  for (const Part& part : parts)
    if (!made.empty() && made.back().found == part.found)
      made.back().end = part.end;
    else
      made.push_back(part);
  return made;
}

Parts arranged(Parts parts, SplitBehaviour behaviour) {
  switch (behaviour) {
    case SplitBehaviour::removed:
      std::erase_if(parts, [](const Part& part) { return part.found; });
      return parts;
    case SplitBehaviour::isolated:
      return parts;
    case SplitBehaviour::contiguous:
      return merged_alike(parts);
    case SplitBehaviour::merged_with_previous:
      return merged_backwards(parts);
    case SplitBehaviour::merged_with_next:
      return merged_forwards(std::move(parts));
  }
  return parts;
}

}  // namespace

void add_found(Parts& parts, std::size_t begin, std::size_t end) {
  const std::size_t last = parts.empty() ? 0 : parts.back().end;
  if (last < begin) parts.push_back({last, begin, false});
  parts.push_back({begin, end, true});
}

void add_rest(Parts& parts, std::size_t size) {
  const std::size_t last = parts.empty() ? 0 : parts.back().end;
  if (last < size) parts.push_back({last, size, false});
}

Result<void> split(Pieces& pieces, const Finder& find, SplitBehaviour behaviour) {
  Pieces made;
  made.reserve(pieces.size());
  for (Piece& piece : pieces) {
    if (piece.token != kNone) {
      made.push_back(std::move(piece));
      continue;
    }
    auto parts = find(piece.text);
    if (!parts) return parts.error();
    for (const Part& part : arranged(*std::move(parts), behaviour))
      if (part.begin < part.end)
        made.push_back({piece.text.substr(part.begin, part.end - part.begin),
                        piece.first && part.begin == 0, kNone});
  }
  pieces = std::move(made);
  return {};
}

Finder characters_that(std::function<bool(char32_t)> is) {
  return [is = std::move(is)](std::string_view text) -> Result<Parts> {
    Parts parts;
    for (std::string_view left = text; !left.empty();) {
      const std::size_t begin = text.size() - left.size();
      if (is(take_character(left))) add_found(parts, begin, text.size() - left.size());
    }
    add_rest(parts, text.size());
    return parts;
  };
}

Finder exactly(std::string wanted) {
  return [wanted = std::move(wanted)](std::string_view text) -> Result<Parts> {
    Parts parts;
    for (std::size_t at = 0; !wanted.empty();) {
      const std::size_t begin = text.find(wanted, at);
      if (begin == std::string_view::npos) break;
      add_found(parts, begin, begin + wanted.size());
      at = begin + wanted.size();
    }
    add_rest(parts, text.size());
    return parts;
  };
}

Finder all_but(Finder find) {
  return [find = std::move(find)](std::string_view text) -> Result<Parts> {
    auto parts = find(text);
    if (!parts) return parts;
    for (Part& part : *parts) part.found = !part.found;
    return parts;
  };
}

}  // namespace gpunode::tokenizer::detail
