// Leaving politely: the step under way is finished, then a view is agreed without this node, which
// still votes on it and stays until the others know it; so nobody waits for a failure detector.
// The last holder of a state does not leave it behind: it waits while somebody is on the way in,
// else, or when its time runs out, it makes the state a durable checkpoint first.
#include <algorithm>

#include "runtime/base/broken_rule.hpp"
#include "runtime/job/detail/job_state.hpp"

namespace gpunode::job {

namespace {
constexpr Duration kReplaced = std::chrono::seconds(5);  // a witness waits for a view without it
constexpr Duration kRetry = std::chrono::milliseconds(1000);
constexpr Duration kAskEvery = std::chrono::milliseconds(50);
constexpr Duration kNoCopy = std::chrono::seconds(5);  // no witness fetches the checkpoint
constexpr Duration kSaveTerm =
    std::chrono::seconds(10);  // of the time to leave; at most half of it
}  // namespace

void JobCore::State::begin_leave(Time at, Duration timeout, Actions& out) {
  const Time last = timeout == kWhenOthersCan ? Time::max() : at + timeout;
  if (leave_by && leaving && *leave_by <= last) return;
  wants_in = false;
  leaving = true;
  leave_by = last;
  leave_began = at;
  save_from = *leave_by - std::min(kSaveTerm, timeout / 2);
  leave_tried.reset();
  leave_told = left_told = holding = false;
  saving.reset();
  saved_at.reset();
  left[options.self.node] = at;
  if (!member) tell_that_it_leaves(out);
  leave_tick(at, out);
}

// Two steps, by the last one or by how long this one takes already.
bool JobCore::State::must_hurry(Time at) const {
  return at + 2 * std::max(step_time, at - step_began) > *leave_by;
}

// Whether a view without this node is due, between two steps.
bool JobCore::State::wants_out(Time at) const {
  return leaving && !left_told && agreement.view().members.size() > 1 &&
         (!leave_tried || at >= *leave_tried + kRetry);
}

void JobCore::State::leave_tick(Time at, Actions& out) {
  if (!leave_by || left_told) return;
  if (at >= *leave_by) return tell_left("its time to leave is over", out);
  if (!member) {
    const view::View& view = agreement.view();
    // A witness is replaced by the members; a member of an earlier life has to care itself.
    const bool votes = view.view_id > 0 && view.is_acceptor(options.self.node);
    if (votes && !view.is_witness(options.self.node)) return agreement.want_change(at);
    if (votes && !view.stopped && !finish_told && at < leave_began + kReplaced) {
      if (at >= leave_asked + kRetry) {
        leave_asked = at;
        tell_that_it_leaves(out);
      }
      return;
    }
    if (broken("leaves_at_once") || !owes_view || others_know(at, out)) tell_left("", out);
    return;
  }
  if (committed >= options.total_steps) {
    if (finish_told) tell_left("", out);
    return;
  }
  if (saving) {
    if (*saving != committed) return save_state(out);  // a view has brought one step more
    if (options.checkpoint.step != *saving || awaits_copies(at)) return;
    return tell_left(
        "the checkpoint of step " + std::to_string(*saving) + " is durable here" +
            (durable.name >= options.checkpoint.name() && durable.holders.size() > 1
                 ? " and on " + std::to_string(durable.holders.size() - 1) + " other nodes"
                 : ""),
        out);
  }
  const bool stuck = pause_told;
  const bool last = agreement.view().members.size() == 1 || (leave_tried && at >= save_from);
  if (!last && !stuck) {
    if ((must_hurry(at) || !state_ready) && wants_out(at) && !agreement.frozen() &&
        !agreement.wanted()) {
      leave_tried = at;
      change_view(at, "this node leaves", out);
    }
    return;
  }
  if (*leave_by == Time::max()) return;  // it goes on until it is not the last
  const bool somebody_comes = std::any_of(joiners.begin(), joiners.end(), [&](const auto& one) {
    return is_fresh(one.second) && !gone(one.first) &&
           agreement.view().members.size() < options.wanted_nodes;
  });
  const bool waits = !stuck && somebody_comes && at < save_from;
  if (!leave_told && !stuck) {
    leave_told = true;
    report(waits ? "this node is the last that holds the job's state: it leaves when the node on "
                   "its way in is ready"
                 : "this node is the last that holds the job's state, and nobody is on the way in: "
                   "it saves the state and leaves; start it again, or let others join before it "
                   "leaves, and the job goes on",
           out);
  }
  if (waits) return;
  if (broken("last_holder_leaves")) return tell_left("", out);
  save_state(out);
}

// No step is begun or committed any more: what is saved stays the newest.
void JobCore::State::save_state(Actions& out) {
  holding = true;
  if (!state_ready || applied != committed) return;
  saving = committed;
  if (committed > 0 && options.checkpoint.step != committed) out.push_back(SaveState{committed});
  if (committed == 0) options.checkpoint.step = 0;
}

// Witnesses go on from what they have: the newest checkpoint is worth the time that is left, as
// long as they get on with fetching it.
bool JobCore::State::awaits_copies(Time at) {
  if (!saved_at) saved_at = at;
  if (durable.name >= options.checkpoint.name()) return false;
  return at < *saved_at + kNoCopy || copies.is_busy(at);
}

// The members of the view without this node have installed it: no vote of this node is missed. Who
// seems to be gone may be back in a moment and wait for that vote, so nobody is left out.
bool JobCore::State::others_know(Time at, Actions& out) {
  const view::View& view = agreement.view();
  bool all = true;
  const bool due = at >= leave_asked + kAskEvery;
  if (due) leave_asked = at;
  for (const view::Member& one : view.members) {
    const Peer& peer = peers[one.node];
    if (peer.view.view_id >= view.view_id) continue;
    if (broken("leaves_past_gone") && gone(one.node)) continue;
    all = false;
    if (due) send(one.node, ViewAsk{}, out);
  }
  return all;
}

void JobCore::State::tell_left(const std::string& why, Actions& out) {
  left_told = true;
  leaving = leaving && member;
  holding = member;
  report("leaves the job after step " + std::to_string(committed) + (why.empty() ? "" : ": " + why),
         out);
  out.push_back(Left{});
}

}  // namespace gpunode::job
