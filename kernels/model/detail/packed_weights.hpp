// Weights as a device's products in bf16 read them: rounded and laid out once for all slices of a
// step, in the direction of the forward pass and in that of the gradient of inputs. Who first needs
// one makes it ready, and who needs it meanwhile does a part of that. Memory: 4 bytes a weight of a
// linear layer.
#pragma once

#include <atomic>
#include <map>
#include <utility>

#include "kernels/graph/executable.hpp"
#include "kernels/model/model.hpp"
#include "kernels/tensor/buffer.hpp"

namespace gpunode::model {

class PackedWeights final : public graph::PackedOperands {
 public:
  // Of a training graph: nothing where its products are in fp32. Fails with: out_of_memory.
  Result<void> place(const graph::Graph& graph, tensor::BufferPool& pool,
                     const ops::Capabilities& device);
  // These parameters are others now. No stage that uses them may be under way.
  void make_stale(ElementRange part);
  bool empty() const { return packed_.empty(); }
  Result<ByteView> of(const graph::Call& call, std::size_t operand, bool transpose_b) override;

 private:
  struct Packed {
    std::size_t count = 0;  // elements
    std::size_t bytes = 0;
    tensor::Buffer memory;
    std::int64_t parts = 1;
    std::atomic<std::int64_t> next{0}, done{0};  // parts begun and ended
    std::atomic<bool> failed{false};
  };
  static Result<void> do_parts(Packed& packed, const graph::Call& call, std::size_t operand,
                               bool transpose_b);

  std::map<std::pair<std::size_t, bool>, Packed> packed_;  // by first element, and transpose_b
};

// What it takes.
std::uint64_t packed_weight_bytes(const graph::Graph& graph);

}  // namespace gpunode::model
