// The gradient sums that a member has for the step in work, by tree node. Exists so that a view
// change costs only what is really missing: survivors keep their sums, and slices that they take
// over are merged with them along the job's tree. Pure; owned by the trainer.
// Memory: one gradient a kept node; children are given up once their parent is summed.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "runtime/collective/exact_exchange.hpp"

namespace gpunode::compute {

struct NodeSum {
  collective::TreeNode node;
  collective::SharedFloats sum;
  collective::Fed fed;
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
  void add(std::uint32_t slice, collective::SharedFloats sum, collective::Fed fed);
  // Merges what can be merged and returns the wanted nodes that are complete and were not returned
  // since the last want().
  std::vector<NodeSum> take_complete();

 private:
  struct Kept {
    collective::SharedFloats sum;
    collective::Fed fed;
  };
  bool settle(collective::TreeNode node);
  void collect_missing(collective::TreeNode node, std::vector<std::uint32_t>& slices) const;

  collective::Tree tree_;
  collective::AddFn add_;
  NewFloats new_floats_;
  std::uint64_t step_ = 0;
  std::vector<collective::TreeNode> wanted_;
  std::map<collective::TreeNode, Kept> kept_;
  std::vector<collective::TreeNode> returned_;
};

}  // namespace gpunode::compute
