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
  struct Options {
    model::Program* program = nullptr;  // outlives the pass, as do the lanes
    LanePool* lanes = nullptr;
    std::vector<model::ElementRange> stages;  // the model's
    std::size_t parameter_count = 0;
    collective::Tree tree = collective::Tree::of_slices(1);
    collective::AddFn add;  // called by several threads at a time
  };
  explicit LayeredPass(Options options);

  // Elements [first, first + count) of nodes[node].sum are final. Thread: any lane's; several may
  // call at the same time.
  using OnFinal = std::function<void(std::size_t node, std::size_t first, std::size_t count)>;
  // Fills all sums. Fails with: what the program fails with; the sums are then unspecified.
  Result<void> run(std::span<const PassNode> nodes, const OnFinal& on_final);

  // Bytes of slice gradients that a slice under way needs with these stages.
  static std::uint64_t slice_gradient_bytes(std::span<const model::ElementRange> stages);

 private:
  struct Run;

  Options options_;
  bool staged_ = false;       // else all is one stage, gradient()'s
  std::vector<float> parts_;  // of slices under way; kept from step to step
};

}  // namespace gpunode::compute
