// GPT over bytes or other small vocabularies: token and position embedding, pre-norm blocks of
// causal attention and a GELU network, output weights tied to the token table. A sample is context
// + 1 bytes: each of the first `context` predicts its successor. Forward and backward are
// hand-written compositions of backend operations (gpt_program.cpp). Source: Radford et al.,
// "Language Models are Unsupervised Multitask Learners", 2019.
#pragma once

#include "kernels/model/model.hpp"
#include "kernels/tensor/shape.hpp"

namespace gpunode::model {

struct GptConfig {
  std::int64_t layers = 4;        // L; more: deeper, slower in proportion
  std::int64_t heads = 4;         // H, divides channels
  std::int64_t channels = 128;    // C; more: wider, cost grows with its square
  std::int64_t context = 64;      // T, tokens seen at once
  std::int64_t vocabulary = 256;  // V, byte values that may occur: 0 .. V-1
  std::int64_t expansion = 4;     // inner width of the network in each block, in channels
};

// One item for each of a block's parameters: where it lies, or a view of it.
template <class Item>
struct GptBlock {
  Item norm1_weight, norm1_bias;            // (C)
  Item attention_weight, attention_bias;    // (3*C, C), (3*C)
  Item projection_weight, projection_bias;  // (C, C), (C)
  Item norm2_weight, norm2_bias;            // (C)
  Item expand_weight, expand_bias;          // (F, C), (F)
  Item reduce_weight, reduce_bias;          // (C, F), (C)

  // The same with `make` of each item.
  template <class Make>
  auto mapped(const Make& make) const {
    return GptBlock<decltype(make(norm1_weight))>{
        make(norm1_weight),   make(norm1_bias),        make(attention_weight),
        make(attention_bias), make(projection_weight), make(projection_bias),
        make(norm2_weight),   make(norm2_bias),        make(expand_weight),
        make(expand_bias),    make(reduce_weight),     make(reduce_bias)};
  }
};
template <class Item>
struct GptParameters {
  Item token_table, position_table;  // (V, C), (T, C)
  std::vector<GptBlock<Item>> blocks;
  Item norm_weight, norm_bias;  // (C)
};

// A tensor in the flat parameter vector.
struct GptPlace {
  std::size_t first = 0;
  tensor::Shape shape;
};

class Gpt final : public Model {
 public:
  explicit Gpt(GptConfig config);

  std::string kind() const override { return "gpt"; }
  std::string name() const override;
  Settings config() const override;
  const std::vector<ParameterSpec>& parameters() const override { return parameters_; }
  std::size_t parameter_count() const override { return parameter_count_; }
  std::size_t sample_bytes() const override { return tokens_per_sample() + 1; }
  std::size_t tokens_per_sample() const override {
    return static_cast<std::size_t>(config_.context);
  }
  std::size_t vocabulary() const override { return static_cast<std::size_t>(config_.vocabulary); }
  // Weights N(0, 0.02), residual projections N(0, 0.02 / sqrt(2 L)), biases 0, norm weights 1.
  void initialise(std::uint64_t seed, std::span<float> parameters) const override;
  std::uint64_t working_bytes(int workers, std::size_t samples_per_slice) const override;
  // The head and the second layer of the last block's network, its first layer, its attention, the
  // same of the block before it, ..., the embedding: the vector becomes final from its end on.
  std::vector<ElementRange> stages() const override;
  // The embedding, each block's attention and its network, the head.
  std::vector<ElementRange> forward_stages() const override;
  std::uint64_t slot_bytes(std::size_t samples_per_slice) const override;
  Result<std::unique_ptr<Program>> program(ops::Backend& backend, int workers) const override;

  const GptConfig& shape() const { return config_; }
  const GptParameters<GptPlace>& places() const { return places_; }

 private:
  GptPlace append(std::string name, std::initializer_list<std::int64_t> shape, float deviation);

  GptConfig config_;
  GptParameters<GptPlace> places_;
  std::vector<ParameterSpec> parameters_;
  std::vector<float> deviations_;  // of the initial values; 0: constant 0, negative: constant 1
  std::size_t parameter_count_ = 0;
};

// Keys: layers, heads, channels, context, vocabulary, expansion.
Result<std::unique_ptr<Model>> make_gpt(const Settings& settings);

}  // namespace gpunode::model
