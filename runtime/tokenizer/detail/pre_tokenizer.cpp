#include "runtime/tokenizer/detail/pre_tokenizer.hpp"

#include <map>
#include <utility>

#include "runtime/tokenizer/detail/byte_letters.hpp"
#include "runtime/tokenizer/detail/normalizer.hpp"
#include "runtime/tokenizer/detail/regex.hpp"
#include "runtime/tokenizer/detail/unicode.hpp"

namespace gpunode::tokenizer::detail {
namespace {

using Made = Result<PreTokenizer>;

// GPT-2's words. Source: its encoder.py.
constexpr const char* kByteLevelWords =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

PreTokenizer cut(Finder find, SplitBehaviour behaviour) {
  return [find = std::move(find), behaviour](Pieces& pieces) {
    return split(pieces, find, behaviour);
  };
}

template <class Change>
void change_texts(Pieces& pieces, const Change& change) {
  for (Piece& piece : pieces)
    if (piece.token == kNone) change(piece);
}

Made byte_level(const Json& json) {
  Finder words;
  if (flag(json, "use_regex", true)) {
    auto find = make_finder(Json{{"Regex", kByteLevelWords}});
    if (!find) return find.error();
    words = *std::move(find);
  }
  return PreTokenizer([words = std::move(words), space = flag(json, "add_prefix_space", true)](
                          Pieces& pieces) -> Result<void> {
    if (space)
      change_texts(pieces, [](Piece& piece) {
        if (!piece.text.starts_with(' ')) piece.text.insert(0, 1, ' ');
      });
    if (words)
      if (auto done = split(pieces, words, SplitBehaviour::isolated); !done) return done;
    change_texts(pieces, [](Piece& piece) { piece.text = byte_letters(piece.text); });
    return {};
  });
}

Made metaspace(const Json& json) {
  const std::string mark = text(json, "replacement", "\u2581");
  const std::string scheme = prepend_scheme(json);
  return PreTokenizer(
      [mark, scheme, cuts = flag(json, "split", true)](Pieces& pieces) -> Result<void> {
        change_texts(pieces, [&](Piece& piece) {
          std::string marked;
          for (const char letter : piece.text)
            if (letter == ' ')
              marked += mark;
            else
              marked += letter;
          const bool before = scheme == "always" || (scheme == "first" && piece.first);
          if (before && !marked.starts_with(mark)) marked.insert(0, mark);
          piece.text = std::move(marked);
        });
        if (!cuts) return {};
        return split(pieces, exactly(mark), SplitBehaviour::merged_with_next);
      });
}

Result<SplitBehaviour> behaviour_in(const Json& json) {
  static const std::map<std::string, SplitBehaviour> kNames{
      {"Removed", SplitBehaviour::removed},
      {"Isolated", SplitBehaviour::isolated},
      {"Contiguous", SplitBehaviour::contiguous},
      {"MergedWithPrevious", SplitBehaviour::merged_with_previous},
      {"MergedWithNext", SplitBehaviour::merged_with_next}};
  const auto found = kNames.find(text(json, "behavior", "Isolated"));
  if (found == kNames.end()) return not_known("behavior", text(json, "behavior"));
  return found->second;
}

Made cut_by_pattern(const Json& json) {
  auto find = make_finder(field(json, "pattern"));
  if (!find) return find.error();
  const auto behaviour = behaviour_in(json);
  if (!behaviour) return behaviour.error();
  const bool inverted = flag(json, "invert", false);
  return cut(inverted ? all_but(*std::move(find)) : *std::move(find), *behaviour);
}

Made punctuation(const Json& json) {
  const auto behaviour = behaviour_in(json);
  if (!behaviour) return behaviour.error();
  return cut(characters_that(is_punctuation), *behaviour);
}

Made digits(const Json& json) {
  return cut(characters_that(is_number), flag(json, "individual_digits", false)
                                             ? SplitBehaviour::isolated
                                             : SplitBehaviour::contiguous);
}

Made in_turn(std::vector<PreTokenizer> steps) {
  return PreTokenizer([steps = std::move(steps)](Pieces& pieces) -> Result<void> {
    for (const PreTokenizer& step : steps)
      if (auto done = step(pieces); !done) return done;
    return {};
  });
}

Made bert(const Json&) {
  return in_turn({cut(characters_that(is_whitespace), SplitBehaviour::removed),
                  cut(characters_that(is_punctuation), SplitBehaviour::isolated)});
}

// Words, and what stands together between words and spaces.
Made whitespace(const Json&) {
  const auto spaces = characters_that(is_whitespace), letters = characters_that(is_word);
  return in_turn({cut(spaces, SplitBehaviour::removed), cut(letters, SplitBehaviour::contiguous)});
}

Made whitespace_split(const Json&) {
  return cut(characters_that(is_whitespace), SplitBehaviour::removed);
}

Made delimiter(const Json& json) {
  auto mark = required_text(json, "delimiter");
  if (!mark) return mark.error();
  return cut(exactly(*std::move(mark)), SplitBehaviour::removed);
}

Made sequence(const Json& json) {
  auto steps = all_made(field(json, "pretokenizers"), make_pre_tokenizer);
  if (!steps) return steps.error();
  return in_turn(*std::move(steps));
}

}  // namespace

std::string prepend_scheme(const Json& metaspace) {
  const bool before = flag(metaspace, "add_prefix_space", true);  // of older files
  return text(metaspace, "prepend_scheme", before ? "always" : "never");
}

Result<PreTokenizer> make_pre_tokenizer(const Json& json) {
  if (json.is_null()) return in_turn({});
  static const Kinds<Made> kKinds{{"BertPreTokenizer", bert},
                                  {"ByteLevel", byte_level},
                                  {"CharDelimiterSplit", delimiter},
                                  {"Digits", digits},
                                  {"Metaspace", metaspace},
                                  {"Punctuation", punctuation},
                                  {"Sequence", sequence},
                                  {"Split", cut_by_pattern},
                                  {"Whitespace", whitespace},
                                  {"WhitespaceSplit", whitespace_split}};
  return made_by_kind(kKinds, "pre-tokenizer", json);
}

}  // namespace gpunode::tokenizer::detail
