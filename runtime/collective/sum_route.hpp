// By which members the sums of a chunk come to the chunk's owner, and its result back to all: for
// each owner a tree of the members with the owner as its root. Sums go towards the root, are added
// up on the way as far as that is allowed, and results return over the same links. No route at all
// means that everybody sends to the owner. A pure function of what all members know alike, so that
// they need not agree on it; costs two bytes for each pair of members.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/digest.hpp"
#include "runtime/collective/slice_plan.hpp"
#include "runtime/collective/tree.hpp"

namespace gpunode::collective {

class SumRoute {
 public:
  // Every member talks of gradients to its two neighbours alone: sums go from rank to rank + 1,
  // each member adding its own, results from rank to rank - 1. Bytes a member sends: 2(N-1)/N
  // gradients, whatever the shares are; hops of a chunk: 2(N-1).
  static SumRoute ring(std::uint16_t member_count);
  // sites[rank]: members of one site send to one of them, whose sum alone goes on to an owner
  // elsewhere. Site 0 is unlike any other, another 0 included.
  static SumRoute grouped(std::span<const std::uint64_t> sites);

  std::uint16_t member_count() const { return static_cast<std::uint16_t>(next_.size()); }
  // Whom `rank` sends its sums of the owner's chunks to, and has their results from; the owner is
  // its own next.
  std::uint16_t next(std::uint16_t owner, std::uint16_t rank) const { return next_[owner][rank]; }
  // Whose next is `rank`; those after it come first, so that not all send to one member first.
  std::vector<std::uint16_t> before(std::uint16_t owner, std::uint16_t rank) const;
  // True: a member sends one sum of all that it has, whatever tree nodes that is; the bits of the
  // total then depend on who takes part. False: whole nodes of the tree alone are added up.
  bool merges() const { return merges_; }
  Digest digest() const;

 private:
  SumRoute(std::uint16_t member_count, bool merges)
      : next_(member_count, std::vector<std::uint16_t>(member_count)), merges_(merges) {}

  std::vector<std::vector<std::uint16_t>> next_;  // by owner, by rank
  bool merges_ = false;
};

// The plan that gives every rank as many slices as `plan` does, and the members of a site
// neighbouring ones, so that their sum is few whole nodes; `plan` itself where it is as good.
SlicePlan plan_by_sites(const Tree& tree, const SlicePlan& plan,
                        std::span<const std::uint64_t> sites);

// What a mode of the exchange says of its sums. Functions of the members' sites, in order of rank;
// all 0 where they are not known yet.
struct Routing {
  std::shared_ptr<const SumRoute> (*route)(std::span<const std::uint64_t> sites) = nullptr;
  SlicePlan (*plan)(const Tree& tree, const SlicePlan& plan,
                    std::span<const std::uint64_t> sites) = nullptr;
  bool one_sum = false;  // a member sends one sum whatever its share is: see paced_plan
};
std::shared_ptr<const SumRoute> ring_route(std::span<const std::uint64_t> sites);
// Null where all members are in one site, or no two of them.
std::shared_ptr<const SumRoute> grouped_route(std::span<const std::uint64_t> sites);

}  // namespace gpunode::collective
