#include "actors/inference/text_forms.hpp"

#include <algorithm>
#include <limits>

namespace gpunode::inference {
namespace {

constexpr std::size_t kMostKept = 8;

// What each token is in a text; nothing of those that have no text.
std::vector<std::string> texts_of(const tokenizer::Tokenizer& tokenizer, std::size_t count,
                                  std::span<const model::Token> ends) {
  std::vector<std::string> texts(count);
  for (std::size_t number = 0; number < count; ++number) {
    const auto token = static_cast<model::Token>(number);
    if (!tokenizer.is_special(token) && std::ranges::find(ends, token) == ends.end())
      texts[number] = tokenizer.bytes_of(token);
  }
  return texts;
}

}  // namespace

Result<grammar::Matcher> TextForms::begin(const std::string& form) {
  if (!tokenizer_->is_made_of_bytes())
    return Error{ErrorCode::unsupported,
                 "the model's tokens are no pieces of a text that stand one behind the other: it "
                 "cannot be asked for a form"};
  const auto found = std::ranges::find(kept_, form, &Kept::form);
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
  } else {
    auto automaton = grammar::parse_form(form);
    if (!automaton) return automaton.error().within("the form of the text");
    if (kept_.size() == kMostKept) kept_.pop_back();
    kept_.push_front({form, *std::move(automaton)});
  }
  if (!masks_)
    masks_.emplace(
        std::make_shared<grammar::Vocabulary>(texts_of(*tokenizer_, vocabulary_, ends_)));
  return grammar::Matcher(kept_.front().automaton);
}

Result<void> TextForms::limit(grammar::Matcher& text, std::span<float> scores) {
  const grammar::TokenMasks::Mask allowed = masks_->allowed(text);
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  std::vector<std::pair<std::size_t, float>> of_ends;
  if (text.may_end())
    for (const model::Token end : ends_)
      if (const auto at = static_cast<std::size_t>(end); at < scores.size())
        of_ends.emplace_back(at, scores[at]);
  bool has_any = !of_ends.empty();
  for (std::size_t word = 0; word < allowed.size(); ++word) {
    const std::size_t first = word * 64, behind = std::min(first + 64, scores.size());
    const std::uint64_t bits = allowed[word];
    has_any = has_any || bits != 0;
    if (bits == ~std::uint64_t{0}) continue;
    for (std::size_t token = first; token < behind; ++token)
      if ((bits >> (token - first) & 1) == 0) scores[token] = kNever;
  }
  for (const auto& [end, score] : of_ends) scores[end] = score;
  if (has_any) return {};
  return {ErrorCode::unsupported,
          "no token of the model goes on with the text in the form that is asked for: ask for "
          "one of the letters that it has"};
}

Result<void> TextForms::add(grammar::Matcher& text, model::Token token) const {
  return text.add(tokenizer_->bytes_of(token));
}

}  // namespace gpunode::inference
