// The rules of the protocol that the checks hold the product to, written anew from the protocol's
// text (who may decide, who needs a lease, which digests must agree). Nothing here may call the
// product's own version of a rule: a fault in it would hide itself.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "runtime/view/view_agreement.hpp"

namespace gpunode::sim::rules {

// View v + 1 is decided by more than half of the acceptors of view v, or by exactly half of them
// if the tie-breaker is one. Others, and who is named twice, do not count.
bool may_decide(const view::View& view, const std::set<NodeId>& nodes);
bool may_decide(const view::View& view, const std::vector<NodeId>& nodes);

// The members alone may not decide, so others could do so without them. View 0 has no members, and
// nobody commits in it.
bool commits_under_lease(const view::View& view);

// Acceptors hold the state, or compute nothing; those that are still to get it must not be able to
// leave all holders out of a quorum.
bool holders_outvote_newcomers(const view::View& view);

// What an acceptor's disk says binds it for good. Whether `later` may follow `earlier` there.
bool may_follow_on_disk(const view::Votes& earlier, const view::Votes& later);
// Whether a promise, or with `accepted` a vote, for that ballot in that view is on this disk.
bool is_on_disk(const view::Votes& disk, const view::ViewName& view, const view::Ballot& ballot,
                bool accepted);

// A digest that a view names binds whoever enters it; none is named where no proposer knew it.
bool agrees(const Digest& named, const Digest& here);

}  // namespace gpunode::sim::rules
