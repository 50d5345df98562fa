#include "actors/compute/partial_store.hpp"

#include <algorithm>

namespace gpunode::compute {

using collective::DataFingerprint;
using collective::TreeNode;

PartialStore::PartialStore(collective::Tree tree, JoinSums join)
    : tree_(std::move(tree)), join_(std::move(join)) {}

void PartialStore::begin(std::uint64_t step) {
  if (step == step_) return;
  step_ = step;
  kept_.clear();
  wanted_.clear();
  under_way_.clear();
  returned_.clear();
}

void PartialStore::discard() {
  kept_.clear();
  under_way_.clear();
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

std::size_t PartialStore::missing_below(TreeNode node) const {
  std::vector<std::uint32_t> slices;
  collect_missing(node, slices);
  return slices.size();
}

std::vector<TreeNode> SumTask::given() const {
  std::vector<TreeNode> nodes = kept;
  for (std::uint32_t slice : slices) nodes.push_back({0, slice});
  return nodes;
}

void PartialStore::collect(TreeNode node, SumTask& task) const {
  if (const auto found = kept_.find(node); found != kept_.end()) {
    task.kept.push_back(node);
    task.kept_sums.push_back(found->second.sum);
    task.kept_fingerprint += found->second.data_fingerprint;
    return;
  }
  if (node.level == 0) task.slices.push_back(node.index);
  for (TreeNode child : tree_.children(node)) collect(child, task);
}

bool PartialStore::has_under_way(TreeNode node) const {
  return under_way_.contains(node) ||
         std::ranges::any_of(tree_.children(node),
                             [this](TreeNode child) { return has_under_way(child); });
}

// The widest node below this one, or itself, that is not complete, misses no more than that and
// has nothing under way: the first one.
std::optional<TreeNode> PartialStore::free_part(TreeNode node, std::size_t capacity) const {
  if (under_way_.contains(node)) return {};
  const std::size_t missing = missing_below(node);
  if (missing == 0) return {};
  if (missing <= capacity && !has_under_way(node)) return node;
  for (TreeNode child : tree_.children(node))
    if (const auto part = free_part(child, capacity)) return part;
  return {};
}

std::vector<SumTask> PartialStore::next(std::size_t capacity, std::size_t workers) {
  std::vector<SumTask> tasks;
  std::size_t slices = 0;
  for (TreeNode wanted : wanted_) {
    const auto part = free_part(wanted, capacity);
    if (!part) continue;
    const TreeNode node = *part;
    if (slices > 0 && (node != wanted || slices + missing_below(node) > capacity)) break;
    SumTask& task = tasks.emplace_back();
    task.node = node;
    task.wanted = node == wanted;
    collect(node, task);
    under_way_.insert(node);
    slices += task.slices.size();
    if (!task.wanted || slices % workers == 0) break;
  }
  return tasks;
}

void PartialStore::keep(const SumTask& task, SharedSum sum, DataFingerprint data_fingerprint) {
  for (TreeNode below : task.kept) kept_.erase(below);
  kept_[task.node] = {task.node, std::move(sum), data_fingerprint};
  under_way_.erase(task.node);
  if (task.wanted) returned_.push_back(task.node);
}

// Whether the node is complete, summing it from its children if they are.
Result<bool> PartialStore::settle(TreeNode node) {
  if (kept_.contains(node)) return true;
  if (node.level == 0) return false;
  std::vector<TreeNode> children = tree_.children(node);
  bool complete = true;
  for (TreeNode child : children) {
    const auto settled = settle(child);
    if (!settled) return settled;
    complete = complete && *settled;
  }
  if (!complete) return false;
  NodeSum parent{node, {}, {}};
  std::vector<SharedSum> sums;
  for (TreeNode child : children) {
    sums.push_back(kept_.at(child).sum);
    parent.data_fingerprint += kept_.at(child).data_fingerprint;
  }
  auto sum = join_(sums);
  if (!sum) return sum.error();
  parent.sum = *std::move(sum);
  for (TreeNode child : children) kept_.erase(child);
  kept_[node] = std::move(parent);
  return true;
}

Result<std::vector<NodeSum>> PartialStore::take_complete() {
  std::vector<NodeSum> complete;
  for (TreeNode node : wanted_) {
    if (std::find(returned_.begin(), returned_.end(), node) != returned_.end()) continue;
    const auto settled = settle(node);
    if (!settled) return settled.error();
    if (!*settled) continue;
    returned_.push_back(node);
    complete.push_back(kept_.at(node));
  }
  return complete;
}

Result<void> PartialStore::move_sums(
    const std::function<Result<SharedSum>(const SharedSum&)>& moved) {
  for (auto& [node, kept] : kept_) {
    auto sum = moved(kept.sum);
    if (!sum) return sum.error();
    kept.sum = *std::move(sum);
  }
  return {};
}

SharedSum PartialStore::sum_in(const std::vector<float>& host) const {
  for (const auto& [node, kept] : kept_)
    if (kept.sum->host.get() == &host) return kept.sum;
  return {};
}

}  // namespace gpunode::compute
