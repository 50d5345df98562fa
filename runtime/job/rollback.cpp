#include "runtime/job/rollback.hpp"

#include <algorithm>

#include "runtime/base/broken_rule.hpp"
#include "runtime/job/detail/report_text.hpp"

namespace gpunode::job {

namespace {

using Promisers = std::vector<view::ViewAgreement::Promiser>;
using view::CheckpointName;
using view::Standing;
using view::View;

Error not_yet(std::string why) {
  return {ErrorCode::unavailable, std::move(why)};
}

bool told(const Promisers& promisers, const NodeId& node) {
  return std::any_of(promisers.begin(), promisers.end(),
                     [&](const auto& one) { return one.node == node; });
}

// Those of `nodes` that have said nothing.
std::vector<NodeId> silent(const std::vector<NodeId>& nodes, const Promisers& heard) {
  std::vector<NodeId> missing;
  for (const NodeId& node : nodes)
    if (!told(heard, node)) missing.push_back(node);
  return missing;
}

std::vector<NodeId> members_of(const View& view) {
  std::vector<NodeId> nodes;
  for (const view::Member& one : view.members) nodes.push_back(one.node);
  return nodes;
}

// In a stopped view nothing was committed after its base: who has a checkpoint of it has it all.
bool holds_stopped_state(const View& current, const Promisers& promisers) {
  if (!current.stopped) return false;
  return current.base_step == 0 ||
         std::any_of(promisers.begin(), promisers.end(), [&](const auto& one) {
           const CheckpointName& name = one.standing.checkpoint;
           return name.step == current.base_step && current.descends_from(name.history, name.step);
         });
}

// What a person can do who knows that those who are waited for do not come back.
std::string way_out(const CheckpointName& newest) {
  return ", or go back by `gpunode job resume --from " + std::to_string(newest.step) + "`" +
         (newest.step == 0 ? ", which starts anew" : "");
}

// Whether no member can commit any more: each has promised, a vote or not, or was restarted; or,
// where members commit under a lease alone, no lease that one of them may have is left, nor one of
// a member that an earlier view left out.
Result<void> members_have_ended(const View& current, const Promisers& promisers,
                                const CheckpointName& newest) {
  const std::vector<NodeId> missing = silent(members_of(current), promisers);
  const bool left_out = current.left_out && !broken("forgets_who_was_left_out");
  if ((missing.empty() && !left_out) || broken("rollback_by_quorum")) return {};
  if (!missing.empty() && !view::needs_lease(current))
    return not_yet("no member that answers still holds the state; waiting for " +
                   nodes_text(missing) + way_out(newest));
  Duration left{};
  for (const auto& one : promisers) left = std::max(left, one.standing.lease_left);
  if (left == Duration{} || broken("ignores_leases")) return {};
  return not_yet("waiting until the lease of a member that does not answer has run out");
}

// A node that asks to come in counts like a promiser that holds nothing but its checkpoint. Of one
// that never had a part in the job even that counts only where `believed`: any node could say so.
Promisers with_joining(const View& current, Promisers all, const view::Floor& floor,
                       const std::vector<Joining>& joining, bool believed) {
  for (const Joining& one : joining) {
    const NodeId& node = one.member.node;
    if (told(all, node)) continue;
    const bool known =
        one.had_part || current.has_part(node) ||
        std::find(floor.holders.begin(), floor.holders.end(), node) != floor.holders.end();
    Standing standing;
    standing.boot = one.member.boot;
    standing.fingerprint = current.fingerprint;  // nobody is taken in with another
    if (known || believed) {
      standing.checkpoint = one.checkpoint;
      standing.checkpoint_digest = one.checkpoint_digest;
    }
    all.push_back({node, std::move(standing)});
  }
  return all;
}

bool is_fit(const View& current, const view::ViewAgreement::Promiser& one) {
  return one.standing.fingerprint == current.fingerprint &&
         !(current.is_witness(one.node) && one.standing.leaving);
}

// A checkpoint of a history that was undone, or of another part of the job, is none.
bool counts(const View& current, const Standing& where) {
  return where.checkpoint.step > 0 &&
         current.descends_from(where.checkpoint.history, where.checkpoint.step);
}

struct Copies {
  CheckpointName name;
  Digest digest;
};

Copies newest_of(const View& current, const Promisers& all, std::optional<std::uint64_t> from) {
  Copies newest;
  for (const auto& one : all) {
    if (!counts(current, one.standing)) continue;
    if (from && one.standing.checkpoint.step != *from) continue;
    if (one.standing.checkpoint > newest.name)
      newest = {one.standing.checkpoint, one.standing.checkpoint_digest};
  }
  return newest;
}

// What was reported durable is a floor, as long as one of its holders may come back with it.
Result<void> reaches_floor(const View& current, const view::Floor& floor, const Promisers& all,
                           const CheckpointName& newest) {
  if (newest >= floor.name || floor.name.step == 0 || broken("floor_unchecked")) return {};
  const std::string step = std::to_string(floor.name.step);
  const std::vector<NodeId> away = silent(floor.holders, all);
  if (!away.empty())
    return not_yet("nobody that answers has the checkpoint of step " + step +
                   ", the newest durable one; waiting for " + nodes_text(away) + way_out(newest));
  // They all answer, and have it no longer: an older one may be with somebody who is silent yet.
  std::vector<NodeId> everybody = members_of(current);
  everybody.insert(everybody.end(), current.acceptors.begin(), current.acceptors.end());
  const std::vector<NodeId> missing = silent(everybody, all);
  if (!missing.empty())
    return not_yet("every copy of the durable checkpoint of step " + step +
                   " is lost; waiting for " + nodes_text(missing) +
                   ", which may have an older one");
  if (newest.step > 0) return {};
  return not_yet(
      "every copy of the durable checkpoint of step " + step +
      " is lost, and nobody has an older one; `gpunode job resume --from 0` starts anew");
}

view::Floor newest_floor(const View& current, const Promisers& promisers) {
  view::Floor floor = current.floor;
  for (const auto& one : promisers) {
    const CheckpointName& name = one.standing.floor.name;
    if (name > floor.name && current.descends_from(name.history, name.step))
      floor = one.standing.floor;
  }
  return floor;
}

}  // namespace

view::Floor floor_of(const View& current, const Promisers& promisers) {
  return broken("floor_forgotten") ? current.floor : newest_floor(current, promisers);
}

Result<Rollback> choose_rollback(const View& current, const Promisers& promisers,
                                 const std::vector<Joining>& joining, Permission permission,
                                 std::optional<std::uint64_t> from) {
  for (const auto& one : promisers)
    if (one.standing.finished)
      return not_yet("node " + one.node.short_text() + " has the result of the finished job");
  const bool ordered = permission == Permission::split || from;
  // With the durable one here nobody has to be believed who may have none.
  const view::Floor floor = floor_of(current, promisers);
  const CheckpointName here = newest_of(current, promisers, {}).name;
  const bool believed = from || here.step == 0 || here < floor.name;
  const Promisers all = with_joining(current, promisers, floor, joining, believed);
  const Copies newest = newest_of(current, all, from);
  if (!ordered && !holds_stopped_state(current, promisers))
    if (Result<void> ended = members_have_ended(current, promisers, newest.name); !ended)
      return ended.error();
  if (from && *from != newest.name.step)
    return not_yet("nobody that answers has a newest checkpoint of step " + std::to_string(*from) +
                   ": the newest that is here is of step " +
                   std::to_string(newest_of(current, all, {}).name.step));
  if (!ordered)
    if (Result<void> kept = reaches_floor(current, floor, all, newest.name); !kept)
      return kept.error();

  Rollback back{newest.name, newest.digest, {}, {}};
  for (const auto& one : all) {
    const bool holds = newest.name.step > 0 && one.standing.checkpoint == newest.name &&
                       one.standing.checkpoint_digest == newest.digest;
    if (holds) back.holders.push_back(one.node);
    if (is_fit(current, one) && (holds || newest.name.step == 0)) back.fit.push_back(one);
  }
  // Whoever holds it and cannot compute gives it to those who can.
  if (back.fit.empty())
    for (const auto& one : all)
      if (is_fit(current, one)) back.fit.push_back(one);
  if (!back.fit.empty()) return back;
  return not_yet("nobody that answers can compute the job from step " +
                 std::to_string(newest.name.step));
}

}  // namespace gpunode::job
