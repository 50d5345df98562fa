// With which manifest a job from the queue starts, agreed on once and for all by more than half of
// the nodes that hold it (single-decree Paxos): a node's vote. Who wants to start the job asks the
// holders to promise its ballot, then to accept its manifest, or the one that a holder has accepted
// already. So a job starts once, whoever starts it, and whatever is cut off meanwhile. An empty
// manifest says that it never starts, as it was taken out. Pure; a vote that changed is on disk before
// anybody hears of it.
#pragma once

#include <compare>
#include <cstdint>

#include "runtime/base/bytes.hpp"
#include "runtime/base/ids.hpp"

namespace gpunode::jobs {

struct StartBallot {
  std::uint64_t round = 0;  // 0: none
  NodeId by;
  auto operator<=>(const StartBallot&) const = default;
};

struct StartVote {
  StartBallot promised, accepted;
  Bytes manifest;  // accepted

  // Both: whether the vote is given. What is no older than the promise is.
  bool promise(const StartBallot& ballot) {
    if (ballot < promised) return false;
    promised = ballot;
    return true;
  }
  bool accept(const StartBallot& ballot, ByteView value) {
    if (!promise(ballot)) return false;
    accepted = ballot;
    manifest = to_bytes(value);
    return true;
  }
};

}  // namespace gpunode::jobs
