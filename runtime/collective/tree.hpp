// The fixed tree over slice numbers that names every addition of an all-reduce.
//
// A tree is a list of radices from the root down ([2,2,2] is binary over 8 slices, [3,2,2] a
// three-way root over 12). Level 0 are the slices, level radices.size() is the root. Node (l, i)
// covers width(l) slices starting at i * width(l); its value is the left-to-right sum, in fp32, of
// its children's values. A node is complete at a member that owns all of its slices; the maximal
// complete nodes are the member's cover, and they are never added to one another, so that the bits
// of the total do not depend on who owned what.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/result.hpp"

namespace gpunode::collective {

struct TreeNode {
  std::uint8_t level = 0;
  std::uint32_t index = 0;
  auto operator<=>(const TreeNode&) const = default;
};

class Tree {
 public:
  // The default for G slices: odd prime factors of G at the top, smallest first, then twos.
  // Depends on G alone; G is 1 to 4096.
  static Tree of_slices(std::uint32_t slice_count);
  // Fails with invalid_argument: a radix below 2 or above 4096, or more than 4096 slices. An empty
  // list is the tree of one slice.
  static Result<Tree> of_radices(std::vector<std::uint32_t> radices);

  std::uint32_t slice_count() const { return widths_.back(); }
  TreeNode root() const { return {static_cast<std::uint8_t>(radices_.size()), 0}; }
  std::uint32_t width(std::uint8_t level) const;  // slices below a node of this level
  std::uint32_t first_slice(TreeNode node) const { return node.index * width(node.level); }
  std::vector<TreeNode> children(TreeNode node) const;  // empty for a slice
  bool contains(TreeNode node) const;                   // a node of this tree at all
  // Maximal nodes whose slices are all in `owned` (sorted, unique), in order of first slice.
  // Numbers that are no slice of this tree are ignored.
  std::vector<TreeNode> cover(std::span<const std::uint32_t> owned) const;
  // How many whole nodes a share of so many slices is made of: its digits in the tree's mixed
  // radix.
  std::uint32_t digit_count(std::uint32_t share) const;
  const std::vector<std::uint32_t>& radices() const { return radices_; }
  bool operator==(const Tree&) const = default;

 private:
  explicit Tree(std::vector<std::uint32_t> radices);

  std::vector<std::uint32_t> radices_;  // from the root down
  std::vector<std::uint32_t> widths_;   // by level, from the slices up
};

}  // namespace gpunode::collective
