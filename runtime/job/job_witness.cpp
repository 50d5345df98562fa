// Witnesses: spare nodes that vote and do not compute. Members look for them, a spare node offers
// itself, and the next view names it; one that dies is replaced by a view change.
#include <algorithm>

#include "runtime/base/broken_rule.hpp"
#include "runtime/job/detail/job_state.hpp"
#include "runtime/job/witness_policy.hpp"

namespace gpunode::job {

namespace {
constexpr Duration kRecruitEvery = std::chrono::seconds(5);      // one node is asked again
constexpr Duration kRecruitTakes = std::chrono::seconds(3);      // then fewer witnesses will do
constexpr Duration kReplacementTakes = std::chrono::seconds(1);  // likewise, while one waits to go
constexpr Duration kLeftFor = std::chrono::seconds(30);          // unless it offers itself again
constexpr Duration kSilentFor = std::chrono::seconds(10);        // then another one is looked for
constexpr std::size_t kMaxOffers = 1024;
}  // namespace

void JobCore::set_spares(std::vector<NodeId> nodes) {
  state_->spares = std::move(nodes);
}

void JobCore::State::on_witness_offer(Time at, const NodeId& from, const WitnessOffer& offer,
                                      Actions& out) {
  if (offer.leaves) {
    witness_offers.erase(from);
    joiners.erase(from);
    if (left.size() < kMaxOffers || left.contains(from)) left[from] = at;
    return;
  }
  left.erase(from);
  if ((member || through) && committed >= options.total_steps) return answer_need(from, out);
  if (witness_offers.size() < kMaxOffers || witness_offers.contains(from))
    witness_offers[from] = at;
}

// It leaves, or was left out of the view a moment ago: not to be asked, nor named.
bool JobCore::State::leaves(const NodeId& node) const {
  const auto found = left.find(node);
  return found != left.end() && now < found->second + kLeftFor;
}

// A member says so in its vote.
void JobCore::State::tell_that_it_leaves(Actions& out) const {
  for (const NodeId& node : peers_of(agreement.view())) send(node, WitnessOffer{true}, out);
}

bool JobCore::State::offers_to_witness() const {
  const view::View& view = agreement.view();
  if (member || finish_told || leave_by) return false;
  if (view.is_witness(options.self.node)) return true;  // stays known, and hears of the end
  if (view.is_acceptor(options.self.node)) return false;
  return options.witness_only ||
         (wants_in && !leaving && view.members.size() >= options.wanted_nodes);
}

// Its node may be up and its part in the job not: a witness is heard of every join_every.
bool JobCore::State::takes_part(const NodeId& witness) const {
  if (gone(witness)) return false;
  const auto peer = peers.find(witness);
  const Time heard = peer == peers.end() ? Time{} : peer->second.heard;
  return now < std::max(heard, installed_at) + kSilentFor || broken("keeps_silent_witnesses");
}

// Who could be a witness of the next view: those of this one that live, then who offers itself.
std::vector<NodeId> JobCore::State::witness_candidates() const {
  const view::View& view = agreement.view();
  std::vector<NodeId> nodes;
  for (const NodeId& node : view.acceptors)
    if (view.is_witness(node) && !leaves(node) && (node == options.self.node || takes_part(node)))
      nodes.push_back(node);
  for (const auto& [node, offered] : witness_offers)
    if (now < offered + options.timings.joiner_fresh && !gone(node) && !leaves(node) &&
        !view.rank_of(node) && !view.is_acceptor(node))
      nodes.push_back(node);
  return nodes;
}

std::size_t JobCore::State::voting_members() const {
  const view::View& view = agreement.view();
  return static_cast<std::size_t>(
      std::count_if(view.acceptors.begin(), view.acceptors.end(),
                    [&](const NodeId& node) { return view.rank_of(node).has_value(); }));
}

// Whether a view change would bring better witnesses than this view has.
bool JobCore::State::wants_witnesses(Time at) {
  const view::View& view = agreement.view();
  if (view.view_id == 0) return false;
  if (at < installed_at + options.timings.admit_every) return false;
  const std::size_t voters = voting_members();
  std::vector<NodeId> chosen = choose_witnesses(voters, witness_candidates());
  std::vector<NodeId> present;
  for (const NodeId& node : view.acceptors)
    if (view.is_witness(node)) present.push_back(node);
  if (broken("keeps_dead_witnesses") && !present.empty()) return false;
  std::sort(chosen.begin(), chosen.end());
  std::sort(present.begin(), present.end());
  if (chosen == present) {
    witnesses_lacked.reset();
    return false;
  }
  if (!witnesses_lacked) witnesses_lacked = at;
  // More may be on their way; to do with fewer is for when they do not come.
  const bool best = chosen.size() >= witnesses_wanted(voters, spare_count());
  const bool one_leaves = std::any_of(present.begin(), present.end(),
                                      [this](const NodeId& node) { return leaves(node); });
  return best || at >= *witnesses_lacked + (one_leaves ? kReplacementTakes : kRecruitTakes);
}

std::size_t JobCore::State::spare_count() const {
  const view::View& view = agreement.view();
  std::vector<NodeId> nodes = witness_candidates();
  for (const NodeId& node : spares)
    if (node != options.self.node && !gone(node) && !leaves(node) && !view.rank_of(node) &&
        std::find(nodes.begin(), nodes.end(), node) == nodes.end())
      nodes.push_back(node);
  return nodes.size();
}

void JobCore::State::witness_tick(Time at, Actions& out) {
  const view::View& view = agreement.view();
  if (offers_to_witness()) {
    if (witness_offered != Time{} && at < witness_offered + options.timings.join_every) return;
    witness_offered = at;
    std::set<NodeId> targets(hints.begin(), hints.end());
    for (const NodeId& node : peers_of(view)) targets.insert(node);
    for (const NodeId& node : targets) send(node, WitnessOffer{}, out);
    return;
  }
  // The lowest live rank looks for more.
  if (!can_exchange() || agreement.wanted() || view.stopped || view.view_id == 0) return;
  for (const view::Member& one : view.members) {
    if (one.node == options.self.node) break;
    if (!gone(one.node)) return;
  }
  std::size_t present = witness_candidates().size();
  const std::size_t wanted = witnesses_wanted(voting_members(), spare_count());
  for (const NodeId& node : spares) {
    if (present >= wanted) return;
    if (node == options.self.node || gone(node) || leaves(node) || view.rank_of(node) ||
        view.is_acceptor(node))
      continue;
    const auto offered = witness_offers.find(node);
    if (offered != witness_offers.end() && at < offered->second + options.timings.joiner_fresh)
      continue;
    Time& asked = recruited[node];
    ++present;
    if (asked != Time{} && at < asked + kRecruitEvery) continue;  // it may be on its way
    if (finish_told && asked >= done_at) continue;  // it has been told where the result is
    asked = at;
    out.push_back(Recruit{node});
  }
}

}  // namespace gpunode::job
