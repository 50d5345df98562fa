// The gradient sums that a member has for the step in work, by tree node, and what to compute next
// for the nodes that are wanted of it. Exists so that a view change costs only what is really
// missing: survivors keep their sums, and slices that they take over are merged with them along the
// job's tree. Pure; owned by the trainer.
// Memory: one gradient a kept node; children are given up once their parent is summed.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "runtime/collective/data_fingerprint.hpp"
#include "runtime/collective/shared_floats.hpp"
#include "runtime/collective/sum_program.hpp"
#include "runtime/collective/tree.hpp"

namespace gpunode::compute {

struct NodeSum {
  collective::TreeNode node;
  collective::SharedFloats sum;
  collective::DataFingerprint data_fingerprint;
};

// A node to be summed next, out of kept sums below it and of slices to be computed.
struct SumTask {
  collective::TreeNode node;
  std::vector<collective::TreeNode> kept;
  std::vector<collective::SharedFloats> kept_sums;  // of `kept`
  collective::DataFingerprint kept_fingerprint;     // of all of `kept`
  std::vector<std::uint32_t> slices;
  bool wanted = false;  // else it is a part of a wanted node that is too large to do at once

  std::vector<collective::TreeNode> given() const;  // `kept`, then the slices
};

// Gives a vector of the right length to write a sum into.
using NewFloats = std::function<std::shared_ptr<std::vector<float>>()>;

class PartialStore {
 public:
  PartialStore(collective::Tree tree, collective::AddFn add, NewFloats new_floats);

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
  // parts come first, one by one, and the last of them completes it. Nothing if nothing is missing.
  std::vector<SumTask> next(std::size_t capacity, std::size_t workers) const;
  // The sum of a task's node. If it is wanted it is taken as told and not returned any more.
  void keep(const SumTask& task, collective::SharedFloats sum,
            collective::DataFingerprint data_fingerprint);
  // Merges what can be merged and returns the wanted nodes that are complete and were not returned
  // since the last want().
  std::vector<NodeSum> take_complete();

 private:
  bool settle(collective::TreeNode node);
  void collect_missing(collective::TreeNode node, std::vector<std::uint32_t>& slices) const;
  std::size_t missing_below(collective::TreeNode node) const;
  collective::TreeNode part_of(collective::TreeNode node, std::size_t capacity) const;
  void collect(collective::TreeNode node, SumTask& task) const;

  collective::Tree tree_;
  collective::AddFn add_;
  NewFloats new_floats_;
  std::uint64_t step_ = 0;
  std::vector<collective::TreeNode> wanted_;
  std::map<collective::TreeNode, NodeSum> kept_;
  std::vector<collective::TreeNode> returned_;
};

}  // namespace gpunode::compute
