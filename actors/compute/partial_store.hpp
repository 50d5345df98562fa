// The gradient sums that a member has for the step in work, by tree node, and what to compute next
// for the nodes that are wanted of it. Exists so that a view change costs only what is really
// missing: survivors keep their sums, and slices that they take over are merged with them along the
// job's tree. Several devices may have tasks of it at once; one thread at a time calls. Pure; owned
// by the trainer.
// Memory: one gradient a kept node; children are given up once their parent is summed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "actors/compute/device.hpp"
#include "runtime/collective/data_fingerprint.hpp"
#include "runtime/collective/tree.hpp"

namespace gpunode::compute {

struct NodeSum {
  collective::TreeNode node;
  SharedSum sum;
  collective::DataFingerprint data_fingerprint;
};

// A node to be summed next, out of kept sums below it and of slices to be computed.
struct SumTask {
  collective::TreeNode node;
  std::vector<collective::TreeNode> kept;
  std::vector<SharedSum> kept_sums;              // of `kept`
  collective::DataFingerprint kept_fingerprint;  // of all of `kept`
  std::vector<std::uint32_t> slices;
  bool wanted = false;  // else it is a part of a wanted node that is too large to do at once

  std::vector<collective::TreeNode> given() const;  // `kept`, then the slices
};

// The sum of children's sums, in this order. Fails with: out_of_memory, internal.
using JoinSums = std::function<Result<SharedSum>(std::span<const SharedSum> children)>;

class PartialStore {
 public:
  PartialStore(collective::Tree tree, JoinSums join);

  // Starts a step; sums of any other step are given up.
  void begin(std::uint64_t step);
  void discard();  // everything kept, the step stays
  std::uint64_t step() const { return step_; }
  // The nodes that the member must come up with now; what is kept stays.
  void want(std::vector<collective::TreeNode> nodes);
  // Slices still to be computed, those of the largest wanted node first.
  std::vector<std::uint32_t> missing() const;
  // What to compute at once, with at most `capacity` slices: the next wanted node, and more of them
  // while that does not fill `workers` threads evenly. Of a node with more slices than that its
  // parts come first, one by one, and the last of them completes it. They are under way from here
  // on, until keep(), and not given again. Nothing if nothing is missing that is not under way.
  std::vector<SumTask> next(std::size_t capacity, std::size_t workers);
  // The sum of a task's node. If it is wanted it is taken as told and not returned any more.
  void keep(const SumTask& task, SharedSum sum, collective::DataFingerprint data_fingerprint);
  // Merges what can be merged and returns the wanted nodes that are complete and were not returned
  // since the last want(). Fails with: what joining fails with.
  Result<std::vector<NodeSum>> take_complete();
  // The kept sum whose host vector this is; null if there is none.
  SharedSum sum_in(const std::vector<float>& host) const;
  // Puts another sum of the same value in the place of each kept one, as where it lies goes away.
  // Fails with: what `moved` fails with.
  Result<void> move_sums(const std::function<Result<SharedSum>(const SharedSum&)>& moved);

 private:
  Result<bool> settle(collective::TreeNode node);
  void collect_missing(collective::TreeNode node, std::vector<std::uint32_t>& slices) const;
  std::size_t missing_below(collective::TreeNode node) const;
  bool has_under_way(collective::TreeNode node) const;
  std::optional<collective::TreeNode> free_part(collective::TreeNode node,
                                                std::size_t capacity) const;
  void collect(collective::TreeNode node, SumTask& task) const;

  collective::Tree tree_;
  JoinSums join_;
  std::uint64_t step_ = 0;
  std::vector<collective::TreeNode> wanted_;
  std::map<collective::TreeNode, NodeSum> kept_;
  std::set<collective::TreeNode> under_way_;
  std::vector<collective::TreeNode> returned_;
};

}  // namespace gpunode::compute
