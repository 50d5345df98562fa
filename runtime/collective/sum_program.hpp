// The additions that complete one node of the tree from given nodes below it, worked out once and
// run for every chunk. Used by chunk owners for the root, and by whoever turns kept partial sums
// into the cover of a new plan. The bits of the value depend on the tree alone, not on what was
// given. Costs: scratch of a few blocks of 16 KiB, whatever the length, so that it stays in the
// cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "runtime/collective/tree.hpp"

namespace gpunode::collective {

// out = inputs[0] + inputs[1] (+ inputs[2] ...), left to right, elementwise in fp32. `out` may be
// one of the inputs. Handed in from kernels/ops; tests hand in a plain loop.
using AddFn =
    std::function<void(float* out, std::span<const float* const> inputs, std::size_t count)>;

class SumProgram {
 public:
  // The sum of `target` out of `given` nodes. Nothing, unless the given nodes below the target
  // cover it exactly once; given nodes outside it are not used.
  static std::optional<SumProgram> of(const Tree& tree, TreeNode target,
                                      std::span<const TreeNode> given);

  // inputs[i] holds `count` floats of given[i]; those outside the target may be null. `out` may not
  // overlap an input, unless the target was itself given, or it is one that may_be_output().
  // `scratch` is grown once and kept.
  void run(std::span<const float* const> inputs, float* out, std::size_t count, const AddFn& add,
           std::vector<float>& scratch) const;
  // The same, `block` elements at a time, wherever `add` can read and write; `scratch` has
  // scratch_count() blocks. A target that was itself given is not copied here.
  void run_blocks(std::span<const float* const> inputs, float* out, std::size_t count,
                  const AddFn& add, float* scratch, std::size_t block) const;
  std::size_t scratch_count() const { return scratch_count_; }
  // The input that is the target itself, if it was given.
  std::optional<std::size_t> copied_input() const { return copied_input_; }

  // Whether inputs[i], and no other then, may lie where the sum goes.
  bool may_be_output(std::size_t input) const;

 private:
  // Buffers are numbered: the inputs, then the output, then scratch.
  struct Step {
    std::uint32_t out = 0;
    std::vector<std::uint32_t> inputs;
  };
  bool compile(const Tree& tree, TreeNode node, std::span<const TreeNode> given, std::uint32_t out,
               std::uint32_t scratch_in_use);

  std::vector<Step> steps_;
  std::uint32_t input_count_ = 0;
  std::uint32_t scratch_count_ = 0;
  std::optional<std::uint32_t> copied_input_;  // the target was given
};

}  // namespace gpunode::collective
