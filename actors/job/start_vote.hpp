// With which manifest a job from the queue starts, agreed on once and for all by more than half of
// the nodes that hold it (single-decree Paxos): a node's vote. Who wants to start the job asks the
// holders to promise its ballot, then to accept its manifest, or the one that a holder has accepted
// already. So a job starts once, whoever starts it, and whatever is cut off meanwhile. Instead
// of a manifest they may agree on the signed order to remove the job: then it never starts. Pure; a vote that changed is on disk before
// anybody hears of it.
#pragma once

#include "runtime/base/bytes.hpp"
#include "runtime/view/view_agreement.hpp"

namespace gpunode::jobs {

struct StartVote {
  view::Ballot promised, accepted;
  Bytes manifest;  // accepted; or the order to remove the job; empty: neither

  // Both: whether the vote is given. What is no older than the promise is.
  bool promise(const view::Ballot& ballot) {
    if (ballot < promised) return false;
    promised = ballot;
    return true;
  }
  bool accept(const view::Ballot& ballot, ByteView value) {
    if (!promise(ballot)) return false;
    accepted = ballot;
    manifest = to_bytes(value);
    return true;
  }
};

}  // namespace gpunode::jobs
