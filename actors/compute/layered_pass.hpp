// Gradients of several slices at once, layer by layer: forward of all of them, then backward with
// the slices inside each stage. After a stage its slices' gradients are summed along the job's tree
// and that range of the sum is final, so it can leave while the stages before it are still to come.
// A slice is computed alone, by one thread at a time; threads take different slices, or different
// elements of a sum, so which one takes what never shows in the bits.
// Owner: the trainer. Memory: a place of the program and two stages' gradients a slice.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "actors/compute/lane_pool.hpp"
#include "actors/compute/partial_store.hpp"
#include "kernels/model/model.hpp"

namespace gpunode::compute {

// A node to be summed, and where to: parameter_count + 1 elements, the last one the loss.
struct PassNode {
  SumTask task;
  std::vector<std::vector<model::Sample>> samples;  // of each of task.slices
  std::shared_ptr<std::vector<float>> sum;
};

class LayeredPass {
 public:
  // All of them outlive the pass. `add` may be called by several threads at a time.
  LayeredPass(model::Program& program, std::size_t parameter_count, LanePool& lanes,
              collective::Tree tree, collective::AddFn add);

  // Elements [first, first + count) of nodes[node].sum are final. Thread: any lane's; several may
  // call at the same time.
  using OnFinal = std::function<void(std::size_t node, std::size_t first, std::size_t count)>;
  // Fills all sums. Fails with: what the program fails with; the sums are then unspecified.
  Result<void> run(std::span<const PassNode> nodes, const OnFinal& on_final);

  // Bytes of slice gradients that a slice under way needs with these stages.
  static std::uint64_t slice_gradient_bytes(std::span<const model::ElementRange> stages);

 private:
  struct Run;

  model::Program& program_;
  LanePool& lanes_;
  collective::Tree tree_;
  collective::AddFn add_;
  std::size_t parameter_count_;
  std::vector<model::ElementRange> stages_;  // one for all, if the program names none
  bool staged_ = false;
  std::vector<float> parts_;  // of slices under way; kept from step to step
};

}  // namespace gpunode::compute
