#include "actors/compute/partial_store.hpp"

#include <algorithm>

namespace gpunode::compute {

using collective::Fed;
using collective::SharedFloats;
using collective::TreeNode;

PartialStore::PartialStore(collective::Tree tree, collective::AddFn add, NewFloats new_floats)
    : tree_(std::move(tree)), add_(std::move(add)), new_floats_(std::move(new_floats)) {}

void PartialStore::begin(std::uint64_t step) {
  if (step == step_) return;
  step_ = step;
  kept_.clear();
  wanted_.clear();
  returned_.clear();
}

void PartialStore::discard() {
  kept_.clear();
  returned_.clear();
}

void PartialStore::want(std::vector<TreeNode> nodes) {
  wanted_ = std::move(nodes);
  std::stable_sort(wanted_.begin(), wanted_.end(),
                   [](TreeNode a, TreeNode b) { return a.level > b.level; });
  returned_.clear();
}

void PartialStore::collect_missing(TreeNode node, std::vector<std::uint32_t>& slices) const {
  if (kept_.contains(node)) return;
  if (node.level == 0) {
    slices.push_back(node.index);
    return;
  }
  for (TreeNode child : tree_.children(node)) collect_missing(child, slices);
}

std::vector<std::uint32_t> PartialStore::missing() const {
  std::vector<std::uint32_t> slices;
  for (TreeNode node : wanted_) collect_missing(node, slices);
  return slices;
}

void PartialStore::add(std::uint32_t slice, SharedFloats sum, Fed fed) {
  kept_[TreeNode{0, slice}] = {std::move(sum), fed};
}

// Whether the node is complete, summing it from its children if they are.
bool PartialStore::settle(TreeNode node) {
  if (kept_.contains(node)) return true;
  if (node.level == 0) return false;
  std::vector<TreeNode> children = tree_.children(node);
  bool complete = true;
  for (TreeNode child : children) complete = settle(child) && complete;
  if (!complete) return false;
  Kept parent;
  std::vector<const float*> inputs;
  for (TreeNode child : children) {
    inputs.push_back(kept_.at(child).sum->data());
    parent.fed += kept_.at(child).fed;
  }
  auto sum = new_floats_();
  add_(sum->data(), inputs, sum->size());
  parent.sum = std::move(sum);
  for (TreeNode child : children) kept_.erase(child);
  kept_[node] = std::move(parent);
  return true;
}

std::vector<NodeSum> PartialStore::take_complete() {
  std::vector<NodeSum> complete;
  for (TreeNode node : wanted_) {
    if (std::find(returned_.begin(), returned_.end(), node) != returned_.end()) continue;
    if (!settle(node)) continue;
    returned_.push_back(node);
    complete.push_back({node, kept_.at(node).sum, kept_.at(node).fed});
  }
  return complete;
}

}  // namespace gpunode::compute
