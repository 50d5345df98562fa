// The slice plan of the next step, from the times that all members told in this one. Pure integer
// arithmetic on what every DONE said, so that every member derives the same plan without a word:
// members start from the plan and the paces that the view record carries, and step on alike.
//
//   cost of a plan = max over members of ceil(share / workers) x time of a slice
//                  + time of a gradient x (most partial sums + 1) x (N - 1) / N
// Ties: fewest partial sums, then fewest slices that change hands. A plan is given up only for one
// that is cheaper by more than 1/32, so that noise moves nothing. Costs microseconds for usual jobs
// (64 slices, 16 members); above 256 slices only every 16th step looks for a better plan, among
// shares near the ideal ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/collective/slice_plan.hpp"
#include "runtime/collective/step_times.hpp"

namespace gpunode::collective {

// Smoothed times of one member.
struct Pace {
  std::uint32_t slice_us = 0;  // one slice on one worker
  std::uint16_t workers = 1;
  std::uint16_t samples = 0;  // steps it was measured in; 0: not known yet
  bool operator==(const Pace&) const = default;
};

struct Paces {
  std::vector<Pace> members;      // by rank
  std::uint32_t gradient_us = 0;  // to send one gradient while nobody computes
  std::uint16_t gradient_samples = 0;

  static Paces of_members(std::uint16_t member_count);
  // For the view record: one word a rank, then one for the gradient. from_words gives unknown paces
  // for a list of any other length; every word is valid, and what no member can
  // have measured is cut.
  std::vector<std::uint64_t> to_words() const;
  static Paces from_words(std::span<const std::uint64_t> words, std::uint16_t member_count);
  bool operator==(const Paces&) const = default;
};

// The paces after a step that was computed under `plan`. `told`: by rank. `one_sum`: a member sends
// one partial sum, whatever its share is.
Paces paces_after(const Paces& before, const Tree& tree, const SlicePlan& plan,
                  std::span<const StepTimes> told, bool one_sum = false);

struct PlanChange {
  std::uint64_t step = 0;      // that the plan is for
  bool from_anything = false;  // the present plan was made in need: any better one is taken
  bool one_sum = false;        // as of paces_after
};

// The plan after `present`, which fits the tree and the member count. Members without a pace are
// taken as the median of the others.
SlicePlan paced_plan(const Tree& tree, const SlicePlan& present, const Paces& paces,
                     PlanChange change);

}  // namespace gpunode::collective
