// The Llama family over bytes or tokens: token embedding, pre-norm blocks of causal
// attention with rotary positions and grouped queries, and a SwiGLU network; RMS normalisation, no
// biases, output weights of their own unless tied. Mistral- and Qwen2-like configurations are settings of it.
// Sources: Touvron et al., "LLaMA", 2023; Ainslie et al., "GQA", 2023.
#pragma once

#include "kernels/model/text_model.hpp"

namespace gpunode::model {

struct LlamaConfig {
  std::int64_t layers = 4;          // L
  std::int64_t heads = 4;           // H, divides channels
  std::int64_t kv_heads = 2;        // K, divides heads; fewer: smaller caches, a little less exact
  std::int64_t channels = 128;      // C; C / H is even
  std::int64_t hidden = 344;        // F, inner width of the network
  std::int64_t context = 64;        // T, tokens seen at once
  std::int64_t vocabulary = 256;    // V, tokens 0 .. V-1; up to 256 are bytes of a text
  std::int64_t theta = 10000;       // base of the rotary angles; larger for longer contexts
  std::int64_t attention_bias = 0;  // 1: queries, keys and values have biases, as in Qwen2
  std::int64_t tied = 0;            // 1: the token table is the output weight too
  double epsilon = 1e-5;            // of the normalisations
};

class Llama final : public TextModel {
 public:
  // Fails with: invalid_argument (heads that do not divide).
  static Result<std::unique_ptr<Llama>> open(LlamaConfig config);

  std::string kind() const override { return "llama"; }
  std::string name() const override;
  Settings config() const override;
  std::size_t vocabulary() const override { return static_cast<std::size_t>(config_.vocabulary); }
  std::int64_t context() const override { return config_.context; }
  // Weights N(0, 0.02), residual projections N(0, 0.02 / sqrt(2 L)), norm weights 1. The projection
  // of queries, keys and values is one weight ((H + 2 K) * C/H, C) in this order; gate and up are
  // one (2 F, C).
  void forward(graph::Builder& builder) const override;

 private:
  explicit Llama(LlamaConfig config) : config_(config) {}
  LlamaConfig config_;
};

// Keys: the fields of LlamaConfig.
Result<std::unique_ptr<Model>> make_llama(const Settings& settings);

}  // namespace gpunode::model
