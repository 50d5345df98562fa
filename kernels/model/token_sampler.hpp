// Chooses the next token from a model's scores, and continues a text with it. The choice is a
// function of (seed, number of the draw, scores), so a request repeated elsewhere gives the same
// text. Owned by whoever generates; no threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/model/model.hpp"

namespace gpunode::model {

struct SamplingOptions {
  double temperature = 1.0;  // 0 = always the most probable token; higher = more varied
  int top_k = 0;             // only the k most probable tokens; 0 = all
  std::uint64_t seed = 0;
};

class TokenSampler {
 public:
  explicit TokenSampler(SamplingOptions options) : options_(options) {}
  // Non-finite scores are never chosen; if all are, token 0.
  Token choose(std::span<const float> logits);

 private:
  SamplingOptions options_;
  std::uint64_t draws_ = 0;
  std::vector<std::pair<float, Token>> order_;
};

// A text being continued beyond the session's capacity: when it is full, the newer half is read
// again and the text goes on.
class Generator {
 public:
  Generator(std::unique_ptr<Session> session, std::size_t vocabulary, SamplingOptions options);
  // Reads the prompt; of a long one, its end. An empty one counts as a newline.
  // Fails with: what Session::append fails with.
  Result<void> prompt(std::span<const Token> tokens);
  // The next token. Fails with: wrong_state before prompt(), what Session::append fails with.
  Result<Token> next();

 private:
  Result<void> feed(std::span<const Token> tokens);
  std::unique_ptr<Session> session_;
  TokenSampler sampler_;
  std::vector<float> logits_;
  std::vector<Token> window_;  // the tokens that the session holds
  bool ready_ = false;
};

}  // namespace gpunode::model
