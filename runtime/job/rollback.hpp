// Going back to a checkpoint: from which one a job goes on, and who gives and who loads it, once
// nobody who answers holds its state in memory. A pure function of what the promisers said. The
// rule is one for all kinds of views; runtime/job/PROTOCOL.md says why it is safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/view/view_agreement.hpp"

namespace gpunode::job {

using view::Joining;

// What a rollback goes back to.
struct Rollback {
  view::CheckpointName name;  // step 0: the state before step 1, which follows from the manifest
  Digest state_digest;        // zero for step 0
  std::vector<view::ViewAgreement::Promiser> fit;  // hold it, and can compute
  std::vector<NodeId> holders;                     // whoever holds it; empty for step 0
};

enum class Permission : std::uint8_t {
  none,   // every rule holds
  split,  // whoever answers goes on without a quorum: what only others hold is given up
};

// Fails with unavailable, and for people what is waited for:
//   a member that may still commit: it has not answered, and its lease, if any, may still hold;
//   the newest checkpoint reported durable is on nodes alone that do not answer;
//   every copy of it is lost, and none is left at all.
// `from`: the step from which a person wants the job to go on, whatever was reported durable.
Result<Rollback> choose_rollback(const view::View& current,
                                 const std::vector<view::ViewAgreement::Promiser>& promisers,
                                 const std::vector<Joining>& joining, Permission permission,
                                 std::optional<std::uint64_t> from);

// The newest floor that the next view must know of: of the view, or noted by a promiser since.
view::Floor floor_of(const view::View& current,
                     const std::vector<view::ViewAgreement::Promiser>& promisers);

}  // namespace gpunode::job
