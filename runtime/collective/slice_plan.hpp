// Who computes which slice: a pure function of what the view says, in integer arithmetic, so that
// every member derives the same plan from the same view.
//
// Shares are near-equal integers; every share is split into its powers of two and all blocks of all
// members are packed largest first, so that a member of share s sends popcount(s) partial sums.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/digest.hpp"
#include "runtime/collective/tree.hpp"

namespace gpunode::collective {

struct SlicePlan {
  std::vector<std::uint16_t> owner;  // [G] slice -> rank in the view

  std::vector<std::uint32_t> slices_of(std::uint16_t rank) const;  // sorted
  Digest digest() const;
  bool operator==(const SlicePlan&) const = default;
};

// The plan for members of equal speed. Every member gets at least one slice while G >= members;
// the rest are idle members (share 0).
SlicePlan balanced_plan(const Tree& tree, std::uint16_t member_count);

// The plan for the step that a view change interrupted: survivors keep their slices, the slices of
// the lost are dealt to the least loaded survivors in whole cover blocks, newcomers get none.
// new_rank[r] is the rank in the new view of old rank r, or -1 if it is gone. At least one
// survives.
SlicePlan plan_after_loss(const Tree& tree, const SlicePlan& old_plan,
                          std::span<const std::int32_t> new_rank, std::uint16_t new_member_count);

}  // namespace gpunode::collective
