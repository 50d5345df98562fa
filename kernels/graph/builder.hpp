// Writes a graph: a model's forward pass is a function that calls this once an operation, in the
// order of the computation (gpt.cpp shows one). The same function gives the graph of training, of
// evaluation and of a decoder that reads texts through a cache. Parameters lie in the flat vector
// in the order in which they are declared. Operands, types, shapes and numbers are checked; a wrong
// one is a bug of the model's, and the first one's text is kept: see finish().
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/graph/graph.hpp"
#include "kernels/ops/batchnorm.hpp"
#include "kernels/ops/layernorm.hpp"
#include "kernels/ops/rmsnorm.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::graph {

// What a parameter is before the first step.
struct Initial {
  enum class Kind : std::uint8_t { normal, constant } kind = Kind::constant;
  float value = 0;  // the standard deviation around 0, or the constant
};
constexpr Initial normal(float deviation) {
  return {Initial::Kind::normal, deviation};
}
constexpr Initial constant(float value) {
  return {Initial::Kind::constant, value};
}

struct Declared {
  ValueId value = kNone;
  Initial initial;
  bool decay = false;
  float momentum = 0;  // of a buffer: see buffer(); of a parameter 0
};

class Builder {
 public:
  // A pass that reads T positions more of some texts, one sample in all, through a cache in pages.
  struct Decoding {
    std::int64_t context = 0;  // positions that a text may have; 0: it is no such pass
    std::int64_t texts = 1;    // S
    std::int64_t page = 16;    // positions of a page
    std::int64_t pages = 0;    // of the cache, for all texts
    std::int64_t chosen = 1;   // of the T positions so many predict
  };
  struct Options {
    std::int64_t samples = 1;    // B: in one slice
    std::int64_t positions = 1;  // T: read at once
    Decoding decoding = {};
    bool training = true;  // else what was measured in training is used, not measured
  };
  explicit Builder(Options options);

  std::int64_t samples() const { return options_.samples; }
  std::int64_t positions() const { return options_.positions; }

  // B samples of `shape`.
  ValueId input(std::string name, Dtype dtype, std::initializer_list<std::int64_t> shape);
  // Matrices decay, vectors do not.
  ValueId parameter(std::string name, std::initializer_list<std::int64_t> shape, Initial initial);
  // Numbers that training measures in place of learning them: a step moves them by the share
  // `momentum` towards what its samples say. They lie behind all parameters in the flat vector, in
  // the order in which they are declared.
  ValueId buffer(std::string name, std::initializer_list<std::int64_t> shape, Initial initial,
                 float momentum);
  // A table of numbers that never changes; one with a known name is the one made before.
  ValueId constant(std::string name, std::initializer_list<std::int64_t> shape,
                   std::shared_ptr<const std::vector<float>> contents);
  // Names of parameters declared from here on begin with it.
  void scope(std::string prefix) { prefix_ = std::move(prefix); }
  // Forward and backward may pause here, so that a slice's gradient leaves in parts.
  void pause() { ++graph_.forward_stages; }

