// Whom a step waits for: a stall is told with who, what is missing, since when, and what was done.
#include <algorithm>

#include "runtime/base/broken_rule.hpp"
#include "runtime/job/detail/job_state.hpp"
#include "runtime/job/detail/seconds_text.hpp"

namespace gpunode::job {

namespace {

constexpr Duration kLeastStall = std::chrono::milliseconds(500);
constexpr int kUnusual = 4;  // times the usual step

}  // namespace

std::string_view to_string(collective::Lack lack) {
  switch (lack) {
    case collective::Lack::nothing:
      return "nothing";
    case collective::Lack::partial_sums:
      return "partial sums";
    case collective::Lack::results:
      return "results";
    case collective::Lack::confirmation:
      return "confirmation";
  }
  return "unknown";
}

void JobCore::State::note_step_time(Time at) {
  if (last_commit) {
    const Duration took = at - *last_commit;
    usual_step = usual_step == Duration{} ? took : usual_step + (took - usual_step) / 8;
  }
  last_commit = at;
}

// The peer that keeps the step waiting, if it does so for unusually long: who owes partial sums
// before who owes results, which follow from them; then the one that was heard least recently.
std::optional<Stall> JobCore::State::longest_wait(Time at) const {
  if (!can_exchange() || !exchange) return std::nullopt;
  std::optional<Stall> longest;
  for (const std::uint16_t rank : exchange->waiting_for()) {
    const NodeId& node = agreement.view().members[rank].node;
    const auto peer = peers.find(node);
    const Time heard = peer == peers.end() ? Time{} : peer->second.heard;
    const Stall wait{node, exchange->lack_of(rank), at - std::max(heard, step_began)};
    const bool worse = !longest || wait.lack < longest->lack ||
                       (wait.lack == longest->lack && wait.lasts > longest->lasts);
    if (worse) longest = wait;
  }
  if (!longest || longest->lasts < std::max(kLeastStall, kUnusual * usual_step))
    return std::nullopt;
  return longest;
}

// A member whose own work hangs takes itself out, so that the others need not wait: its core answers
// them, so nobody else would find it out.
void JobCore::State::watch_work(Time at, Actions& out) {
  const auto hang = watchdog.on_tick(at);
  if (!hang || work_lost || broken("no_watchdog")) return;
  report(hang->text(), out);
  const view::View& view = agreement.view();
  const bool alone = view.members.size() <= 1 && view.acceptors.size() <= 1;
  if (!member || alone || committed >= options.total_steps) return;
  work_lost = true;
  for (const NodeId& node : peers_of(view))
    send(node, FreezeHint{hang->text(), {options.self.node}}, out);
  agreement.want_change(at);
}

void JobCore::State::work_came_back(Actions& out) {
  if (!work_lost || watchdog.hangs()) return;
  work_lost = false;
  report("what had not answered is back: this node asks to come in again", out);
  wants_in = wants_in || !leaving;
}

void JobCore::State::watch_stall(Time at, Actions& out) {
  if (stall_told) return;
  stall_told = longest_wait(at);
  if (!stall_told) return;
  stalled_since = at - stall_told->lasts;
  report("step " + std::to_string(committed + 1) + " waits for node " +
             stall_told->node.short_text() + ": no " + std::string(to_string(stall_told->lack)) +
             " of it for " + seconds_text(stall_told->lasts) + "; asked for it again",
         out);
}

void JobCore::State::end_stall(Time at, const std::string& how, Actions& out) {
  if (!stall_told) return;
  out.push_back(Report{"the wait for node " + stall_told->node.short_text() + " ended after " +
                           seconds_text(at - stalled_since) + ": " + how,
                       at - stalled_since});
  stall_told.reset();
}

}  // namespace gpunode::job
