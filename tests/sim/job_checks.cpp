#include "tests/sim/job_checks.hpp"

#include <algorithm>

#include "runtime/collective/result_digest.hpp"
#include "tests/sim/protocol_rules.hpp"

namespace gpunode::sim {

namespace {
Digest digest_of_sum(const job::Apply& apply) {
  return collective::result_digest_of(collective::ChunkLayout::of(apply.result.size()),
                                      *apply.result, apply.data_fingerprint);
}
}  // namespace

JobChecks::JobChecks(const JobModel& model, const view::View& first_view, Rules rules)
    : model_(model),
      rules_(rules),
      truth_(truth_of(model)),
      histories_(model, history_of(first_view)) {
  states_.insert({0, truth_.state[0]});
  decided_[name_of(first_view)] = first_view;
  by_digest_[first_view.digest()] = name_of(first_view);
}

void JobChecks::fail(std::string text) {
  const bool harmless = text.starts_with("5:") || text.starts_with("6:") ||
                        text.starts_with("10:") || text.starts_with("13:") ||
                        text.starts_with("3: a survivor") || text.starts_with("4:");
  if (rules_.none || (rules_.only_effects && harmless)) return;
  if (failures_.size() < 8) failures_.push_back(std::move(text));
}

const view::View* JobChecks::decided(const ViewName& name) const {
  const auto found = decided_.find(name);
  return found == decided_.end() ? nullptr : &found->second;
}

const view::View* JobChecks::before(const view::View& view) const {
  const auto found = by_digest_.find(view.previous);
  return found == by_digest_.end() ? nullptr : decided(found->second);
}

std::vector<JobChecks::Later> JobChecks::later_than(const ViewName& name) const {
  std::vector<Later> all;
  if (const view::View* from = decided(name)) all.push_back({from, nullptr});
  for (std::size_t next = 0; next < all.size(); ++next) {
    const Later from = all[next];
    const auto found = after_.find(from.view->digest());
    if (found == after_.end()) continue;
    for (const ViewName& one : found->second) {
      const view::View* view = decided(one);
      const Turn turn = turn_between(*from.view, *view);
      const view::View* undone = !from.undone && turn == Turn::rollback ? from.view : from.undone;
      if (turn != Turn::split) all.push_back({view, undone});
    }
  }
  if (!all.empty()) all.erase(all.begin());
  return all;
}

// Whether a rollback had to wait until this node can commit no more: it is a member of the view
// that was undone, or may go by a lease of an earlier one. Whom a quorum left out before may still
// come to the end of a step that the views without it had held, too.
bool JobChecks::is_waited_for(const view::Member& node, const view::View& in,
                              const view::View& undone) const {
  for (const Later& later :
       ordered_back_.empty() ? std::vector<Later>{} : later_than(name_of(undone)))
    if (before(*later.view) == &undone && ordered_back_.contains(later.view->base_step))
      return false;
  if (rules::commits_under_lease(in)) return !clock_stopped_.contains(node);
  return undone.has_member(node);
}

HistoryId JobChecks::history(const view::Member& node) const {
  const auto place = places_.find(node);
  const view::View* view = place == places_.end() ? nullptr : decided(place->second.view);
  return history_of(view ? *view : decided_.begin()->second);
}

void JobChecks::on_prepare(const view::Member& node, const ViewName& name,
                           const std::vector<NodeId>& hears) {
  const view::View* view = decided(name);
  if (view && !rules::may_decide(*view, hears))
    fail("1: node " + node.node.short_text() + " asks for promises, but hears no quorum");
}

void JobChecks::check_step(const view::Member& node, const job::JobMessage& message,
                           const job::StepMessage& step) {
  const ViewName name = name_of(message);
  const auto found = places_.find(node);
  if (found == places_.end() || found->second.role == job::Role::outsider)
    fail("7: a node that is no member takes part in step " + std::to_string(step.step));
  else if (found->second.syncing && found->second.view == name)
    fail("9: a learner takes part before its state is installed");
  if (plans_.try_emplace({name, step.step}, step.plan).first->second != step.plan)
    fail("16: members follow different slice plans in step " + std::to_string(step.step) +
         " of view " + std::to_string(message.view.view_id));
  const auto* done = std::get_if<collective::Done>(&step.message);
  if (done) {
    auto& digest = done_[{name, step.step}][node.node];
    if (digest != Digest{} && digest != done->result)
      fail("a DONE changed inside a view, step " + std::to_string(step.step));
    digest = done->result;
  }
  const view::View* view = decided(name);
  const auto state = state_at_.find(node);
  const bool computes = done || std::holds_alternative<collective::PartialChunk>(step.message);
  if (!computes || !view || state == state_at_.end() || state->second.step + 1 != step.step) return;
  const std::uint64_t before = state->second.step;
  const Digest here = state->second.digest;
  if (before == view->base_step && !rules::agrees(view->state_digest, here))
    fail("9: a member goes on from another state of step " + std::to_string(before) +
         " than view " + std::to_string(view->view_id) + " names");
  const HistoryId history = history_of(*view);
  const auto agreed = agreed_.find({history, {before, "state"}});
  const auto right = rules_.inexact
                         ? agreed == agreed_.end() ? std::nullopt : std::optional(agreed->second)
                         : histories_.state(history, before);
  if (right && *right != here)
    fail("9: a member computes from a state of step " + std::to_string(before) +
         " that is not of its view's history");
}

void JobChecks::check_vote(const view::Member& node, const job::JobMessage& message,
                           const job::Vote& vote, const Bytes& durable_votes) {
  const ViewName name = name_of(message);
  const view::View* view = decided(name);
  if (!view || !view->is_acceptor(node.node)) {
    if (std::holds_alternative<view::Promise>(vote.message)) {
      promised_.insert({node.node, name});
      if (places_[node].syncing) promised_without_state_.insert({node.node, name});
    }
    return;
  }
  view::Ballot ballot;
  bool accepted = false;
  if (const auto* promise = std::get_if<view::Promise>(&vote.message)) ballot = promise->ballot;
  if (const auto* yes = std::get_if<view::Accepted>(&vote.message)) {
    ballot = yes->ballot;
    accepted = true;
  }
  if (ballot.round == 0) return;
  promised_.insert({node.node, name});
  const auto votes = view::decode_votes(durable_votes);
  if (!votes || !rules::is_on_disk(*votes, name, ballot, accepted))
    fail("13: a vote left its node before it was durable");
}

void JobChecks::on_send(const view::Member& node, const job::JobMessage& message,
                        const Bytes& durable_votes) {
  if (const auto* step = std::get_if<job::StepMessage>(&message.body))
    check_step(node, message, *step);
  if (std::holds_alternative<job::JoinAsk>(message.body)) asking_.insert(node.node);
  const auto* grant = std::get_if<job::LeaseGrant>(&message.body);
  if (grant && grant->granted && promised_.contains({node.node, name_of(message)}))
    fail("5: a lease was granted after a promise in the same view");
  if (const auto* notice = std::get_if<job::ViewNotice>(&message.body))
    for (const view::DecidedView& one : notice->chain) check_decided(one.view, one.signers());
  if (const auto* vote = std::get_if<job::Vote>(&message.body))
    check_vote(node, message, *vote, durable_votes);
}

void JobChecks::on_persist(const view::Member& node, const Bytes& bytes) {
  const auto votes = view::decode_votes(bytes);
  if (!votes) return fail("13: node " + node.node.short_text() + " writes votes nobody can read");
  for (const view::DecidedView& one : votes->chain) check_decided(one.view, one.signers());
}

void JobChecks::on_durable(const NodeId& node, const Bytes& bytes) {
  const auto votes = view::decode_votes(bytes);
  if (votes && votes->accepted) voted_for_[votes->accepted->view.digest()].insert(node);
}

// Whoever says that a view was decided names a quorum that has voted for it.
void JobChecks::check_decided(const view::View& view, const std::vector<NodeId>& by) {
  const view::View* earlier = before(view);
  if (!earlier || turn_between(*earlier, view) == Turn::split) return;
  if (!rules::may_decide(*earlier, by))
    fail("1: no quorum has accepted view " + std::to_string(view.view_id));
  const std::set<NodeId>& voted = voted_for_[view.digest()];
  for (const NodeId& node : by)
    if (node != liar_ && !voted.contains(node))
      fail("13: view " + std::to_string(view.view_id) + " counts a vote that is on no disk");
}

void JobChecks::on_view(const view::Member& node, const view::View& view, job::Role role) {
  Place& place = places_[node];
  const view::View* was = decided(place.view);
  if (was && goes_back(*was, view)) fail("15: a node went back to an older generation or view");
  if (place.view != name_of(view)) clock_stopped_.erase(node);  // with the lease
  place.view = name_of(view);
  place.role = role;
  place.syncing = role == job::Role::learner;
  place.committed = view.base_step;
  const view::View* earlier = before(view);
  const bool same = earlier && turn_between(*earlier, view) == Turn::same;
  // Who had gone on in a part of its own has given up what it held.
  const bool comes_back = was && history_of(*was) != history_of(view);
  if (role == job::Role::learner && same && !comes_back &&
      std::find(view.sync_sources.begin(), view.sync_sources.end(), node.node) !=
          view.sync_sources.end())
    fail("3: a survivor does not hold the step that view " + std::to_string(view.view_id) +
         " resumes from");
  const auto found = decided_.find(name_of(view));
  if (found != decided_.end()) {
    if (!(found->second == view))
      fail("1: two views were decided as view " + std::to_string(view.view_id));
    return;
  }
  record(view);
}

void JobChecks::record(const view::View& view) {
  const view::View* earlier = before(view);
  const ViewName name = name_of(view);
  decided_[name] = view;
  by_digest_[view.digest()] = name;
  if (!earlier) {
    fail("1: a view does not follow from one that was decided");
    histories_.begin(history_of(view), history_of(decided_.begin()->second), 0, true);
    return;
  }
  after_[view.previous].push_back(name);
  const Turn turn = turn_between(*earlier, view);
  if (view.view_id != earlier->view_id + 1) fail("1: a view_id was left out");
  if (turn == Turn::split) ++generations_;
  if (starts_from_checkpoint(*earlier, view)) ++rollbacks_;
  if (view.stopped && !earlier->stopped) ++stops_;
  check_order(*earlier, view);
  if (turn != Turn::same) {
    histories_.begin(history_of(view), history_of(*earlier), view.base_step,
                     starts_from_checkpoint(*earlier, view));
    parents_[history_of(view)] = {history_of(*earlier), turn, view.base_step};
    committed_in_.try_emplace(history_of(view), view.base_step);
  }
  if (turn == Turn::rollback) check_rollback(*earlier, view);
  check_newcomers(*earlier, view);
  if (!rules::holders_outvote_newcomers(view))
    fail("10: acceptors without the state could be a quorum");
  // What was committed on the way here, and not undone on it, stands.
  const view::View* later = &view;
  for (const view::View* older = earlier; older; later = older, older = before(*older)) {
    if (turn_between(*older, *later) != Turn::same) break;
    const auto newest = newest_commit_.find(name_of(*older));
    if (newest == newest_commit_.end() || newest->second <= view.base_step) continue;
    fail("3: view " + std::to_string(view.view_id) + " resumes from step " +
         std::to_string(view.base_step) + ", but step " + std::to_string(newest->second) +
         " was committed in view " + std::to_string(older->view_id));
  }
}

// A rollback undoes what its members do not hold any more, and nothing that was called durable.
void JobChecks::check_rollback(const view::View& before, const view::View& view) {
  const std::uint64_t floor = floor_of(history_of(before));
  if (view.base_step < floor && !ordered_back_.contains(view.base_step))
    fail("19: view " + std::to_string(view.view_id) + " goes back to step " +
         std::to_string(view.base_step) + ", behind the durable checkpoint of step " +
         std::to_string(floor));
  for (const view::Member& one : view.members) {
    const auto place = places_.find(one);
    const bool held = place != places_.end() && place->second.view == name_of(before) &&
                      place->second.role == job::Role::member && before.has_member(one) &&
                      !promised_without_state_.contains({one.node, name_of(before)});
    const std::uint64_t has = held ? place->second.committed : 0;
    if (has > view.base_step && has < model_.total_steps)
      fail("3: view " + std::to_string(view.view_id) + " goes back to step " +
           std::to_string(view.base_step) + ", though a member of it holds step " +
           std::to_string(has));
  }
}

bool JobChecks::has_result(const view::Member& node) const {
  const auto found = state_at_.find(node);
  return found != state_at_.end() && found->second.step == model_.total_steps;
}

// Whom a view names for the first time holds the state, but for the results of a few steps.
void JobChecks::check_newcomers(const view::View& before, const view::View& view) {
  constexpr std::uint64_t kFewSteps = 150;   // as many as are made while its word is fresh
  constexpr std::uint64_t kFewResults = 32;  // that a view may wait for
  const bool must = before.view_id > 0 && turn_between(before, view) == Turn::same &&
                    view.sync_sources.size() >= rules_.min_nodes;
  if (!must) return;
  for (const view::Member& one : view.members) {
    if (before.has_member(one)) continue;
    // It may have gone over to another history before a slow proposer had its votes together.
    const auto place = places_.find(one);
    const view::View* where = place == places_.end() ? nullptr : decided(place->second.view);
    if (where && turn_between(*where, view) == Turn::split) continue;
    const auto found = state_at_.find(one);
    const std::uint64_t step = found == state_at_.end() ? 0 : found->second.step;
    // Likewise it may have taken the job's result from another part, or from before the rollback.
    if (step == model_.total_steps) continue;
    const bool far =
        step + kFewSteps < view.base_step || (step == 0 && view.base_step > kFewResults);
    if (step > view.base_step || far)
      fail("9: view " + std::to_string(view.view_id) + " names a learner that is not ready");
  }
}

void JobChecks::agree(const HistoryId& history, std::uint64_t step, const char* what,
                      const Digest& digest) {
  const auto [known, first] = agreed_.insert({{history, {step, what}}, digest});
  if (!first && known->second != digest)
    fail("2: members differ in the " + std::string(what) + " of step " + std::to_string(step));
}

void JobChecks::on_state(const view::Member& node, std::uint64_t step, const Digest& digest) {
  const HistoryId history = applying_[node];
  state_at_[node] = {step, digest};
  states_.insert({step, digest});
  known_states_.try_emplace(digest, history, step);
  if (rules_.inexact) return agree(history, step, "state", digest);
  if (const auto right = histories_.state(history, step); right && *right != digest)
    fail("2: the state after step " + std::to_string(step) + " is not that of its history");
}

void JobChecks::on_speculative_update(const view::Member& node,
                                      const job::SpeculativeUpdate& part) {
  Speculation& speculated = speculations_[node];
  if (speculated.result != part.result || speculated.step != part.step)
    speculated = {part.step, part.result, std::vector<std::optional<float>>(part.result.size())};
  for (std::uint64_t place = part.first; place < part.first + part.count; ++place) {
    if (speculated.values.at(place)) fail("an element of a result was speculated twice");
    speculated.values[place] = (*part.result)[place];
  }
}

void JobChecks::check_speculation(const view::Member& node, const job::Apply& apply) {
  const Speculation speculated = std::exchange(speculations_[node], {});
  if (!speculated.result || speculated.result != apply.result) return;
  if (speculated.step != apply.step) fail("a result was speculated for another step");
  bool whole = true;
  for (std::size_t place = 0; place < speculated.values.size(); ++place) {
    whole = whole && speculated.values[place];
    if (speculated.values[place] && *speculated.values[place] != (*apply.result)[place])
      fail("an element of a result was not what had been speculated");
  }
  speculated_ += whole;
}

void JobChecks::on_apply(const view::Member& node, const job::Apply& apply) {
  check_speculation(node, apply);
  if (apply.step > model_.total_steps) {
    fail("a step beyond the last");
    return;
  }
  // The update takes a while; by its end the node may be in another history.
  const HistoryId in = applying_[node] = history(node);
  const Digest digest = digest_of(bytes_of(std::span<const float>(*apply.result)));
  if (rules_.inexact)
    agree(in, apply.step, "sum", digest);
  else if (const auto right = histories_.sum(in, apply.step); !right || *right != digest)
    fail("2: step " + std::to_string(apply.step) + " was committed with another sum");
  const view::View* view = decided(places_[node].view);
  if (!view) return;
  if (apply.step == view->base_step && !rules::agrees(view->result_digest, digest_of_sum(apply)))
    fail("2: view " + std::to_string(view->view_id) + " is entered with another sum of step " +
         std::to_string(apply.step) + " than it names");
  if (apply.learning || apply.step <= view->base_step) return;
  const auto& done = done_[{name_of(*view), apply.step}];
  if (const auto own = done.find(node.node); own != done.end())
    if (own->second != digest_of_sum(apply))
      fail("6: step " + std::to_string(apply.step) + " is applied with another sum than was told");
}

void JobChecks::on_committed(const view::Member& node, const job::Committed& commit,
                             job::Phase phase) {
  ++commits_;
  Place& place = places_[node];
  const view::View* view = decided(place.view);
  // What a view starts from is committed on entering it, by force from a pause, too.
  const bool enters = view && commit.step <= view->base_step && phase == job::Phase::paused;
  if (!view || place.role != job::Role::member || phase == job::Phase::outsider ||
      (phase == job::Phase::paused && !enters)) {
    fail("7: a commit by a node that is no active member");
    return;
  }
  auto& newest_here = committed_in_[history_of(*view)];
  newest_here = std::max(newest_here, commit.step);
  place.committed = commit.step;
  if (!(commit.running == truth_.running[commit.step]))
    fail("11: the samples used up to step " + std::to_string(commit.step) + " are not each once");
  if (commit.step <= view->base_step) return;  // rolled forward on entering the view

  if (view->stopped) fail("7: a commit while the job is stopped");
  auto& newest = newest_commit_[name_of(*view)];
  newest = std::max(newest, commit.step);
  if (promised_.contains({node.node, name_of(*view)}))
    fail("5: a commit in view " + std::to_string(view->view_id) + " after promising in it");
  const auto& done = done_[{name_of(*view), commit.step}];
  Digest first;
  for (const view::Member& one : view->members) {
    const auto where = places_.find(one);
    const view::View* there = where == places_.end() ? nullptr : decided(where->second.view);
    const bool here = there && name_of(*there) == name_of(*view);
    if (!there || (!here && goes_back(*view, *there)))
      fail("8: a commit before every member had installed the view");
    else if (here && one.node != node.node && where->second.role == job::Role::member &&
             !where->second.syncing &&
             // Who has taken another part's result computes nothing more.
             !has_result(one) &&
             (where->second.committed + 1 < commit.step ||
              where->second.committed > commit.step + 1))
      fail("4: members are more than one step apart");
    if (view->members.size() == 1) continue;
    const auto said = done.find(one.node);
    if (said == done.end()) {
      fail("6: step " + std::to_string(commit.step) + " applied without the DONE of a member");
      continue;
    }
    if (first == Digest{}) first = said->second;
    if (said->second != first) fail("6: step applied while digests of DONE differ");
  }
  for (const Later& later : later_than(name_of(*view))) {
    if (commit.step <= later.view->base_step) continue;
    if (!later.undone)
      fail("8: a straggler committed step " + std::to_string(commit.step) + " after view " +
           std::to_string(later.view->view_id) + " resumed from " +
           std::to_string(later.view->base_step));
    else if (is_waited_for(node, *view, *later.undone))
      fail("18: step " + std::to_string(commit.step) + " was committed after others had gone on");
  }
}

}  // namespace gpunode::sim