  // tokens and segments (B, T), tables (V, C), (L, C), (S, C) -> (B, T, C); the last two tables may
  // be absent
  ValueId embedding(ValueId tokens, ValueId token_table, ValueId position_table = kNone,
                    ValueId segments = kNone, ValueId segment_table = kNone);
  // x (..., C), weight and bias (C) -> (..., C)
  ValueId layernorm(ValueId x, ValueId weight, ValueId bias,
                    float epsilon = ops::kLayernormEpsilon);
  // x (..., C), weight (C) -> (..., C)
  ValueId rmsnorm(ValueId x, ValueId weight, float epsilon = ops::kRmsnormEpsilon);
  // x (..., K), weight (N, K), bias (N) or kNone -> (..., N)
  ValueId linear(ValueId x, ValueId weight, ValueId bias = kNone);
  ValueId gelu(ValueId x, ops::GeluForm form = ops::GeluForm::tanh);
  ValueId relu(ValueId x);
  ValueId tanh(ValueId x);
  // x (..., 2*F), gate then up -> (..., F)
  ValueId swiglu(ValueId x);
  ValueId add(ValueId a, ValueId b);
  // How a window moves over height and width.
  struct Steps {
    std::int64_t stride = 1, padding = 0;
  };
  // x (B, H, W, C), weight (O, KH, KW, C) -> (B, OH, OW, O)
  ValueId conv2d(ValueId x, ValueId weight, Steps steps);
  struct Statistics {
    ValueId mean, variance;  // (C), (C); both or neither
  };
  // x (..., C), weight and bias (C) -> (..., C). In training with the statistics of the slice, which
  // the buffers `running`, if there are any, follow; else with those of the buffers.
  ValueId batchnorm(ValueId x, ValueId weight, ValueId bias, Statistics running = {kNone, kNone},
                    float epsilon = ops::kBatchnormEpsilon);
  // With these statistics; it has no gradient.
  ValueId batchnorm_inference(ValueId x, ValueId weight, ValueId bias, Statistics statistics,
                              float epsilon = ops::kBatchnormEpsilon);
  // x (B, H, W, C) -> (B, OH, OW, C): the largest of each window
  ValueId max_pool2d(ValueId x, std::int64_t window, Steps steps);
  // x (B, ..., C) -> (B, C): the mean over all between
  ValueId mean_pool(ValueId x);
  // qkv (B, T, (heads + 2*kv_heads) * D) -> the same, its query and key heads turned
  ValueId rotary(ValueId qkv, std::int64_t heads, std::int64_t kv_heads, double theta = 10000);
  struct AttentionOptions {
    std::int64_t heads = 1;     // H
    std::int64_t kv_heads = 0;  // K, divides H: heads of keys and values; 0: K = H
    bool causal = true;         // false: positions see those after them; not in decoding
    ValueId lengths = kNone;    // (B): first positions of each sample that are real; kNone: all
  };
  // qkv (B, T, (H + 2*K)*D) -> (B, T, H*D); in decoding against its cache
  ValueId attention(ValueId qkv, const AttentionOptions& options);
  // x (B, T, C): all of it in training; in a decoding pass the chosen positions, (1, chosen, C)
  ValueId predicting(ValueId x);
  // x (B, T, C): what the model makes of each position, for whoever asks for that alone: vectors that
  // stand for a text.
  void represent(ValueId x);
  // logits (..., V), targets, an input (-1: none for this row): ends the model. In a session the logits are
  // what it gives.
  void predict(ValueId logits, ValueId targets);

  // Parameters, then, once finish() was called, buffers.
  const std::vector<Declared>& declared() const { return declared_; }
  // The forward graph. Fails with: invalid_argument (what the first wrong call was).
  Result<Graph> finish();

 private:
  bool is_decoding() const { return options_.decoding.context > 0; }
  bool knows(ValueId value) const { return value < graph_.values.size(); }
  // Of an operand; one that is missing or of another graph is noted, and has none.
  tensor::Shape shape(ValueId operand);
  // The shape of what is declared; one that no tensor has is noted.
  tensor::Shape declared_shape(const std::string& name, std::span<const std::int64_t> extents);
  void refuse(std::string text);  // the first is kept
  // A result of `op` with this shape; notes a wrong call unless `fits`.
  std::vector<ValueId> node(Op op, std::vector<ValueId> in, std::vector<tensor::Shape> results,
                            bool fits, Attributes attributes = {});
  // Behind the parameters, where what is measured for them lies too.
  void place_buffers();

  Options options_;
  Graph graph_;
  std::string prefix_;
  std::vector<Declared> declared_, buffers_;
  std::optional<Error> failure_;
  std::string bad_operand_;  // of the operation that is being written
};

}  // namespace gpunode::graph
