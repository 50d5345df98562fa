#include "runtime/job/view_proposal.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "runtime/base/broken_rule.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/job/proposed_plan.hpp"
#include "runtime/job/rollback.hpp"
#include "runtime/job/witness_policy.hpp"

namespace gpunode::job {

namespace {

using Promisers = std::vector<view::ViewAgreement::Promiser>;
using view::Standing;
using view::View;

Error not_yet(std::string why) {
  return {ErrorCode::unavailable, std::move(why)};
}

// Members of different arithmetic would drift apart: the most common kind goes on.
Digest common_fingerprint(const Promisers& promisers) {
  std::map<Digest, int> votes;
  Digest best;
  for (const auto& promiser : promisers) {
    const int count = ++votes[promiser.standing.fingerprint];
    if (best == Digest{} || count > votes[best]) best = promiser.standing.fingerprint;
  }
  return best;
}

// The digest of the sum of `step` at a survivor; zero if it does not say.
Digest result_at(const Standing& standing, std::uint64_t step) {
  if (standing.held == step) return standing.held_result_digest;
  if (standing.applied == step) return standing.applied_result_digest;
  return {};
}

// What nobody can hold counts as not said: a state before the view's own, or anything after the
// last step of the job.
Promisers what_can_be(const ProposalRules& rules, const View& current, Promisers told) {
  for (auto& one : told) {
    Standing& where = one.standing;
    if (where.held < current.base_step || where.applied > where.held ||
        where.held > rules.total_steps)
      where.has_memory = false;
    if (where.checkpoint.step > rules.total_steps) where.checkpoint = {};
    if (where.floor.name.step > rules.total_steps) where.floor = {};
  }
  return told;
}

std::vector<Joining> what_can_be(const ProposalRules& rules, std::vector<Joining> asking) {
  for (Joining& one : asking)
    if (one.checkpoint.step > rules.total_steps) one.checkpoint = {};
  return asking;
}

struct Base {
  std::uint64_t step = 0;
  bool disagreed = false;
  Promisers survivors;           // members of the next view, as far as it wants so many
  std::optional<Rollback> back;  // the base is a checkpoint
  bool ordered = false;          // which a person wanted, without waiting for more
};

// The majority's result of a step that differed twice; empty if there is none.
Promisers majority_at(const Promisers& survivors, std::uint64_t step) {
  for (const auto& one : survivors) {
    Promisers same;
    for (const auto& other : survivors)
      if (view::agree(result_at(other.standing, step), result_at(one.standing, step)))
        same.push_back(other);
    if (2 * same.size() > survivors.size()) return same;
  }
  return {};
}

Result<Base> resume_from(const View& current, Promisers survivors) {
  Base base;
  std::uint64_t lowest_held = ~std::uint64_t{0}, lowest_applied = lowest_held, highest_held = 0;
  for (const auto& one : survivors) {
    lowest_held = std::min(lowest_held, one.standing.held);
    lowest_applied = std::min(lowest_applied, one.standing.applied);
    highest_held = std::max(highest_held, one.standing.held);
  }
  base.step = broken("base_is_lowest_applied") ? lowest_applied
              : broken("base_is_highest_held") ? highest_held
                                               : lowest_held;
  const std::uint64_t step = base.step;
  Digest known;  // who has its state from a checkpoint or from others need not know it
  for (const auto& one : survivors)
    if (known == Digest{}) known = result_at(one.standing, step);
  const bool differ = std::any_of(survivors.begin(), survivors.end(), [&](const auto& one) {
    return !view::agree(result_at(one.standing, step), known);
  });
  if (!differ || broken("base_is_highest_held")) {
    base.survivors = std::move(survivors);
    return base;
  }
  // Results that differ were committed by nobody: who commits has seen equal digests of all.
  const bool committed = std::any_of(survivors.begin(), survivors.end(),
                                     [&](const auto& one) { return one.standing.applied >= step; });
  if (!committed && current.disagreed_step != step) {
    base.step = step - 1;
    base.disagreed = true;
    base.survivors = std::move(survivors);
    return base;
  }
  base.survivors = majority_at(survivors, step);
  if (base.survivors.empty())
    return not_yet("members hold different results of step " + std::to_string(step) +
                   " for the second time, and no majority holds the same");
  return base;
}

bool contains(const std::vector<view::Member>& members, const NodeId& node) {
  return std::any_of(members.begin(), members.end(),
                     [&](const view::Member& member) { return member.node == node; });
}

bool cannot_reach(const Standing& standing, const NodeId& node) {
  return std::find(standing.unreachable.begin(), standing.unreachable.end(), node) !=
         standing.unreachable.end();
}

// Both ways: the survivor hears the learner, which says that it hears the survivor.
bool reaches_learner(const Standing& standing, const NodeId& node) {
  return !cannot_reach(standing, node) &&
         std::find(standing.learners.begin(), standing.learners.end(), node) !=
             standing.learners.end();
}

// Leaves out the worst connected, highest rank first, until all survivors reach each other. Any
// number of survivors is safe; losing most of them at once is more likely a fault of the network.
bool keep_who_reach_each_other(Promisers& survivors) {
  if (broken("no_clique_rule")) return true;
  const std::size_t before = survivors.size();
  for (;;) {
    std::size_t worst = 0, most = 0;
    for (std::size_t i = 0; i < survivors.size(); ++i) {
      std::size_t broken = 0;
      for (const auto& other : survivors)
        if (cannot_reach(survivors[i].standing, other.node) ||
            cannot_reach(other.standing, survivors[i].node))
          ++broken;
      if (broken > 0 && broken >= most) {
        most = broken;
        worst = i;
      }
    }
    if (most == 0) return true;
    survivors.erase(survivors.begin() + static_cast<std::ptrdiff_t>(worst));
    if (2 * survivors.size() < before) return false;
  }
}

// ready: who is in `next` without being a survivor was ready to be named.
void choose_acceptors(const ProposalRules& rules, const View& current, const Base& base, bool ready,
                      View& next) {
  std::uint64_t newest_commit = 0;
  for (const auto& one : base.survivors)
    newest_commit = std::max(newest_commit, one.standing.applied);
  // Who fetches its state while the others wait votes from the first step on that it took part in.
  const bool first_step_done = newest_commit > current.base_step;
  for (const auto& one : base.survivors)
    if (contains(next.members, one.node) && (current.is_acceptor(one.node) || first_step_done))
      next.acceptors.push_back(one.node);
  // Only learners outlived the voters: they hold the state, or load it, so they vote.
  if (next.acceptors.empty())
    for (const auto& one : base.survivors)
      if (contains(next.members, one.node)) next.acceptors.push_back(one.node);
  // Ready learners lack a few results only. Fewer than the holders, they leave one of these in
  // every quorum, and a minority of the members may die from the first moment on.
  const std::size_t holders = std::min(base.survivors.size(), next.members.size());
  const std::size_t newcomers = next.members.size() - holders;
  if (ready && newcomers < next.acceptors.size())
    for (std::size_t rank = holders; rank < next.members.size(); ++rank)
      next.acceptors.push_back(next.members[rank].node);
  if (broken("joiners_are_acceptors")) {
    next.acceptors.clear();
    for (const view::Member& member : next.members) next.acceptors.push_back(member.node);
  }
  next.tie = next.is_acceptor(current.tie) ? current.tie : next.acceptors.front();
  std::vector<NodeId> candidates;
  for (const NodeId& node : rules.witnesses)
    if (!contains(next.members, node)) candidates.push_back(node);
  for (const NodeId& node : choose_witnesses(next.acceptors.size(), std::move(candidates)))
    next.acceptors.push_back(node);
}

// What the next view carries out: the latest order that none has yet, whoever's promise carries it.
// Nothing: none.
std::optional<view::SignedOrder> ordered_since(const ProposalRules& rules, const View& current,
                                               const Promisers& promisers) {
  if (rules.order) return rules.order;
  std::optional<view::SignedOrder> latest;
  for (const auto& one : promisers) {
    const auto& order = one.standing.order;
    if (order && is_later(*order, current.order) && is_later(*order, latest)) latest = order;
  }
  return latest;
}

// Another part of the job that was met since, or the one that this view was formed for already.
std::uint64_t met_by(const View& current, const Promisers& promisers) {
  for (const auto& one : promisers)
    if (one.standing.met != 0) return one.standing.met;
  return current.met;
}

// Alike for whoever proposes the same rollback; which of two different ones holds is decided once.
std::uint64_t rollback_mark(const View& next) {
  return mix(mix(next.previous.low, next.previous.high), next.base_step) | 1;
}

// The rules first: what a person ordered is for a job that would wait otherwise.
Result<Base> roll_back(const ProposalRules& rules, const View& current, const Promisers& promisers,
                       const std::vector<Joining>& joining,
                       const std::optional<view::SignedOrder>& order) {
  const auto permission = rules.split_mark != 0 ? Permission::split : Permission::none;
  Base base;
  Result<Rollback> back = choose_rollback(current, promisers, joining, permission, {});
  if (!back && order && order->kind == view::OrderKind::resume_from) {
    Result<Rollback> ordered =
        choose_rollback(current, promisers, joining, permission, order->step);
    base.ordered = ordered.has_value();
    if (ordered)
      back = std::move(ordered);
    else
      back = not_yet(back.error().detail + "; ordered, but " + ordered.error().detail);
  }
  if (!back) return back.error();
  base.step = back->name.step;
  base.survivors = back->fit;
  base.back = std::move(*back);
  return base;
}

// What later views may not go behind. Of a job that had to go further back, or whose part gave up
// on the others, what it goes on from is all there is. Who leaves with the others' knowledge is not
// waited for later, if somebody else who stays has said that it holds a copy.
view::Floor next_floor(const ProposalRules& rules, const View& current, const Promisers& promisers,
                       const Base& base) {
  view::Floor floor = floor_of(current, promisers);
  const bool behind = base.back ? base.back->name < floor.name : base.step < floor.name.step;
  if (behind && base.back) return {base.back->name, base.back->holders};
  if (behind) return rules.split_mark != 0 ? view::Floor{} : floor;
  std::vector<NodeId> stay;  // and have said that it is on their disk
  std::set<NodeId> leave;
  for (const auto& one : promisers) {
    const view::CheckpointName& has = one.standing.checkpoint;
    if (one.standing.leaving)
      leave.insert(one.node);
    else if (has >= floor.name && current.descends_from(has.history, has.step))
      stay.push_back(one.node);
  }
  if (floor.name.step == 0 || stay.empty()) return floor;
  for (const NodeId& node : floor.holders)
    if (!leave.contains(node) && std::find(stay.begin(), stay.end(), node) == stay.end())
      stay.push_back(node);
  floor.holders = std::move(stay);
  return floor;
}

// The state after a step, of those that have applied it: what most of them hold, as one of them may
// compute otherwise; of equally many the first's. Zero: none tells.
Digest commonest_state(const Promisers& survivors, std::uint64_t step) {
  std::map<Digest, std::size_t> told;
  for (const auto& one : survivors)
    if (one.standing.applied == step && one.standing.state_digest != Digest{})
      ++told[one.standing.state_digest];
  Digest commonest;
  for (const auto& one : survivors) {
    const auto found = told.find(one.standing.state_digest);
    const bool counts = one.standing.applied == step && found != told.end();
    if (counts && (commonest == Digest{} || found->second > told.at(commonest)))
      commonest = one.standing.state_digest;
  }
  return commonest;
}

// The part of the next view that follows from this one alone.
View begun_from(const View& current, const Promisers& promisers,
                const std::optional<view::SignedOrder>& order) {
  View next = current;
  next.previous = current.digest();
  next.view_id = current.view_id + 1;
  next.members.clear();
  next.acceptors.clear();
  next.sync_sources.clear();
  next.met = met_by(current, promisers);
  if (order) next.order = order;
  // A recovery leaves a stopped job stopped.
  if (order && order->kind != view::OrderKind::recover)
    next.stopped = order->kind == view::OrderKind::stop;
  if (current.view_id == 0) next.fingerprint = common_fingerprint(promisers);
  return next;
}

// Old members keep their order.
auto by_rank(const View& current) {
  return [&current](const auto& left, const auto& right) {
    const auto far = std::uint16_t{0xffff};
    return current.rank_of(left.node).value_or(far) < current.rank_of(right.node).value_or(far);
  };
}

// Who holds the state in memory and goes on with it; none: the majority cannot reach each other.
std::optional<Promisers> who_stays(const View& current, const Digest& fingerprint,
                                   const Promisers& promisers) {
  Promisers holders, staying;
  for (const auto& one : promisers)
    if (one.standing.has_memory && one.standing.fingerprint == fingerprint) {
      holders.push_back(one);
      if (!one.standing.leaving) staying.push_back(one);
    }
  if (staying.empty() && !holders.empty()) {  // the last holder of a state may not leave
    std::stable_sort(holders.begin(), holders.end(), by_rank(current));
    staying.push_back(holders.front());
  }
  std::stable_sort(staying.begin(), staying.end(), by_rank(current));
  if (!keep_who_reach_each_other(staying)) return std::nullopt;
  return staying;
}

// The base, the members that go on from it, and who gives its state to the others.
void name_base(const ProposalRules& rules, const Base& base, View& next) {
  next.base_step = base.step;
  next.restores = base.back.has_value();
  next.state_digest = next.result_digest = {};
  for (const auto& one : base.survivors) {
    if (next.members.size() >= rules.wanted_nodes) break;
    next.members.push_back({one.node, one.standing.boot});
    if (base.back) continue;
    next.sync_sources.push_back(one.node);
    if (next.result_digest == Digest{}) next.result_digest = result_at(one.standing, base.step);
  }
  if (!base.back) {
    next.state_digest = commonest_state(base.survivors, base.step);
    return;
  }
  next.state_digest = base.back->state_digest;
  next.sync_sources = base.back->holders;
  if (base.step == 0)
    for (const view::Member& one : next.members) next.sync_sources.push_back(one.node);
}

// Another history begins where a state is given up.
void turn(const ProposalRules& rules, const Base& base, View& next) {
  if (rules.split_mark != 0)
    next.turns.push_back({next.view_id, base.step, rules.split_mark, rules.split_kind});
  else if (base.back)
    next.turns.push_back(
        {next.view_id, base.step, rollback_mark(next), view::Turn::Kind::rollback});
}

struct Entry {
  const ProposalRules& rules;
  const Base& base;
  const Promisers& promisers;
  const std::vector<Joining>& learners;
  bool anyone = false;  // also who is not ready
};

// Whether the survivors and this node hear each other: who cannot hear a survivor is as little use
// to it as the other way round.
bool is_reached(const Entry& entry, const view::Member& member) {
  if (broken("no_clique_rule") || broken("admits_unreached")) return true;
  const auto where = std::find_if(
      entry.promisers.begin(), entry.promisers.end(),
      [&](const auto& one) { return one.node == member.node && one.standing.boot == member.boot; });
  const auto& survivors = entry.base.survivors;
  return std::all_of(survivors.begin(), survivors.end(), [&](const auto& one) {
    if (where != entry.promisers.end() && cannot_reach(where->standing, one.node)) return false;
    return entry.anyone ? !cannot_reach(one.standing, member.node)
                        : reaches_learner(one.standing, member.node);
  });
}

// Fills up the wanted number.
void let_in(const Entry& entry, View& next) {
  const auto admit = [&](const view::Member& member) {
    if (next.members.size() < entry.rules.wanted_nodes && !contains(next.members, member.node) &&
        is_reached(entry, member))
      next.members.push_back(member);
  };
  if (entry.anyone)
    for (const auto& one : entry.promisers)
      if (!one.standing.leaving && one.standing.fingerprint == next.fingerprint)
        admit({one.node, one.standing.boot});
  for (const Joining& learner : entry.learners)
    if (learner.ready || entry.anyone || broken("admits_unready")) admit(learner.member);
}

// A rollback has waited for all leases, unless a person or the job's policy would not wait.
bool leaves_out(const ProposalRules& rules, const View& current, const Base& base,
                const View& next) {
  if (base.back && !base.ordered && rules.split_mark == 0) return false;
  return current.left_out ||
         (view::needs_lease(current) &&
          std::any_of(current.members.begin(), current.members.end(),
                      [&](const view::Member& one) { return !next.has_member(one); }));
}

}  // namespace

Result<View> propose_view(const ProposalRules& rules, const View& current, const Promisers& told,
                          const std::vector<Joining>& asking) {
  std::vector<Joining> learners = what_can_be(rules, asking);
  std::erase_if(learners, [&](const Joining& one) {
    return std::ranges::find(rules.put_out, one.member.node) != rules.put_out.end();
  });
  const Promisers promisers = what_can_be(rules, current, told);
  const auto order = ordered_since(rules, current, promisers);
  View next = begun_from(current, promisers, order);
  next.put_out = rules.put_out;
  std::optional<Promisers> staying = who_stays(current, next.fingerprint, promisers);
  if (!staying) return not_yet("most members cannot reach each other");
  const bool lost = staying->empty();
  Result<Base> base = lost ? roll_back(rules, current, promisers, learners, order)
                           : resume_from(current, std::move(*staying));
  if (!base) return base.error();
  std::stable_sort(base->survivors.begin(), base->survivors.end(), by_rank(current));
  name_base(rules, *base, next);
  if (next.met != current.met) next.met_step = next.base_step;
  turn(rules, *base, next);
  next.floor = next_floor(rules, current, promisers, *base);
  if (base->disagreed) {
    ++next.owner_rotation;
    next.disagreed_step = base->step + 1;
  }
  // Nobody waits in vain for who fetches the state while there is no state or no job without it.
  const bool too_few = next.members.size() < rules.min_nodes && base->step < rules.total_steps;
  const bool anyone = current.view_id == 0 || lost || too_few;
  if (!next.stopped) let_in({rules, *base, promisers, learners, anyone}, next);
  if (next.members.size() < rules.min_nodes && base->step < rules.total_steps && !next.stopped)
    return not_yet("the job needs " + std::to_string(rules.min_nodes) + " nodes and " +
                   std::to_string(next.members.size()) + " can take part");
  choose_acceptors(rules, current, *base, !anyone, next);
  choose_plan(rules.tree, current, base->survivors, next);
  next.left_out = leaves_out(rules, current, *base, next);
  return next;
}

}  // namespace gpunode::job
