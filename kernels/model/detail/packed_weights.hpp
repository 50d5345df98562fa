// Weights as a device's products in bf16 read them: rounded and laid out once for all slices of a
// step, in the direction of the forward pass and in that of the gradient of inputs, always at the
// same addresses. Who first runs a stage that needs some makes them ready before it, and who needs
// them meanwhile does a part of that; so a stage's own work is the same in every step, and can be
// noted and replayed. Memory: 4 bytes a weight of a linear layer.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

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
  // Where and from what.
  struct Site {
    ops::Backend& backend;
    tensor::Stream& stream;
    tensor::Workspace& workspace;
    const float* parameters = nullptr;
  };
  // Makes ready what the stage reads; what is put on the site's stream after this may read it. From
  // any thread. Fails with: what packing fails with.
  Result<void> make_ready(const graph::Executable& executable, std::size_t stage, const Site& site);
  // Of a stage that was made ready.
  Result<ByteView> of(const graph::Call& call, std::size_t operand, bool transpose_b) override;

 private:
  struct Packed {
    std::size_t count = 0;  // elements
    std::size_t bytes = 0;
    tensor::Buffer memory;
    std::int64_t parts = 1;
    std::atomic<std::int64_t> next{0}, done{0};  // parts begun and ended
    std::atomic<bool> failed{false};
    // Of a device with memory of its own, once it is done: behind it, and whose stream it is on.
    std::shared_ptr<const tensor::Event> made = nullptr;
    const tensor::Stream* maker = nullptr;
  };
  struct Need {
    Packed* packed;
    tensor::ConstTensor weight;
    bool transpose_b;
  };
  std::vector<Need> needs_of(const graph::Executable& executable, std::size_t stage,
                             const float* parameters);
  // Parts of it that nobody has begun. Those that run later are `queued`, and ended by end_queued().
  Result<void> do_parts(const Need& need, const Site& site, std::vector<Packed*>& queued) const;
  static Result<void> end_queued(const Site& site, std::span<Packed* const> queued);
  static void end_part(Packed& packed, bool failed);

  std::map<std::pair<std::size_t, bool>, Packed> packed_;  // by first element, and transpose_b
  bool is_the_hosts_ = false;  // memory in which all is done when its call returns
};

// What it takes.
std::uint64_t packed_weight_bytes(const graph::Graph& graph);

}  // namespace gpunode::model
