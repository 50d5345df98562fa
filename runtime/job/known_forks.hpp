// The other parts of the job that a node has met: those that go on without a quorum, and forks, with
// who has voted twice in them. Kept for as long as it runs, within a bound; what was agreed about it
// stands in the view. Owned by JobCore.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/view/view_chain.hpp"

namespace gpunode::job {

class KnownForks {
 public:
  // The mark of a part that has no quorum either, as long as no view is for the comparison; 0: none.
  std::uint64_t rival() const { return rival_; }
  void meet(std::uint64_t mark) { rival_ = mark; }

  // Whether another view that this node tells is looked at: signatures cost time.
  bool looks_at(const NodeId& from, Time now) {
    if (looked_.size() >= kMany) looked_.clear();
    Time& last = looked_[from];
    if (last != Time{} && now < last + kLookEvery) return false;
    last = now;
    return true;
  }
  // Whether it is told of this view of another side that nobody has yet been found who voted for
  // both: whoever tells it first may have left out what shows that.
  bool is_open(const Digest& theirs) const {
    const auto known = found_.find(theirs);
    return known == found_.end() ? found_.size() < kMost : !known->second;
  }
  // True: the view was not seen before.
  bool note(const Digest& theirs, const std::vector<NodeId>& found, view::ViewChain evidence) {
    double_voters_.insert(found.begin(), found.end());
    if (!found.empty()) evidence_ = std::move(evidence);
    return found_.insert_or_assign(theirs, !found.empty()).second;
  }
  const std::set<NodeId>& double_voters() const { return double_voters_; }
  // The two views of the last fork that exposed one.
  const view::ViewChain& evidence() const { return evidence_; }

  // This node's part gives way to the other one, whose views were told, once its disk is ready.
  bool gives_way() const { return !other_part_.empty(); }
  void give_way(view::ViewChain told) { other_part_ = std::move(told); }
  view::ViewChain end_giving_way() { return std::exchange(other_part_, {}); }

 private:
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kMany = 1024;
  static constexpr Duration kLookEvery = std::chrono::milliseconds(100);
  std::uint64_t rival_ = 0;
  std::map<NodeId, Time> looked_;
  std::set<NodeId> double_voters_;
  view::ViewChain evidence_, other_part_;
  std::map<Digest, bool> found_;  // of each view of another side
};

}  // namespace gpunode::job
