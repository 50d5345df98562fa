// A tiny job whose arithmetic is a pure function, and what an undisturbed run of it on one node
// gives after every step: the truth that every simulated run is held against, bit for bit.
#pragma once

#include <memory>
#include <vector>

#include "runtime/base/digest.hpp"
#include "runtime/collective/all_reduce.hpp"
#include "runtime/collective/tree.hpp"

namespace gpunode::sim {

struct JobModel {
  collective::Tree tree = collective::Tree::of_slices(4);
  std::uint64_t element_count = 24;
  std::uint64_t total_steps = 40;
  std::uint64_t seed = 1;
  std::uint64_t ballast_bytes = 0;  // makes the state larger than a gradient, as moments do

  std::vector<float> initial_state() const;
  // Gradient of one slice: a function of (state, step, slice) and of the history's salt alone.
  std::vector<float> slice_gradient(const Digest& state, std::uint64_t step, std::uint32_t slice,
                                    std::uint64_t salt) const;
  // The sum of a tree node, and what was fed into it.
  collective::SharedFloats node_sum(const Digest& state, std::uint64_t step,
                                    collective::TreeNode node, std::uint64_t salt) const;
  collective::DataFingerprint node_fed(std::uint64_t step, collective::TreeNode node) const;
  static void apply(std::vector<float>& state, std::uint64_t step,
                    const std::vector<float>& result);
  SharedBytes bytes_of_state(const std::vector<float>& state) const;
  static void add(float* out, std::span<const float* const> inputs, std::size_t count);
};

// One node alone, in the history that begins the job: [s] is after step s.
struct Truth {
  std::vector<std::vector<float>> values;  // of the state
  std::vector<Digest> state;
  std::vector<Digest> result;
  std::vector<collective::DataFingerprint> running;
};
const Truth& truth_of(const JobModel& model);  // cached

}  // namespace gpunode::sim
