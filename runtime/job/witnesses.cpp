#include "runtime/job/witnesses.hpp"

#include <algorithm>

#include "runtime/base/broken_rule.hpp"
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

bool Witnesses::on_offer(const NodeId& from, const WitnessOffer& offer) {
  if (offer.leaves) {
    offers_.erase(from);
    on_left(from);
    return true;
  }
  left_.erase(from);
  if ((job_.member || job_.through) && job_.is_last_step()) return false;
  if (offers_.size() < kMaxOffers || offers_.contains(from)) offers_[from] = job_.now;
  return true;
}

void Witnesses::on_left(const NodeId& node) {
  if (left_.size() < kMaxOffers || left_.contains(node)) left_[node] = job_.now;
}

void Witnesses::on_view(const view::View& before) {
  const view::View& view = job_.view();
  for (const NodeId& node : everybody_in(before))
    if (before.view_id > 0 && !view.has_part(node)) on_left(node);
}

bool Witnesses::leaves(const NodeId& node) const {
  const auto found = left_.find(node);
  return found != left_.end() && job_.now < found->second + kLeftFor;
}

bool Witnesses::offers_itself(bool leaves) const {
  const view::View& view = job_.view();
  if (job_.member || job_.finished || leaves) return false;
  if (view.is_witness(job_.self())) return true;  // stays known, and hears of the end
  if (view.is_acceptor(job_.self())) return false;
  return job_.options.witness_only || (job_.wants_in && !job_.has_room());
}

// Its node may be up and its part in the job not: a witness is heard of every join_every.
bool Witnesses::takes_part(const NodeId& witness) const {
  if (job_.gone(witness)) return false;
  const Time heard = std::max(job_.peers.heard(witness), job_.installed_at);
  return job_.now < heard + kSilentFor || broken("keeps_silent_witnesses");
}

std::vector<NodeId> Witnesses::candidates() const {
  const view::View& view = job_.view();
  std::vector<NodeId> nodes;
  for (const NodeId& node : view.acceptors)
    if (view.is_witness(node) && !leaves(node) && (node == job_.self() || takes_part(node)))
      nodes.push_back(node);
  for (const auto& [node, offered] : offers_)
    if (job_.now < offered + job_.options.timings.joiner_fresh && !job_.gone(node) &&
        !leaves(node) && !view.has_part(node))
      nodes.push_back(node);
  return nodes;
}

std::size_t Witnesses::voting_members() const {
  const view::View& view = job_.view();
  return static_cast<std::size_t>(
      std::count_if(view.acceptors.begin(), view.acceptors.end(),
                    [&](const NodeId& node) { return view.rank_of(node).has_value(); }));
}

std::size_t Witnesses::spare_count() const {
  std::vector<NodeId> nodes = candidates();
  for (const NodeId& node : spares_)
    if (node != job_.self() && !job_.gone(node) && !leaves(node) && !job_.view().rank_of(node) &&
        std::find(nodes.begin(), nodes.end(), node) == nodes.end())
      nodes.push_back(node);
  return nodes.size();
}

bool Witnesses::wants_others() {
  const view::View& view = job_.view();
  if (view.view_id == 0) return false;
  if (job_.now < job_.installed_at + job_.options.timings.admit_every) return false;
  const std::size_t voters = voting_members();
  std::vector<NodeId> chosen = choose_witnesses(voters, candidates());
  std::vector<NodeId> present;
  for (const NodeId& node : view.acceptors)
    if (view.is_witness(node)) present.push_back(node);
  if (broken("keeps_dead_witnesses") && !present.empty()) return false;
  std::sort(chosen.begin(), chosen.end());
  std::sort(present.begin(), present.end());
  if (chosen == present) {
    lacked_.reset();
    return false;
  }
  if (!lacked_) lacked_ = job_.now;
  // More may be on their way; to do with fewer is for when they do not come.
  const bool best = chosen.size() >= witnesses_wanted(voters, spare_count());
  const bool one_leaves = std::any_of(present.begin(), present.end(),
                                      [this](const NodeId& node) { return leaves(node); });
  return best || job_.now >= *lacked_ + (one_leaves ? kReplacementTakes : kRecruitTakes);
}

bool Witnesses::is_lowest_live_rank() const {
  for (const view::Member& one : job_.view().members) {
    if (one.node == job_.self()) return true;
    if (!job_.gone(one.node)) return false;
  }
  return true;
}

void Witnesses::on_tick(bool leaving, std::optional<Time> done_at, Actions& out) {
  const view::View& view = job_.view();
  if (offers_itself(leaving)) {
    if (offered_ != Time{} && job_.now < offered_ + job_.options.timings.join_every) return;
    offered_ = job_.now;
    for (const NodeId& node : job_.everybody_and_hints()) job_.send(node, WitnessOffer{}, out);
    return;
  }
  if (!job_.can_exchange() || job_.agreement.wanted() || view.stopped || view.view_id == 0 ||
      !is_lowest_live_rank())
    return;
  std::size_t present = candidates().size();
  const std::size_t wanted = witnesses_wanted(voting_members(), spare_count());
  for (const NodeId& node : spares_) {
    if (present >= wanted) return;
    if (node == job_.self() || job_.gone(node) || leaves(node) || view.has_part(node)) continue;
    const auto offered = offers_.find(node);
    if (offered != offers_.end() && job_.now < offered->second + job_.options.timings.joiner_fresh)
      continue;
    Time& asked = recruited_[node];
    ++present;
    if (asked != Time{} && job_.now < asked + kRecruitEvery) continue;  // it may be on its way
    if (done_at && asked >= *done_at) continue;  // it has been told where the result is
    asked = job_.now;
    out.push_back(Recruit{node});
  }
}

}  // namespace gpunode::job
