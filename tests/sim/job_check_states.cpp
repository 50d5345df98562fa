// What the checks say of states and disks: what a node reports, installs, follows, loses and finds
// again.
#include <algorithm>

#include "tests/sim/job_checks.hpp"
#include "tests/sim/protocol_rules.hpp"

namespace gpunode::sim {

void JobChecks::on_report(const view::Member& node, const job::JobStatus& status) {
  const Place& place = places_[node];
  std::uint64_t& told = reported_[node];
  const bool news = status.reported > told;
  told = status.reported;
  const view::View* view = decided(place.view);
  if (!view) return;
  const bool member = place.role == job::Role::member && !place.syncing;
  for (const Later& later : later_than(place.view)) {
    if (!later.undone) continue;
    const bool counts = is_waited_for(node, *view, *later.undone);
    if (news && member && counts && status.reported > later.view->base_step)
      fail("18: step " + std::to_string(status.reported) + " is shown after others had gone on");
    if (status.durable.name.step > later.view->base_step && copies_lost_ == 0 &&
        ordered_back_.empty())
      fail("19: the durable checkpoint of step " + std::to_string(status.durable.name.step) +
           " is undone");
  }
  if (status.durable.name.step > 0) durable_[history_of(*view)].insert(status.durable.name.step);
}

void JobChecks::on_checkpoint(const view::Member& node, const job::Checkpoint& checkpoint) {
  const auto known = known_states_.find(checkpoint.state_digest);
  if (known == known_states_.end()) return;
  const auto [history, step] = known->second;
  copies_[node.node] = {history, step};
}

void JobChecks::on_checkpoint_lost(const NodeId& node) {
  if (copies_.erase(node) > 0) ++copies_lost_;
}

void JobChecks::on_install(const view::Member& node, const HistoryId& in, std::uint64_t step,
                           const Digest& digest, bool from_checkpoint) {
  state_at_[node] = {step, digest};
  bool known = states_.contains({step, digest});
  if (!rules_.inexact) {
    // A checkpoint on a node's own disk may be the very state that the others hold in memory; and a
    // result is taken in whatever history, as a job that is finished is not done again.
    known = histories_.state(in, step) == digest ||
            (step == model_.total_steps && histories_.is_an_end(digest)) ||
            (from_checkpoint && histories_.begins_from(in, digest));
  }
  if (!known) fail("9: a learner installs another state than that of step " + std::to_string(step));
}

void JobChecks::on_installed(const view::Member& node) {
  Place& place = places_[node];
  place.syncing = false;
  if (place.role == job::Role::learner) place.role = job::Role::member;
  if (const view::View* view = decided(place.view)) place.committed = view->base_step;
}

std::uint64_t JobChecks::highest_commit() const {
  std::uint64_t highest = 0;
  for (const auto& [history, step] : committed_in_) highest = std::max(highest, step);
  return highest;
}

std::uint64_t JobChecks::newest_commit_in(const HistoryId& history) const {
  const auto found = committed_in_.find(history);
  return found == committed_in_.end() ? 0 : found->second;
}

void JobChecks::on_followed(const view::Member& node, const job::Apply& apply) {
  if (apply.step > newest_commit_in(history(node)))
    fail("6: a learner follows step " + std::to_string(apply.step) + ", which nobody committed");
  const Place& place = places_[node];
  const view::View* view = decided(place.view);
  if (place.syncing && view && apply.step == view->base_step) on_installed(node);
}

bool JobChecks::is_needed(const NodeId& node) const {
  const view::View& newest = decided_.rbegin()->second;
  return newest.rank_of(node) || newest.is_acceptor(node);
}

void JobChecks::on_crash(const view::Member& node) {
  // Its promises stay on record: they bind the node's next life.
  places_[node].role = job::Role::outsider;
}

void JobChecks::on_reread(const Bytes& answered, const Bytes& read) {
  if (answered.empty()) return;
  const auto before = view::decode_votes(answered), after = view::decode_votes(read);
  if (!after || !rules::may_follow_on_disk(*before, *after))
    fail("13: votes that were answered are gone from the disk");
}

void JobChecks::on_restart(const view::Member& node, const view::Votes& votes) {
  const view::View& view = votes.view;
  places_[node].view = name_of(view);  // what it learns from now on is of this view's history
  state_at_.insert_or_assign(node, State{0, truth_.state[0]});
  asking_.erase(node.node);
  if (view.view_id == 0) return;
  if (const view::View* known = decided(name_of(view))) {
    if (!(*known == view)) fail("13: the vote file holds a view that was never decided");
    return;
  }
  // Decided and durable, and then its node died before it told anybody.
  const view::View* earlier = before(view);
  const bool forced = earlier && turn_between(*earlier, view) == Turn::split;
  if (earlier && !forced && !rules::may_decide(*earlier, votes.chain.back().signers()))
    fail("13: the vote file holds a view that no quorum has accepted");
  record(view);
}

// Candidates, who has a part in the newest view, or asks to come in: of a part in an earlier view those
// that were restarted since do not know.
bool JobChecks::is_believed(const NodeId& node) const {
  return asking_.contains(node) || is_needed(node) || decided_.begin()->second.is_acceptor(node);
}

std::uint64_t JobChecks::floor_of(const HistoryId& history, std::uint64_t last) const {
  std::uint64_t floor = 0;
  if (const auto found = durable_.find(history); found != durable_.end())
    for (const std::uint64_t step : found->second) {
      // Disks that broke may have taken every copy; a disk that is merely away has not. Of who
      // has nothing to do with the job nobody believes that it has one.
      const bool held = std::any_of(copies_.begin(), copies_.end(), [&](const auto& one) {
        return one.second.history == history && one.second.step >= step &&
               one.second.step <= last && is_believed(one.first);
      });
      if (held || copies_lost_ == 0) floor = std::max(floor, step);
    }
  const auto parent = parents_.find(history);
  if (parent != parents_.end() && parent->second.turn == Turn::rollback && ordered_back_.empty())
    floor =
        std::max(floor, floor_of(parent->second.history, std::min(last, parent->second.left_at)));
  return floor;
}

// Only what a person ordered is carried out, and once.
void JobChecks::check_order(const view::View& before, const view::View& view) {
  if (view.order == before.order) {
    if (view.stopped != before.stopped) fail("20: the job stops or goes on, and nobody ordered it");
    return;
  }
  const bool given = view.order && std::ranges::find(orders_, *view.order) != orders_.end();
  if (!given) return fail("20: a view carries out an order that nobody gave");
  if (before.order && view.order->issued <= before.order->issued)
    fail("20: an order is carried out after a later one");
}

}  // namespace gpunode::sim
