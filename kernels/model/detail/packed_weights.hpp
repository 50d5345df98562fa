// Weights as a device's products in bf16 read them: rounded and laid out once for all slices of a
// step, in the direction of the forward pass and in that of the gradient of inputs. Who first needs
// one makes it ready; others wait for that. Memory: 4 bytes a weight of a linear layer.
#pragma once

#include <map>
#include <mutex>
#include <utility>

#include "kernels/graph/executable.hpp"
#include "kernels/model/model.hpp"
#include "kernels/tensor/buffer.hpp"

namespace gpunode::model {

class PackedWeights final : public graph::PackedOperands {
 public:
  // Of a training graph: nothing where its products are in fp32. Fails with: out_of_memory.
  Result<void> place(const graph::Graph& graph, tensor::BufferPool& pool);
  // These parameters are others now. No stage that uses them may be under way.
  void make_stale(ElementRange part);
  Result<ByteView> of(const graph::Call& call, std::size_t operand, bool transpose_b) override;

 private:
  struct Packed {
    std::mutex mutex;
    bool stale = true;
    std::size_t count = 0;  // elements
    std::size_t bytes = 0;
    tensor::Buffer memory;
  };
  std::map<std::pair<std::size_t, bool>, Packed> packed_;  // by first element, and transpose_b
};

// What it takes.
std::uint64_t packed_weight_bytes(const graph::Graph& graph);

}  // namespace gpunode::model
