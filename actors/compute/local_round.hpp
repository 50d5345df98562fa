// A round of local training (mode `local`): this member's weights take `inner_steps` AdamW steps on
// the member's own slices, and each slice's share of the change is what the exchange sums. Inner
// step h of round r reads, of each slice, the samples that step (r-1)*inner_steps + h of an exact
// job would read; so every sample is still used once, whoever takes part.
//
// Slices that a member takes over in the middle of a round get a run of their own, from the same
// weights. Which slices were together in a run shows in the result: the mode is not exact.
// The inner moments stay with the member: those of a round's first run go on into the next round; a
// learner starts with zeros.
//
// With `ahead` the next round's run begins while this round's changes travel, on the same slices
// and from the weights as they will be if all members changed them alike (`predict`). Once the
// total is applied, the run is moved by what it told otherwise. Half of a run is done ahead at
// most: beyond that, members drift apart and the job learns worse than without. If other slices are
// wanted then, they get a run of their own. Pure: gradients and updates are handed in. Owner: the
// trainer. Memory: four vectors a run, one or two runs, and one vector a finished run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "actors/compute/partial_store.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::compute {

// Gradient sums of slices at one point of the data, with other weights than the job's.
struct SliceSums {
  std::vector<float> sum;  // over all slices; behind the gradient's elements its tail
  std::map<std::uint32_t, collective::DataFingerprint> data_fingerprint;  // by slice
};
// The inner optimizer's state; empty: zeros.
struct Moments {
  std::vector<float> first, second;
};
// The gradient comes with its tail.
using InnerUpdate =
    std::function<Result<void>(std::uint64_t step, std::span<const float> gradient_sum,
                               std::uint64_t sample_count, std::span<float> weights, Moments&)>;
using SumSlices = std::function<Result<SliceSums>(
    std::uint64_t data_step, const std::vector<std::uint32_t>& slices, std::span<const float>)>;
// Takes the job's weights to where they are after the round, were the mean change this one.
using Predict = std::function<void(std::span<const float> change, std::span<float> weights)>;

class LocalRound {
 public:
  struct Options {
    std::uint64_t inner_steps = 1;
    std::uint64_t rounds = 1;  // of the job: none is begun ahead after the last one
    bool ahead = false;
    collective::Tree tree = collective::Tree::of_slices(1);
    SumSlices sum_slices;
    InnerUpdate update;
    Predict predict;  // with `ahead` only
  };
  explicit LocalRound(Options options) : options_(std::move(options)) {}

  // Begins the round after `rounds_done`, or changes what is wanted of it.
  void want(std::uint64_t rounds_done, std::vector<collective::TreeNode> nodes);
  // Gives up the changes of the round in work; the inner moments go back to where it began.
  void discard();
  // The weights were replaced, not trained: the moments belong to others.
  void forget();
  // The round's total was applied and led to these weights: its first run's moments are kept, and
  // what was done ahead goes on from there.
  void on_applied(std::span<const float> weights);
  std::vector<std::uint32_t> missing() const;
  // Whether advance() has nothing to do: all is returned, and nothing can be done ahead.
  bool idle() const;
  // Whether the next advance() works for the round after this one.
  bool works_ahead() const { return missing().empty(); }
  // One inner step from the weights of the job. Returns the nodes that are complete with it.
  Result<std::vector<NodeSum>> advance(std::span<const float> weights);

 private:
  struct Run {
    std::vector<std::uint32_t> slices;
    std::vector<float> start = {}, weights = {};
    Moments moments = {};
    std::uint64_t steps_done = 0;
    std::vector<double> tails = {};  // summed over inner steps
    std::map<std::uint32_t, collective::DataFingerprint> data_fingerprint = {};
  };
  struct Change {
    std::vector<float> change;  // start minus end
    std::vector<float> tail;    // mean of a slice and inner step
    std::map<std::uint32_t, collective::DataFingerprint> data_fingerprint;
  };
  std::vector<std::uint32_t> slices_of(collective::TreeNode node) const;
  std::vector<std::uint32_t> wanted_slices() const;  // sorted
  Result<void> take_inner_step(std::uint64_t rounds_before, Run& run) const;
  void end_run();
  void begin_ahead(std::span<const float> weights);
  NodeSum sum_of(collective::TreeNode node) const;
  std::vector<NodeSum> take_complete();

  Options options_;
  std::uint64_t rounds_done_ = 0;
  std::vector<collective::TreeNode> wanted_;
  std::set<collective::TreeNode> returned_;
  std::map<std::uint32_t, std::shared_ptr<const Change>> changes_;  // of the round, by slice
  std::optional<Run> run_, ahead_;                                  // of this round, of the next
  Moments moments_;                                                 // at the beginning of the round
  std::optional<Moments> next_;                                     // after its first run
};

}  // namespace gpunode::compute
