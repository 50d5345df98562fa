// Gradients of several slices at once, layer by layer: forward of all of them, then backward with
// the slices inside each stage. After a stage its slices' gradients are summed along the job's tree
// and that range of the sum is final, so it can leave while the stages before it are still to come.
// A slice is computed alone, by one thread at a time; threads take different slices, or different
// elements of a sum, so which one takes what never shows in the bits.
// Owner: the trainer. Memory: a slot of the program and two stages' gradients a slice.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <vector>

#include "actors/compute/device.hpp"
#include "actors/compute/device_roster.hpp"
#include "actors/compute/partial_store.hpp"
#include "actors/compute/worker_pool.hpp"
#include "kernels/model/model.hpp"

namespace gpunode::compute {

// A node to be summed, and where to: parameter_count elements and the tail, a model::LossSum.
struct PassNode {
  SumTask task;
  std::vector<std::vector<model::Sample>> samples;  // of each of task.slices
  SharedSum sum;
};

class LayeredPass {
 public:
  struct Options {
    model::Program* program = nullptr;  // outlives the pass, as do the other two
    WorkerPool* workers = nullptr;
    Device* device = nullptr;                 // the program's, of these workers
    std::vector<model::ElementRange> stages;  // the model's
    std::size_t forward_stages = 0;           // how many of those it has
    std::size_t parameter_count = 0;
    collective::Tree tree = collective::Tree::of_slices(1);
    DeviceUse* use = nullptr;           // is told that work gets on; may be null
    std::size_t tokens_per_sample = 0;  // the model's; 0: what the program tells is believed
  };
  explicit LayeredPass(Options options);

  // Elements [first, first + count) of nodes[node].sum are final, in host memory too if the node is
  // wanted. Thread: any worker's; several may
  // call at the same time.
  using OnFinal = std::function<void(std::size_t node, std::size_t first, std::size_t count)>;
  // Fills all sums; throws on what a worker threw. The first `ahead` slices of the nodes, in order,
  // are those of forward_ahead(): what it did is not done again. Fails with: what the program fails
  // with; the sums are then unspecified.
  Result<void> run(std::span<const PassNode> nodes, const OnFinal& on_final, std::size_t ahead = 0);

  // Takes forward of slices of the next run on up to its first `stages` stages, whose weights the
  // program has by now. Each call with the same slices, until a run or drop_ahead(). Fails with:
  // what the program fails with; nothing is ahead then.
  Result<void> forward_ahead(std::span<const std::vector<model::Sample>> slices,
                             std::size_t stages);
  void drop_ahead() { ahead_.clear(); }

  // Bytes of slice gradients that a slice under way needs with these stages.
  static std::uint64_t slice_gradient_bytes(std::span<const model::ElementRange> stages);

 private:
  struct Run;

  struct Ahead {
    std::size_t stages = 0;  // done
    std::array<float, model::kTailElements> tail{};
  };
  Result<model::LossSum> believed(const model::LossSum& told, std::size_t samples) const;
  Result<void> forward(int worker, std::size_t slot, const std::vector<model::Sample>& samples,
                       std::size_t stages, Ahead& done);

  Options options_;
  bool staged_ = false;       // else all is one stage, gradient()'s
  std::vector<Ahead> ahead_;  // by slot
  tensor::Buffer parts_;      // gradients of slices under way; kept from step to step
};

}  // namespace gpunode::compute
