#include "runtime/collective/tree.hpp"

#include <string>
#include <utility>

namespace gpunode::collective {

namespace {
constexpr std::uint32_t kMaxSlices = 4096;
}

Tree::Tree(std::vector<std::uint32_t> radices) : radices_(std::move(radices)) {
  widths_.push_back(1);
  for (auto radix = radices_.rbegin(); radix != radices_.rend(); ++radix)
    widths_.push_back(widths_.back() * *radix);
}

Tree Tree::of_slices(std::uint32_t slice_count) {
  GPUNODE_CHECK(slice_count >= 1 && slice_count <= kMaxSlices, std::to_string(slice_count));
  std::uint32_t rest = slice_count, twos = 0;
  for (; rest % 2 == 0; rest /= 2) ++twos;
  std::vector<std::uint32_t> radices;
  for (std::uint32_t prime = 3; rest > 1; prime += 2)
    for (; rest % prime == 0; rest /= prime) radices.push_back(prime);
  radices.insert(radices.end(), twos, 2);
  return Tree(std::move(radices));
}

Result<Tree> Tree::of_radices(std::vector<std::uint32_t> radices) {
  std::uint64_t slices = 1;
  for (std::uint32_t radix : radices) {
    if (radix < 2 || radix > kMaxSlices)
      return {ErrorCode::invalid_argument,
              "radix " + std::to_string(radix) + " of the sum tree: take 2 to 4096"};
    slices *= radix;
    if (slices > kMaxSlices)
      return {ErrorCode::invalid_argument,
              "the sum tree has more than 4096 slices: take fewer or smaller radices"};
  }
  return Tree(std::move(radices));
}

std::uint32_t Tree::width(std::uint8_t level) const {
  GPUNODE_CHECK(level < widths_.size(), "no level " + std::to_string(level) + " in the tree");
  return widths_[level];
}

std::vector<TreeNode> Tree::children(TreeNode node) const {
  GPUNODE_CHECK(contains(node), "no such node in the tree");
  if (node.level == 0) return {};
  std::uint32_t radix = radices_[radices_.size() - node.level];
  std::vector<TreeNode> nodes;
  nodes.reserve(radix);
  for (std::uint32_t i = 0; i < radix; ++i)
    nodes.push_back({static_cast<std::uint8_t>(node.level - 1), node.index * radix + i});
  return nodes;
}

bool Tree::contains(TreeNode node) const {
  return node.level < widths_.size() && node.index < slice_count() / widths_[node.level];
}

std::vector<TreeNode> Tree::cover(std::span<const std::uint32_t> owned) const {
  std::vector<TreeNode> nodes;
  for (std::size_t at = 0; at < owned.size() && owned[at] < slice_count();) {
    // The widest node that starts at this slice and is wholly owned. One that starts earlier and
    // reaches here would have been taken there.
    std::size_t level = widths_.size();
    bool whole = false;
    while (!whole) {
      std::uint32_t width = widths_[--level];
      whole = owned[at] % width == 0 && at + width <= owned.size() &&
              owned[at + width - 1] == owned[at] + width - 1;
    }
    nodes.push_back({static_cast<std::uint8_t>(level), owned[at] / widths_[level]});
    at += widths_[level];
  }
  return nodes;
}

std::uint32_t Tree::digit_count(std::uint32_t share) const {
  std::uint32_t count = 0;
  for (std::size_t level = widths_.size(); level-- > 0;) {
    count += share / widths_[level];
    share %= widths_[level];
  }
  return count;
}

}  // namespace gpunode::collective
