// GPT over bytes or tokens: token and position embedding, pre-norm blocks of
// causal attention and a GELU network, output weights tied to the token table. A sample is context
// + 1 of them: each of the first `context` predicts its successor. Source: Radford et al., "Language
// Models are Unsupervised Multitask Learners", 2019.
#pragma once

#include "kernels/model/text_model.hpp"

namespace gpunode::model {

struct GptConfig {
  std::int64_t layers = 4;        // L; more: deeper, slower in proportion
  std::int64_t heads = 4;         // H, divides channels
  std::int64_t channels = 128;    // C; more: wider, cost grows with its square
  std::int64_t context = 64;      // T, tokens seen at once
  std::int64_t vocabulary = 256;  // V, tokens 0 .. V-1; up to 256 are bytes of a text
  std::int64_t expansion = 4;     // inner width of the network in each block, in channels
};

class Gpt final : public TextModel {
 public:
  // Fails with: invalid_argument (heads do not divide channels).
  static Result<std::unique_ptr<Gpt>> open(GptConfig config);

  std::string kind() const override { return "gpt"; }
  std::string name() const override;
  Settings config() const override;
  std::size_t vocabulary() const override { return static_cast<std::size_t>(config_.vocabulary); }
  std::int64_t context() const override { return config_.context; }
  // Weights N(0, 0.02), residual projections N(0, 0.02 / sqrt(2 L)), biases 0, norm weights 1.
  void forward(graph::Builder& builder) const override;

 private:
  explicit Gpt(GptConfig config) : config_(config) {}
  GptConfig config_;
};

// Keys: layers, heads, channels, context, vocabulary, expansion.
Result<std::unique_ptr<Model>> make_gpt(const Settings& settings);

}  // namespace gpunode::model
