// The forms that texts of one model are asked for in: read once and kept for those that ask again, and which
// of the model's tokens may come next in a text of one. Owned by a text engine, one thread. The vocabulary is
// laid out when the first form is asked for (some 16 bytes a byte of its tokens).
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/model/model.hpp"
#include "runtime/grammar/grammar.hpp"
#include "runtime/grammar/matcher.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

namespace gpunode::inference {

class TextForms {
 public:
  TextForms(std::shared_ptr<const tokenizer::Tokenizer> tokenizer, std::size_t vocabulary,
            std::span<const model::Token> ends)
      : tokenizer_(std::move(tokenizer)),
        vocabulary_(vocabulary),
        ends_(ends.begin(), ends.end()) {}

  // A text of the form, that begins. Fails with: what parse_form fails with, unsupported (the tokens of the
  // model are not bytes one behind the other).
  Result<grammar::Matcher> begin(const std::string& form);
  // Makes the scores of all tokens that may not come next in the text -infinity; those that end it may
  // where it may end. Fails with: unsupported (the model has no token to go on with).
  Result<void> limit(grammar::Matcher& text, std::span<float> scores);
  // The token that was chosen. Fails with: what Matcher::add fails with.
  Result<void> add(grammar::Matcher& text, model::Token token) const;

 private:
  struct Kept {
    std::string form;
    std::shared_ptr<const grammar::Automaton> automaton;
  };

  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  const std::size_t vocabulary_;
  const std::vector<model::Token> ends_;
  std::list<Kept> kept_;  // newest first
  std::optional<grammar::TokenMasks> masks_;
};

}  // namespace gpunode::inference
