#include "tests/sim/protocol_rules.hpp"

#include <algorithm>

#include "tests/sim/history.hpp"

namespace gpunode::sim::rules {

bool may_decide(const view::View& view, const std::set<NodeId>& nodes) {
  const std::set<NodeId> all(view.acceptors.begin(), view.acceptors.end());
  std::set<NodeId> yes;
  std::set_intersection(all.begin(), all.end(), nodes.begin(), nodes.end(),
                        std::inserter(yes, yes.end()));
  const std::size_t no = all.size() - yes.size();
  if (yes.size() != no) return yes.size() > no;
  return yes.contains(view.tie);
}

bool may_decide(const view::View& view, const std::vector<NodeId>& nodes) {
  return may_decide(view, std::set<NodeId>(nodes.begin(), nodes.end()));
}

bool commits_under_lease(const view::View& view) {
  std::set<NodeId> members;
  for (const view::Member& one : view.members) members.insert(one.node);
  return !members.empty() && !may_decide(view, members);
}

bool holders_outvote_newcomers(const view::View& view) {
  const std::set<NodeId> holders(view.sync_sources.begin(), view.sync_sources.end());
  std::size_t with_state = 0, without = 0, computing_holders = 0;
  for (const NodeId& acceptor : view.acceptors) {
    const bool computes =
        std::any_of(view.members.begin(), view.members.end(),
                    [&](const view::Member& one) { return one.node == acceptor; });
    const bool holds = holders.contains(acceptor);
    with_state += holds;
    without += !holds && computes;
    computing_holders += holds && computes;
  }
  // A checkpoint's holders may all be unfit to compute: they give it to those who do, and it stays
  // on their disks, so nothing depends on who votes.
  if (view.restores && computing_holders == 0) return true;
  return without == 0 || without < with_state;
}

bool may_follow_on_disk(const view::Votes& earlier, const view::Votes& later) {
  if (earlier.view.name() != later.view.name()) return !goes_back(earlier.view, later.view);
  const auto voted = [](const view::Votes& votes) {
    return votes.accepted ? votes.accepted->ballot : view::Ballot{};
  };
  return earlier.promised <= later.promised && voted(earlier) <= voted(later);
}

bool is_on_disk(const view::Votes& disk, const view::ViewName& view, const view::Ballot& ballot,
                bool accepted) {
  if (disk.view.name() != view) return disk.view.view_id > view.view_id;
  if (disk.promised < ballot) return false;
  return !accepted || (disk.accepted && disk.accepted->ballot >= ballot);
}

bool agrees(const Digest& named, const Digest& here) {
  return named == Digest{} || named == here;
}

}  // namespace gpunode::sim::rules
