// Who computes which slice: a pure function of what the view says, in integer arithmetic, so that
// every member derives the same plan from the same view.
//
// A step takes as long as its largest share, so no share is above ceil(G / members); among such
// plans the one with the fewest partial sums is taken ([4,4,4,2,2] of 16, not [4,3,3,3,3]: 5 sums
// instead of 9). Every share is split into the widths of the tree's levels (its powers of two in a
// binary tree) and all blocks of all members are packed largest first, so each block falls on a
// multiple of its size and is one node: in a binary tree a share of s costs popcount(s) sums.
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
  // Every slice of the tree has an owner among the members. Ask this of a plan that a peer sent.
  bool fits(const Tree& tree, std::uint16_t member_count) const;
  Digest digest() const;
  bool operator==(const SlicePlan&) const = default;
};

// The plan for members of equal speed. Every member gets at least one slice while G >= members;
// the rest are idle members (share 0).
SlicePlan balanced_plan(const Tree& tree, std::uint16_t member_count);

// The plan that gives rank r shares[r] slices; the shares sum up to G. Every share is packed as the
// whole nodes of its digits, largest first.
SlicePlan plan_of_shares(const Tree& tree, std::vector<std::uint32_t> shares);

// The plan for the step that a view change interrupted: survivors keep their slices, the slices of
// the lost are dealt to the least loaded survivors, in whole nodes where that keeps the largest
// share as small as it can be, else in smaller ones; newcomers get none.
// new_rank[r] is the rank in the new view of old rank r, or -1 if it is gone. If none survives it
// is the balanced plan of the new members.
SlicePlan plan_after_loss(const Tree& tree, const SlicePlan& old_plan,
                          std::span<const std::int32_t> new_rank, std::uint16_t new_member_count);

}  // namespace gpunode::collective
