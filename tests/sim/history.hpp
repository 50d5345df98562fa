// Which history a state of the job belongs to, in the product's words: the one place of tests/sim
// that knows by which fields views and checkpoints say so. A rollback and a split each
// begin a new history; whoever reads a view can tell which.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "runtime/job/job_core.hpp"
#include "runtime/view/view.hpp"

namespace gpunode::sim {

using view::ViewName;

inline HistoryId history_of(const view::View& view) {
  return view.history();
}
inline ViewName name_of(const view::View& view) {
  return view.name();
}
inline ViewName name_of(const job::JobMessage& message) {
  return message.view;
}

// How a view goes on from the one before it.
enum class Turn : std::uint8_t {
  same,      // the same history
  rollback,  // from a checkpoint: nobody who may go on has the state
  split      // a part went on without a quorum
};
inline Turn turn_between(const view::View& before, const view::View& after) {
  if (after.turns.size() == before.turns.size()) return Turn::same;
  // A part that went on apart has more turns than the one that it goes over to.
  const view::View& longer = after.turns.size() > before.turns.size() ? after : before;
  return longer.turns.back().is_split() ? Turn::split : Turn::rollback;
}
// A split may find the state gone as well, and begin from a checkpoint.
inline bool starts_from_checkpoint(const view::View& before, const view::View& after) {
  return after.restores && after.turns.size() != before.turns.size();
}
// No node may go from the one view to the other.
inline bool goes_back(const view::View& from, const view::View& to) {
  if (to.name() == from.name()) return false;
  return view::precedence(to, from) == view::Precedence::ours;
}

// The checkpoint that a node makes of the state that it has now; none if that state is of a history
// that was given up.
inline std::optional<job::Checkpoint> checkpoint_of(const job::JobCore& core, std::uint64_t step,
                                                    const Digest& state,
                                                    const collective::DataFingerprint& running) {
  const std::optional<HistoryId> history = core.state_history();
  if (!history) return std::nullopt;
  return job::Checkpoint{step, state, running, *history};
}

inline std::string told(const view::View& view) {
  return (view.generation() > 0 ? " generation " + std::to_string(view.generation()) : "") +
         " turns " + std::to_string(view.turns.size()) + " floor " +
         std::to_string(view.floor.name.step);
}

}  // namespace gpunode::sim
