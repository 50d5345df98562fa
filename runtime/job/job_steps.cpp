// The steps: one exact exchange at a time, committed when every member holds the same result.
#include <algorithm>
#include <utility>

#include "runtime/base/broken_rule.hpp"
#include "runtime/base/fault_point.hpp"
#include "runtime/job/detail/job_state.hpp"

namespace gpunode::job {

namespace {
// Of messages that come before their time; beyond it NEED fetches them again.
constexpr std::size_t kMaxEarlyMessages = 65536;
constexpr std::uint64_t kEarlyGradients = 4;  // and a MiB
constexpr Duration kFinishTimeout = std::chrono::seconds(10);
constexpr Duration kServeLaggards = std::chrono::seconds(60);  // with sums, after the last step

// Bytes of gradient in a message.
std::size_t chunk_bytes(const collective::ExchangeMessage& message) {
  if (const auto* partial = std::get_if<collective::PartialChunk>(&message))
    return partial->payload.size();
  if (const auto* result = std::get_if<collective::ResultChunk>(&message))
    return result->payload.size();
  return 0;
}
}  // namespace

bool JobCore::State::can_exchange() const {
  return member && state_ready && !holding && !work_lost && !agreement.frozen() &&
         result_sources.empty();
}

// Starts the exchange of the next step once the state before it is in place.
void JobCore::State::maybe_begin(Time at, Actions& out) {
  if (!can_exchange() || exchange || applied != committed || committed >= options.total_steps)
    return;
  const view::View& view = agreement.view();
  if (view.stopped && !broken("computes_when_stopped")) return;
  const std::uint64_t step = committed + 1;
  collective::AllReduce::Options chosen;
  chosen.rank = *view.rank_of(options.self.node);
  chosen.member_count = static_cast<std::uint16_t>(view.members.size());
  chosen.owner_rotation = view.owner_rotation;
  chosen.tree = options.tree;
  chosen.plan = plan;
  chosen.layout = collective::ChunkLayout::of(options.element_count);
  chosen.add = options.add;
  chosen.route = sum_route;
  chosen.place = options.place;
  chosen.form = form;
  chosen.need_after = options.timings.need_after;
  if (chosen.member_count > 1) chosen.result_buffer = results->take();
  plan_digest = digest_of_plan();
  exchange.emplace(std::move(chosen), at);
  exchange_step = step;
  if (options.places) tell_places();
  step_began = at;
  if (partial_step != step) {
    partials.clear();
    partial_step = step;
    compute_times = {};
  }
  std::vector<collective::SendTo> sends;
  exchange->set_times(compute_times, after);
  std::erase_if(partials, [this](const auto& one) { return !is_whole(one.second); });
  for (const collective::TreeNode& node : exchange->own_cover())
    if (const auto found = partials.find(node); found != partials.end())
      exchange->on_partial(at, node, found->second.sum, found->second.data_fingerprint, sends);
  send_step(step, sends, out);
  ask_compute(out);

  const EarlyMessages waiting = std::exchange(early, {});
  for (const auto& [from, message] : waiting.list) on_step(at, from, message, out);
  advance(at, out);
}

// Bulk messages of the step may be read to where they belong.
void JobCore::State::tell_places() {
  const view::View& view = agreement.view();
  StepPlaces::Step step;
  step.route = {view.view_id, exchange_step, view.history(), plan_digest};
  for (const view::Member& one : view.members) step.members.push_back(one.node);
  step.chunk_count = collective::ChunkLayout::of(options.element_count).chunk_count();
  step.places = exchange->places();
  options.places->open(std::move(step));
}

void JobCore::State::ask_compute(Actions& out) {
  Compute compute{++order, exchange_step, {}, discard_kept};
  for (const collective::TreeNode& node : exchange->own_cover())
    if (!partials.contains(node)) compute.nodes.push_back(node);
  discard_kept = false;
  fault_point("compute", exchange_step);
  if (compute.nodes.empty())
    watchdog.dropped(Watchdog::Work::compute);
  else
    watchdog.asked(Watchdog::Work::compute, now);
  out.push_back(std::move(compute));
}

void JobCore::State::send_step(std::uint64_t step, const std::vector<collective::SendTo>& sends,
                               Actions& out) {
  const view::View& view = agreement.view();
  const Digest& followed = step == exchange_step && exchange ? plan_digest : previous_plan_digest;
  for (const collective::SendTo& one : sends) {
    if (one.rank >= view.members.size()) continue;
    // DONE follows the results on their own way; a question must get through where that is broken.
    const bool bulk = !std::holds_alternative<collective::Need>(one.message);
    sent_bytes += chunk_bytes(one.message);
    send(view.members[one.rank].node, StepMessage{step, followed, one.message}, out, bulk);
  }
}

void JobCore::State::on_step(Time at, const NodeId& from, const StepMessage& message,
                             Actions& out) {
  const auto rank = agreement.view().rank_of(from);
  if (!rank || !member || agreement.frozen()) return;
  const bool is_need = std::holds_alternative<collective::Need>(message.message);
  if (chunk_bytes(message.message) > 0) {
    peers[from].vain_since.reset();
    peers[from].cut_until = Time{};
  }
  std::vector<collective::SendTo> sends;
  if (exchange && message.step == exchange_step) {
    if (message.plan != plan_digest) {
      change_view(at, "node " + from.short_text() + " follows another slice plan", out);
      return;
    }
    received_bytes += chunk_bytes(message.message);
    exchange->on_message(at, *rank, message.message, sends);
    send_step(exchange_step, sends, out);
    if (is_need) answer_need(from, out);
    advance(at, out);
    return;
  }
  const std::uint64_t done = state_ready ? committed : agreement.view().base_step;
  if (message.step == committed && previous_exchange) {
    previous_exchange->on_message(at, *rank, message.message, sends);
    send_step(committed, sends, out);
  } else if (message.step > done && message.step <= done + 2) {  // nobody is further ahead
    early.keep(from, message, most_early_bytes());
  }
  if (is_need) answer_need(from, out);
}

// A view reaches its members one after the other, and bulk is faster than control.
void JobCore::State::keep_ahead(const NodeId& from, const JobMessage& message) {
  const auto* step = std::get_if<StepMessage>(&message.body);
  if (!step || message.view.view_id < ahead_view.view_id) return;
  if (ahead_view != message.view) ahead = {};
  ahead_view = message.view;
  ahead.keep(from, *step, most_early_bytes());
}

std::uint64_t JobCore::State::most_early_bytes() const {
  return kEarlyGradients * options.element_count * sizeof(float) + (1 << 20);
}

void JobCore::State::EarlyMessages::keep(const NodeId& from, const StepMessage& message,
                                         std::uint64_t most_bytes) {
  const std::uint64_t size = chunk_bytes(message.message);
  if (list.size() >= kMaxEarlyMessages || bytes + size > most_bytes) return;
  bytes += size;
  list.emplace_back(from, message);
}

// Whoever asks learns at least that this node lives, and where it is.
void JobCore::State::answer_need(const NodeId& from, Actions& out) const {
  const bool ready = state_ready || holds_result();
  const std::uint64_t kept = ready ? log.first_step(committed) : 0;
  send(from, StepStatus{committed, ready, finish_told, kept}, out);
}

void JobCore::State::on_partial(Time at, const PartialRange& range, Actions& out) {
  watchdog.progressed(Watchdog::Work::compute);
  work_came_back(out);
  const bool whole = range.first == 0 && range.count == options.element_count;
  if (range.step != committed + 1 || !options.tree.contains(range.node) || !range.sum ||
      range.sum->size() != options.element_count || range.first > options.element_count ||
      range.count > options.element_count - range.first || (range.order != order && !whole))
    return;
  if (partial_step != range.step) {
    partials.clear();
    partial_step = range.step;
  }
  Partial& partial =
      partials.try_emplace(range.node, Partial{range.sum, range.data_fingerprint}).first->second;
  if (partial.sum != range.sum || partial.final_elements + range.count > options.element_count ||
      (is_whole(partial) && options.element_count > 0))
    return;
  partial.final_elements += range.count;
  if (range.times.compute_us >= compute_times.compute_us) compute_times = range.times;
  if (is_whole(partial)) fault_point("reduce", range.step);
  if (!can_exchange() || !exchange || exchange_step != range.step) return;
  const auto cover = exchange->own_cover();
  if (std::find(cover.begin(), cover.end(), range.node) == cover.end()) return;
  if (std::all_of(cover.begin(), cover.end(), [this](const auto& node) {
        const auto found = partials.find(node);
        return found != partials.end() && is_whole(found->second);
      }))
    watchdog.done(Watchdog::Work::compute, at);
  std::vector<collective::SendTo> sends;
  exchange->set_times(compute_times, after);
  exchange->on_partial_range(at, range.node, range.sum, range.data_fingerprint, range.first,
                             range.count, sends);
  send_step(range.step, sends, out);
  advance(at, out);
}

void JobCore::State::update_speculatively(Actions& out) {
  const auto arrived = exchange->take_arrived();
  for (const collective::Elements& part : arrived.parts)
    out.push_back(SpeculativeUpdate{exchange_step, arrived.sum, part.first, part.count});
}

// Commits the step under way if every member holds it.
void JobCore::State::advance(Time at, Actions& out) {
  if (!exchange || !can_exchange()) return;
  update_speculatively(out);
  if (exchange->disagreed()) {
    change_view(at, "results of step " + std::to_string(exchange_step) + " differ", out);
    return;
  }
  if (exchange->held() && told_held != exchange_step) {
    told_held = exchange_step;
    held_at = at;
    fault_point("held", exchange_step);
    if (broken("tells_held_results"))
      keep_result(exchange_step, exchange->result(), exchange->result_digest(),
                  exchange->data_fingerprint());
  }
  const bool own_way = broken("apply_on_own_completion") && exchange->held();
  if (!exchange->committed() && !own_way) return;
  if (!holds_lease(at)) return;  // goes on with the next grant, or in the next view
  previous_exchange = std::move(exchange);
  exchange.reset();
  form->on_commit();
  previous_plan_digest = plan_digest;
  step_time = at - step_began;
  commit(at, *previous_exchange, computing(agreement.view()), true, out);
  on_commit_boundary(at, out);
}

std::vector<NodeId> JobCore::State::computing(const view::View& view) const {
  std::vector<NodeId> nodes;
  for (const std::uint16_t rank : plan.owner)
    if (rank < view.members.size()) nodes.push_back(view.members[rank].node);
  return nodes;
}

void JobCore::State::commit(Time at, const collective::AllReduce& done,
                            std::vector<NodeId> computed_by, bool in_view, Actions& out) {
  // Their DONE of this step says that they have ours of the step before.
  for (const view::Member& one : agreement.view().members)
    agreement.heard_by(one.node, committed_at);
  committed_at = at;
  pause_told = false;
  const collective::DataFingerprint data_fingerprint = done.data_fingerprint();
  Committed told;
  told.step = ++committed;
  told.data_fingerprint = data_fingerprint;
  told.computed_by = std::move(computed_by);
  running += data_fingerprint;
  told.running = running;
  result_digest = done.result_digest();
  partials.clear();
  partial_step = 0;
  compute_times = {};
  told.at = at;
  told.confirm_us = collective::microseconds(at - held_at);
  after = {told.confirm_us, 0, static_cast<std::uint32_t>(sent_bytes / 1024),
           static_cast<std::uint32_t>(received_bytes / 1024)};
  sent_bytes = received_bytes = 0;
  apply_asked = at;
  note_step_time(at);
  end_stall(at, "it came", out);
  // A step that was held when its view ended is the next one's base, whose record has the plan.
  if (in_view && done.committed()) {
    told.plan = plan;
    told.times = done.times();
    next_plan(told.times);
  }
  source.clear_current();
  keep_result(committed, done.result(), done.result_digest(), done.data_fingerprint());
  fault_point("commit", committed);
  watchdog.asked(Watchdog::Work::apply, at);
  watchdog.dropped(Watchdog::Work::compute);
  out.push_back(Apply{committed, done.result(), data_fingerprint});
  out.push_back(std::move(told));
  if (committed >= options.total_steps) done_at = at;
}

// From the plan of the step just committed and what all members told of it: alike everywhere.
void JobCore::State::next_plan(const std::vector<collective::StepTimes>& told) {
  const collective::Routing& routing = options.routing;
  paces = collective::paces_after(paces, options.tree, plan, told, routing.one_sum);
  const std::uint64_t step = committed + 1;
  const bool first_free = step == agreement.view().base_step + 2;
  plan = collective::paced_plan(options.tree, plan, paces, {step, first_free, routing.one_sum});
  std::vector<std::uint64_t> found;
  for (const collective::StepTimes& times : told) found.push_back(times.place);
  follow_places(std::move(found));
  if (routing.plan) plan = routing.plan(options.tree, plan, places);
}

// The way of the sums from the next step on. A view begins without knowing where its members are.
void JobCore::State::follow_places(std::vector<std::uint64_t> found) {
  if (!options.routing.route || found == places) return;
  places = std::move(found);
  sum_route = options.routing.route(places);
}

Digest JobCore::State::digest_of_plan() const {
  if (!sum_route) return plan.digest();
  const Digest both[] = {plan.digest(), sum_route->digest()};
  return digest_of(std::as_bytes(std::span(both)));
}

void JobCore::State::on_applied(Time at, std::uint64_t step, const Digest& digest, Actions& out) {
  watchdog.done(Watchdog::Work::apply, at);
  work_came_back(out);
  if (step != committed || applied == step) return;
  applied = step;
  after.apply_us = collective::microseconds(at - apply_asked);
  state_digest = digest;
  const view::View& view = agreement.view();
  if (step == view.base_step && view.state_digest != Digest{} && digest != view.state_digest) {
    report("the state after step " + std::to_string(step) +
               " differs from the other members': this machine computes differently; theirs is "
               "fetched",
           out);
    state_ready = false;
    settle(at, out);
  }
  offer_state(at, out);
  maybe_begin(at, out);
  follow(at, out);
  result_tick(at, out);
}

void JobCore::State::on_status(Time at, const NodeId& from, const StepStatus& status,
                               Actions& out) {
  if (status.committed < options.total_steps) return;
  if (ended_before(from, status))
    return end_with_result_of(
        at, from, "node " + from.short_text() + " has the result of the finished job", out);
  if (!agreement.view().rank_of(from)) return;
  Peer& peer = peers[from];
  const bool news = !peer.finished;
  peer.finished = true;
  // Who still tells does not know yet that we are through.
  if (!news && !status.finished && finish_told && member && committed >= options.total_steps)
    send(from, StepStatus{committed, state_ready, true}, out);
  end_outside(at, out);
  finish_tick(at, out);
}

// After the last step: tell the others until all have told, then be through.
void JobCore::State::finish_tick(Time at, Actions& out) {
  if (!can_exchange() || finish_told || committed < options.total_steps || applied != committed)
    return;
  if (needs_lease() && reported < committed) return;
  bool all = true;
  for (const view::Member& one : agreement.view().members) {
    if (one.node == options.self.node) continue;
    all = all && (peers[one.node].finished || gone(one.node));
  }
  if (all || at >= done_at + kFinishTimeout) finish_told = true;
  if (finish_told || at >= status_sent + options.timings.linger_status) {
    status_sent = at;
    for (const NodeId& node : peers_of(agreement.view()))
      send(node, StepStatus{committed, true, finish_told}, out);
  }
  if (finish_told) out.push_back(Finished{});
}

// Sums of the last step, held for who lacks it. Who comes later still gets the state after it.
void JobCore::State::release_gradients(Time at) {
  if (!finish_told || gradients_released) return;
  const auto& members = agreement.view().members;
  const bool all_through = std::all_of(members.begin(), members.end(), [&](const auto& one) {
    return one.node == options.self.node || peers[one.node].finished;
  });
  const bool learns = std::any_of(joiners.begin(), joiners.end(),
                                  [this](const auto& one) { return is_fresh(one.second); });
  if ((!all_through || learns) && at < done_at + kServeLaggards) return;
  gradients_released = true;
  previous_exchange.reset();
  if (options.places) options.places->close();
  log.clear();
  partials.clear();
  form->forget();
  results = collective::FloatPool::create(options.element_count);  // with it go its spares
}

}  // namespace gpunode::job
