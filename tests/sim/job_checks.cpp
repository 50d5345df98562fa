#include "tests/sim/job_checks.hpp"

#include <algorithm>

namespace gpunode::sim {

JobChecks::JobChecks(const JobModel& model, const view::View& first_view, Rules rules)
    : model_(model), rules_(rules), truth_(truth_of(model)) {
  states_.insert({0, truth_.state[0]});
  decided_[first_view.order()] = first_view;
  by_digest_[first_view.digest()] = first_view.order();
}

void JobChecks::fail(std::string text) {
  const bool harmless = text.starts_with("5:") || text.starts_with("6:") ||
                        text.starts_with("10:") || text.starts_with("13:") ||
                        text.starts_with("3: a survivor") || text.starts_with("4:");
  if (rules_.only_effects && harmless) return;
  if (failures_.size() < 8) failures_.push_back(std::move(text));
}

const view::View* JobChecks::decided(const view::ViewOrder& order) const {
  const auto found = decided_.find(order);
  return found == decided_.end() ? nullptr : &found->second;
}

const view::View* JobChecks::before(const view::View& view) const {
  const auto found = by_digest_.find(view.previous);
  return found == by_digest_.end() ? nullptr : decided(found->second);
}

void JobChecks::on_prepare(const view::Member& node, const view::ViewOrder& order,
                           const std::vector<NodeId>& hears) {
  const view::View* view = decided(order);
  if (view && !view::is_quorum(*view, hears))
    fail("1: node " + node.node.short_text() + " asks for promises, but hears no quorum");
}

void JobChecks::on_send(const view::Member& node, const job::JobMessage& message,
                        const Bytes& durable_votes) {
  if (const auto* step = std::get_if<job::StepMessage>(&message.body)) {
    const auto found = places_.find(node);
    if (found == places_.end() || found->second.role == job::Role::outsider)
      fail("7: a node that is no member takes part in step " + std::to_string(step->step));
    else if (found->second.syncing && found->second.order == message.order())
      fail("9: a learner takes part before its state is installed");
    plan_kinds_.insert(step->plan);
    if (plans_.try_emplace({message.order(), step->step}, step->plan).first->second != step->plan)
      fail("16: members follow different slice plans in step " + std::to_string(step->step) +
           " of view " + std::to_string(message.view_id));
    if (const auto* done = std::get_if<collective::Done>(&step->message)) {
      auto& digest = done_[{message.order(), step->step}][node.node];
      if (digest != Digest{} && digest != done->result)
        fail("a DONE changed inside a view, step " + std::to_string(step->step));
      digest = done->result;
    }
  }
  if (std::holds_alternative<job::LeaseGrant>(message.body) &&
      promised_.contains({node, message.order()}))
    fail("5: a lease was granted after a promise in the same view");
  const auto* vote = std::get_if<job::Vote>(&message.body);
  if (!vote) return;
  const view::View* view = decided(message.order());
  if (!view || !view->is_acceptor(node.node)) {
    if (std::holds_alternative<view::Promise>(vote->message))
      promised_.insert({node, message.order()});
    return;
  }
  view::Ballot ballot;
  bool accepted = false;
  if (const auto* promise = std::get_if<view::Promise>(&vote->message)) ballot = promise->ballot;
  if (const auto* yes = std::get_if<view::Accepted>(&vote->message)) {
    ballot = yes->ballot;
    accepted = true;
  }
  if (ballot.round == 0) return;
  promised_.insert({node, message.order()});
  const auto votes = view::decode_votes(durable_votes);
  const bool durable =
      votes && (votes->view.order() > message.order() ||
                (votes->view.order() == message.order() && votes->promised >= ballot &&
                 (!accepted || (votes->accepted && votes->accepted->ballot >= ballot))));
  if (!durable) fail("13: a vote left its node before it was durable");
}

void JobChecks::on_view(const view::Member& node, const view::View& view, job::Role role) {
  Place& place = places_[node];
  if (view.order() < place.order) fail("15: a node went back to an older generation or view");
  place.order = view.order();
  place.role = role;
  place.syncing = role == job::Role::learner;
  place.committed = view.base_step;
  const view::View* earlier = before(view);
  const bool rolls_back = !earlier || earlier->rollback_count != view.rollback_count ||
                          earlier->generation != view.generation;
  if (role == job::Role::learner && !rolls_back &&
      std::find(view.sync_sources.begin(), view.sync_sources.end(), node.node) !=
          view.sync_sources.end())
    fail("3: a survivor does not hold the step that view " + std::to_string(view.view_id) +
         " resumes from");
  const auto found = decided_.find(view.order());
  if (found != decided_.end()) {
    if (!(found->second == view))
      fail("1: two views were decided as view " + std::to_string(view.view_id));
    return;
  }
  record(view);
}

void JobChecks::record(const view::View& view) {
  const view::View* earlier = before(view);
  decided_[view.order()] = view;
  by_digest_[view.digest()] = view.order();
  if (!earlier) {
    fail("1: a view does not follow from one that was decided");
  } else {
    if (view.view_id != earlier->view_id + 1) fail("1: a view_id was left out");
    if (view.generation < earlier->generation) fail("15: the generation fell");
    if (view.generation > earlier->generation) ++generations_;
    if (view.rollback_count > earlier->rollback_count) ++rollbacks_;
    if (view.stopped && !earlier->stopped) ++stops_;
    const auto durable = durable_.find({view.generation, view.lineage});
    if (durable != durable_.end() && view.rollback_count > earlier->rollback_count &&
        view.base_step < durable->second.step)
      fail("19: view " + std::to_string(view.view_id) + " goes back to step " +
           std::to_string(view.base_step) + ", behind the durable checkpoint of step " +
           std::to_string(durable->second.step));
    check_newcomers(*earlier, view);
  }
  std::size_t holders = 0, ready = 0;
  for (const NodeId& acceptor : view.acceptors)
    if (std::find(view.sync_sources.begin(), view.sync_sources.end(), acceptor) !=
        view.sync_sources.end())
      ++holders;
    else if (!view.is_witness(acceptor))
      ++ready;
  if (ready > 0 && ready >= holders) fail("10: acceptors without the state could be a quorum");
  for (const auto& [order, step] : newest_commit_) {
    const view::View* older = decided(order);
    if (order < view.order() && order.same_lineage(view.order()) && step > view.base_step &&
        older && older->rollback_count == view.rollback_count)
      fail("3: view " + std::to_string(view.view_id) + " resumes from step " +
           std::to_string(view.base_step) + ", but step " + std::to_string(step) +
           " was committed in view " + std::to_string(order.view_id));
  }
}

// Whom a view names for the first time holds the state, but for the results of a few steps.
void JobChecks::check_newcomers(const view::View& before, const view::View& view) {
  constexpr std::uint64_t kFewSteps = 50;
  const bool must = before.view_id > 0 && before.generation == view.generation &&
                    before.rollback_count == view.rollback_count &&
                    view.sync_sources.size() >= rules_.min_nodes;
  if (!must) return;
  for (const view::Member& one : view.members) {
    if (before.has_member(one)) continue;
    // It may have gone over to another generation before a slow proposer had its votes together.
    const auto place = places_.find(one);
    if (place != places_.end() && !place->second.order.same_lineage(view.order())) continue;
    const auto found = state_at_.find(one);
    const std::uint64_t step = found == state_at_.end() ? 0 : found->second;
    // Likewise it may have taken the result of the job's end before the rollback.
    if (view.rollback_count > 0 && step == model_.total_steps) continue;
    const bool far = step + kFewSteps < view.base_step || (step == 0 && view.base_step > 8);
    if (step > view.base_step || far)
      fail("9: view " + std::to_string(view.view_id) + " names a learner that is not ready");
  }
}

JobChecks::Lineage JobChecks::lineage_of(const view::Member& node) const {
  const auto place = places_.find(node);
  const view::View* view = place == places_.end() ? nullptr : decided(place->second.order);
  return view ? Lineage{view->generation, view->lineage, view->rollback_count} : Lineage{};
}

void JobChecks::agree(const Lineage& lineage, std::uint64_t step, const char* what,
                      const Digest& digest) {
  const auto [known, first] = agreed_.insert({{lineage, {step, what}}, digest});
  if (!first && known->second != digest)
    fail("2: members differ in the " + std::string(what) + " of step " + std::to_string(step));
}

void JobChecks::on_state(const view::Member& node, std::uint64_t step, const Digest& digest) {
  agree(applying_[node], step, "state", digest);
  states_.insert({step, digest});
}

void JobChecks::on_foresee(const view::Member& node, const job::Foresee& part) {
  Foreseen& foreseen = foresees_[node];
  if (foreseen.result != part.result || foreseen.step != part.step)
    foreseen = {part.step, part.result, std::vector<std::optional<float>>(part.result->size())};
  for (std::uint64_t place = part.first; place < part.first + part.count; ++place) {
    if (foreseen.values.at(place)) fail("an element of a result was foreseen twice");
    foreseen.values[place] = (*part.result)[place];
  }
}

void JobChecks::check_foreseen(const view::Member& node, const job::Apply& apply) {
  const Foreseen foreseen = std::exchange(foresees_[node], {});
  if (!foreseen.result || foreseen.result != apply.result) return;
  if (foreseen.step != apply.step) fail("a result was foreseen for another step");
  bool whole = true;
  for (std::size_t place = 0; place < foreseen.values.size(); ++place) {
    whole = whole && foreseen.values[place];
    if (foreseen.values[place] && *foreseen.values[place] != (*apply.result)[place])
      fail("an element of a result was not what had been foreseen");
  }
  foreseen_ += whole;
}

void JobChecks::on_apply(const view::Member& node, const job::Apply& apply) {
  check_foreseen(node, apply);
  state_at_[node] = apply.step;
  if (apply.step >= truth_.result.size()) {
    fail("a step beyond the last");
    return;
  }
  // The update takes a while; by its end the node may be in another lineage.
  const Lineage lineage = applying_[node] = lineage_of(node);
  const Digest digest = digest_of(bytes_of(std::span<const float>(*apply.result)));
  if (rules_.inexact)
    agree(lineage, apply.step, "sum", digest);
  else if (digest != truth_.result[apply.step])
    fail("2: step " + std::to_string(apply.step) + " was committed with another sum");
}

void JobChecks::on_committed(const view::Member& node, const job::Committed& commit,
                             job::Phase phase) {
  ++commits_;
  Place& place = places_[node];
  const view::View* view = decided(place.order);
  if (!view || place.role != job::Role::member || phase == job::Phase::paused ||
      phase == job::Phase::outsider) {
    fail("7: a commit by a node that is no active member");
    return;
  }
  highest_commit_ = std::max(highest_commit_, commit.step);
  auto& newest_here = committed_in_[view->rollback_count];
  newest_here = std::max(newest_here, commit.step);
  place.committed = commit.step;
  if (!(commit.running == truth_.running[commit.step]))
    fail("11: the samples used up to step " + std::to_string(commit.step) + " are not each once");
  if (commit.step <= view->base_step) return;  // rolled forward on entering the view

  if (view->stopped) fail("7: a commit while the job is stopped");
  if (undone_by(view->order()))
    fail("18: step " + std::to_string(commit.step) + " was committed after others had gone on");
  auto& newest = newest_commit_[view->order()];
  newest = std::max(newest, commit.step);
  if (promised_.contains({node, view->order()}))
    fail("5: a commit in view " + std::to_string(view->view_id) + " after promising in it");
  const auto& done = done_[{view->order(), commit.step}];
  Digest first;
  for (const view::Member& one : view->members) {
    const auto where = places_.find(one);
    if (where == places_.end() || where->second.order < view->order())
      fail("8: a commit before every member had installed the view");
    else if (where->second.order == view->order() && one.node != node.node &&
             where->second.role == job::Role::member && !where->second.syncing &&
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
  for (const auto& [order, later] : decided_)
    if (order > view->order() && order.same_lineage(view->order()) &&
        later.rollback_count == view->rollback_count && commit.step > later.base_step)
      fail("8: a straggler committed step " + std::to_string(commit.step) + " after view " +
           std::to_string(order.view_id) + " resumed from " + std::to_string(later.base_step));
}

// The view after this one, where that went back to a checkpoint without waiting for all members.
const view::View* JobChecks::undone_by(const view::ViewOrder& order) const {
  const view::View* from = decided(order);
  if (!from || !view::needs_lease(*from)) return nullptr;
  const view::View* next = decided({order.generation, order.lineage, order.view_id + 1});
  return next && next->rollback_count > from->rollback_count ? next : nullptr;
}

void JobChecks::on_report(const view::Member& node, const job::JobStatus& status) {
  const Place& place = places_[node];
  std::uint64_t& told = reported_[node];
  const bool news = status.reported > told;
  told = status.reported;
  const view::View* view = decided(place.order);
  if (!view || place.role != job::Role::member || place.syncing) return;
  const view::View* next = undone_by(place.order);
  if (news && next && status.reported > next->base_step)
    fail("18: step " + std::to_string(status.reported) + " is shown after others had gone on");
  for (const auto& [order, later] : decided_)
    if (order > place.order && order.same_lineage(place.order) &&
        later.rollback_count > view->rollback_count && later.base_step < status.durable.step)
      fail("19: the durable checkpoint of step " + std::to_string(status.durable.step) +
           " is undone");
  auto& durable = durable_[{view->generation, view->lineage}];
  durable = std::max(durable, status.durable);
}

void JobChecks::on_install(const view::Member& node, std::uint64_t step, const Digest& digest) {
  state_at_[node] = step;
  const bool known = rules_.inexact ? states_.contains({step, digest})
                                    : step < truth_.state.size() && digest == truth_.state[step];
  if (!known) fail("9: a learner installs another state than that of step " + std::to_string(step));
}

void JobChecks::on_installed(const view::Member& node) {
  Place& place = places_[node];
  place.syncing = false;
  if (place.role == job::Role::learner) place.role = job::Role::member;
  if (const view::View* view = decided(place.order)) place.committed = view->base_step;
}

void JobChecks::on_followed(const view::Member& node, const job::Apply& apply,
                            std::uint32_t rollbacks) {
  if (apply.step > committed_in_[rollbacks])
    fail("6: a learner follows step " + std::to_string(apply.step) + ", which nobody committed");
  const Place& place = places_[node];
  const view::View* view = decided(place.order);
  if (place.syncing && view && apply.step == view->base_step) on_installed(node);
}

bool JobChecks::is_needed(const NodeId& node) const {
  const view::View& newest = decided_.rbegin()->second;
  return newest.rank_of(node) || newest.is_acceptor(node);
}

void JobChecks::on_crash(const view::Member& node) {
  // Its promises stay on record: they bind the node's next life as an acceptor.
  places_[node].role = job::Role::outsider;
}

void JobChecks::on_reread(const Bytes& answered, const Bytes& read) {
  if (answered.empty()) return;
  const auto before = view::decode_votes(answered), after = view::decode_votes(read);
  const auto ballot = [](const view::Votes& votes) {
    return votes.accepted ? votes.accepted->ballot : view::Ballot{};
  };
  const bool same_view = after && after->view.order() == before->view.order();
  const bool kept =
      after &&
      (before->view.order() < after->view.order() ||
       (same_view && before->promised <= after->promised && ballot(*before) <= ballot(*after)));
  if (!kept) fail("13: votes that were answered are gone from the disk");
}

void JobChecks::on_restart(const view::Member& node, const view::Votes& votes) {
  const view::View& view = votes.view;
  places_[node].order = view.order();  // what it learns from now on is of this view's lineage
  if (view.view_id == 0) return;
  if (const view::View* known = decided(view.order())) {
    if (!(*known == view)) fail("13: the vote file holds a view that was never decided");
    return;
  }
  // Decided and durable, and then its node died before it told anybody.
  const view::View* earlier = before(view);
  const bool forced = earlier && view.generation > earlier->generation;
  if (earlier && !forced && !view::is_quorum(*earlier, votes.decided_by))
    fail("13: the vote file holds a view that no quorum has accepted");
  record(view);
}

}  // namespace gpunode::sim
