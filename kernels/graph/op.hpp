// The one table of the graph's operations: each row says what an operation is called, how it runs
// on a backend, what its gradient is made of, and which operand's memory a result may take. A new
// operation is a word in `Op`, a row here and a call in Builder.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "kernels/graph/graph.hpp"
#include "kernels/ops/backend.hpp"

namespace gpunode::graph {

class Gradients;

struct Call;

// Right factors of products that are made ready once for many runs.
class PackedOperands {
 public:
  virtual ~PackedOperands() = default;
  // As MatmulArgs::packed_b: of a parameter that is the call's operand; empty: it is not packed. From
  // any thread. Fails with: what packing fails with.
  virtual Result<ByteView> of(const Call& call, std::size_t operand, bool transpose_b) = 0;
};

// A node about to run: its operands' places in the device's memory.
struct Call {
  ops::Backend& backend;
  const ops::Operations& ops;  // the backend's
  tensor::Stream& stream;
  tensor::Workspace& workspace;
  const Attributes& attributes;
  std::span<const Value*const> in_values, out_values;
  std::span<void*const> in_data, out_data;  // null where an operand is absent
  PackedOperands* packed = nullptr;

  bool has(std::size_t operand) const { return in_data[operand] != nullptr; }
  tensor::ConstTensor in(std::size_t operand) const {
    if (!has(operand)) return {};
    return {static_cast<const float*>(in_data[operand]), in_values[operand]->shape};
  }
  tensor::TokenTensor tokens(std::size_t operand) const {
    if (!has(operand)) return {};
    return {static_cast<const std::int32_t*>(in_data[operand]), in_values[operand]->shape};
  }
  // A parameter that is not in fp32; empty: it is.
  ByteView packed_weights(std::size_t operand) const {
    if (!has(operand) || format(operand) == ops::WeightFormat::fp32) return {};
    return {static_cast<const std::byte*>(in_data[operand]), in_values[operand]->bytes()};
  }
  ops::WeightFormat format(std::size_t operand) const { return in_values[operand]->format; }
  // A cache: read and written.
  tensor::Tensor state(std::size_t operand) const {
    return {static_cast<float*>(in_data[operand]), in_values[operand]->shape};
  }
  tensor::Tensor out(std::size_t result) const {
    if (!out_data[result]) return {};
    return {static_cast<float*>(out_data[result]), out_values[result]->shape};
  }
};

// Of one call, by the shapes of its operands: a rule of detail/costs.hpp.
using CostRule = double(const Graph& graph, const Node& node);

struct OpRow {
  std::string_view name;
  CostRule* flops;
  bool (*is_on)(const ops::Operations& operations);  // whether a device can do it
  // Fails with: what the backend's operation fails with.
  Result<void> (*run)(const Call& call);
  // Adds the gradients of this node's operands; null: it has none.
  void (*backward)(Gradients& gradients, const Node& node) = nullptr;
  // What a result may take over of an operand that nobody needs afterwards: its memory.
  struct Reuse {
    std::size_t result = 0, operand = 0;
  };
  std::vector<Reuse> reuses = {};
  // Scratch memory of one call, in bytes; null: none.
  std::size_t (*workspace_bytes)(const Graph& graph, const Node& node) = nullptr;
  CostRule* bytes = nullptr;  // null: every operand and result once
};

const OpRow& row_of(Op op);

// What the arithmetic of a call needs at least, whatever computes it: the measure of speed and of a
// device's utilisation. What is counted says detail/costs.hpp.
struct Cost {
  double flops = 0, bytes = 0;
  Cost& operator+=(const Cost& more) {
    flops += more.flops;
    bytes += more.bytes;
    return *this;
  }
};
Cost cost_of(const Graph& graph, const Node& node);
Cost cost_of(const Graph& graph);  // of all nodes: a slice

}  // namespace gpunode::graph
