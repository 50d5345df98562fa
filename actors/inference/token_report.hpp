// What is told of each token of a text to who asks for it, and the form in which a text comes. The
// probabilities are the model's own: of its scores as they are, before temperature, penalties, filters and a
// form that is asked for, as OpenAI and vLLM tell them (vLLM's raw_logprobs).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpunode::inference {

struct RatedToken {
  std::string bytes;                     // that it adds to a text; half a character is possible
  std::optional<float> log_probability;  // nothing: nothing stands before it
};
struct TokenReport {
  RatedToken token;                // that stands in the text, or ended it
  std::vector<RatedToken> likely;  // the most likely in its place, the best first
  std::uint32_t place = 0;         // characters of the text before it
};

// A part of a text, in the order of the text; what is told of its tokens comes with it or later.
struct TextPiece {
  std::string_view text;
  std::span<const TokenReport> reports = {};
};

}  // namespace gpunode::inference
