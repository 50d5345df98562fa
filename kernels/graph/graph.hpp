// A model's computation as data: values (tensors with name, shape, type) and nodes (operations that
// make values of values), in the order in which they run. Built once for a shape of slice by a
// Builder, completed by passes (differentiate, fuse, stages, memory plan), then run many times.
// Each value is written by one node; that two of them share memory is the memory plan's doing.
// Immutable once planned; no threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/ops/gelu.hpp"
#include "kernels/ops/weight_format.hpp"
#include "kernels/tensor/shape.hpp"
#include "runtime/base/precision.hpp"

namespace gpunode::graph {

enum class Dtype : std::uint8_t { f32, i32 };

enum class Role : std::uint8_t {
  input,      // given at each run: tokens, targets, pixels
  parameter,  // part of the flat parameter vector; one that is not differentiable is a buffer
  constant,   // the same in every run: the graph carries its contents
  cache,      // lives from run to run: keys and values of texts
  interim,    // made and used within a run
  gradient    // of a parameter: lies where the parameter lies, in the flat gradient; of a buffer:
              // what a slice has measured, as a sum over its samples
};

using ValueId = std::uint32_t;
inline constexpr ValueId kNone = ~ValueId{0};  // an operand that is absent

struct Value {
  std::string name = {};  // of inputs, parameters and caches; empty: its number is its name
  tensor::Shape shape = {};
  Dtype dtype = Dtype::f32;
  Role role = Role::interim;
  std::size_t first = 0;        // parameter, gradient: its first element in the flat vector;
                                // constant: its first element among the constants
  bool differentiable = false;  // a parameter, or made of one
  // A parameter in another one (keep_weights.hpp): `first` counts words of 4 bytes.
  ops::WeightFormat format = ops::WeightFormat::fp32;

  std::size_t element_count() const { return static_cast<std::size_t>(shape.element_count()); }
  std::size_t bytes() const {  // of both types
    if (format == ops::WeightFormat::fp32) return element_count() * 4;
    return static_cast<std::size_t>(shape[0]) * ops::weight_row_bytes(format, shape[1]);
  }
};

// What an operation needs besides operands; each uses the fields that its row in the table names.
struct Attributes {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;             // attention, rotary; 0: as many as heads
  bool causal = false;                   // attention
  bool inverse = false;                  // rotary: the other way
  std::int64_t window = 0;               // of a pool
  std::int64_t stride = 0, padding = 0;  // of a convolution or a pool
  float epsilon = 0;                     // of a normalisation
  std::int64_t samples = 0, rows = 0;    // of a slice, of what is normalised: statistics
  ops::GeluForm form = ops::GeluForm::tanh;
  std::int64_t page = 0;                  // positions of a page of a cache
  Precision precision = Precision::fp32;  // of products: linear's three, attention's
  bool independent_rows = false;          // of linear: see ops::MatmulArgs
  bool operator==(const Attributes&) const = default;
};

enum class Op : std::uint8_t {
  embedding,           // tokens, token table, [position table, segments, segment table,
                       // positions] -> x
  layernorm,           // x, weight, bias -> y, mean, rstd
  linear,              // x, weight, [bias] -> y = x weight^T + bias
  gelu,                // x -> y
  attention,           // joined projection, [lengths] -> out, statistics
  attention_paged,     // joined projection, keys, values, positions, texts, pages -> out
  add,                 // a, b -> a + b
  take_rows,           // row numbers, x -> these rows of x
  cross_entropy,       // logits, targets -> losses
  embedding_backward,  // tokens, dx, [dtoken, segments] -> dtoken (the given one added),
                       // [dposition, dsegment]
  layernorm_backward,  // dy, x, weight, mean, rstd, [dx] -> dx (the given one added), dweight, dbias
  linear_weight,       // dy, x, [dweight] -> dweight (the given one added)
  linear_input,        // dy, weight -> dx
  column_sum,          // dy -> dbias
  gelu_backward,       // dy, x -> dx
  attention_backward,      // dout, qkv, out, statistics, [lengths] -> dqkv
  cross_entropy_backward,  // logits, targets -> dlogits
  cross_entropy_both,      // logits, targets -> losses, dlogits: fused
  linear_gelu,             // x, weight, [bias] -> GELU of y, [y]: fused, as the next two
  add_layernorm,           // a, b, weight, bias -> a + b, y, mean, rstd
  add_rmsnorm,             // a, b, weight -> a + b, y, rstd
  rmsnorm,                 // x, weight -> y, rstd
  rmsnorm_backward,        // dy, x, weight, rstd, [dx] -> dx (the given one added), dweight
  swiglu,                  // x -> y, half as wide
  swiglu_backward,         // dy, x -> dx
  rotary,                  // x, angles, [positions] -> x with its query and key heads turned
  relu,                    // x -> y
  relu_backward,           // dy, y -> dx
  tanh,                    // x -> y
  tanh_backward,           // dy, y -> dx
  conv2d,                  // x, weight -> y
  conv2d_backward,         // dy, x, weight -> dweight, [dx]
  batchnorm,               // x, weight, bias -> y, mean, rstd
  batchnorm_backward,      // dy, x, weight, mean, rstd -> dx, dweight, dbias
  batchnorm_inference,     // x, weight, bias, mean, variance -> y, mean, rstd
  batchnorm_statistics,    // mean, rstd -> sums of means and variances over samples
  max_pool2d,              // x -> y, places
  max_pool2d_backward,     // dy, places -> dx
  mean_pool,               // x -> y
  mean_pool_backward,      // dy -> dx
  count
};

struct Node {
  Op op{};
  std::vector<ValueId> in = {};  // kNone where an operand is absent
  std::vector<ValueId> out = {};
  Attributes attributes = {};
  std::size_t stage = 0;  // where the run may pause: nodes of one stage run together
};

// Inputs of a decoding pass (Builder::Options::decoding): where each row stands, in which of the
// texts, the pages of these, and the rows that predict.
struct DecodingInputs {
  ValueId positions = kNone, texts = kNone, pages = kNone, chosen = kNone;
};

// A value that whoever runs the graph places on the device once, beside the parameters.
struct Constant {
  ValueId value = kNone;
  std::shared_ptr<const std::vector<float>> contents;
};

struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;     // in the order of running: forward, then backward
  std::vector<Node> measures;  // of training: what backward begins with, which fills buffers' parts
                               // of the gradient; differentiate() takes them
  std::size_t forward_stages = 1;  // stages 0 .. forward_stages-1; backward's come after
  std::size_t backward_stages = 0;
  // By stage: the parameters that no earlier one reads; the gradients that are final after it.
  std::vector<tensor::ElementRange> read_first, made_final;
  std::size_t parameter_count = 0;  // elements of the flat vector
  std::vector<Constant> constants;
  std::size_t constant_count = 0;  // elements of all of them, gaps included
  std::vector<ValueId> inputs, parameters, caches;
  DecodingInputs decoding;
  ValueId losses = kNone;  // (rows): what cross-entropy gives, one a predicted token
  ValueId logits = kNone, targets = kNone;  // (rows, V), (rows); targets are an input
  ValueId carried = kNone;      // of a part (cut.hpp): what the one before it has made, an input
  ValueId represented = kNone;  // (B, T, C): what the model makes of each position; kNone: not told

  Value& operator[](ValueId id) { return values[id]; }
  const Value& operator[](ValueId id) const { return values[id]; }
  ValueId add(Value value) {
    values.push_back(std::move(value));
    return static_cast<ValueId>(values.size() - 1);
  }
};

}  // namespace gpunode::graph
