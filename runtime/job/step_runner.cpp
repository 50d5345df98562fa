#include "runtime/job/step_runner.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/broken_rule.hpp"
#include "runtime/base/fault_point.hpp"

namespace gpunode::job {

namespace {
constexpr std::uint64_t kEarlyGradients = 4;  // and a MiB
// How long a carried step may take from a member's own sums on: it waits for the slowest member's.
constexpr Duration kLeastCarrying = std::chrono::seconds(30);
constexpr Duration kMostCarrying = std::chrono::minutes(5);
constexpr int kCarriedSteps = 8;
}  // namespace

StepRunner::StepRunner(const JobContext& job, Watchdog& watchdog)
    : job_(job),
      watchdog_(watchdog),
      link_(job),
      plan_(job.options.tree, job.options.routing),
      early_(kEarlyGradients * job.options.element_count * sizeof(float) + (1 << 20)),
      results_(collective::FloatPool::create(job.options.element_count)),
      form_(collective::chunk_form_of(job.options.forms)) {}

collective::AllReduce::Options StepRunner::options_of_step() {
  const view::View& view = job_.view();
  collective::AllReduce::Options chosen;
  chosen.rank = *view.rank_of(job_.self());
  chosen.member_count = static_cast<std::uint16_t>(view.members.size());
  chosen.owner_rotation = view.owner_rotation;
  chosen.tree = job_.options.tree;
  chosen.plan = plan_.slices();
  chosen.layout = collective::ChunkLayout::of(job_.options.element_count);
  chosen.add = job_.options.add;
  chosen.route = plan_.route();
  chosen.site = job_.options.site;
  chosen.form = form_;
  chosen.need_after = job_.options.timings.need_after;
  if (chosen.member_count > 1) chosen.result_buffer = results_->take();
  return chosen;
}

void StepRunner::begin(Actions& out) {
  plan_digest_ = plan_.digest();
  exchange_.emplace(options_of_step(), job_.now);
  step_ = job_.progress.committed() + 1;
  if (job_.options.places) tell_places();
  began_ = job_.now;
  if (partial_step_ != step_) {
    drop_partials(step_);
    compute_times_ = {};
  }
  std::vector<collective::SendTo> sends;
  exchange_->set_times(compute_times_, after_);
  exchange_->set_has_group(link_.stands());
  std::erase_if(partials_, [this](const auto& one) { return !is_whole(one.second); });
  for (const collective::TreeNode& node : exchange_->own_cover())
    if (const auto found = partials_.find(node); found != partials_.end())
      exchange_->on_partial(job_.now, node, found->second.sum, found->second.data_fingerprint,
                            sends);
  send(step_, sends, out);
  const bool carries = link_.carries() && !plan_.route() && partials_.empty();
  if (carries) exchange_->carry();
  ask_compute(carries, out);
}

// Bulk messages of the step may be read to where they belong.
void StepRunner::tell_places() {
  const view::View& view = job_.view();
  StepPlaces::Step step;
  step.name = {view.view_id, step_, view.history(), plan_digest_};
  for (const view::Member& one : view.members) step.members.push_back(one.node);
  step.chunk_count = collective::ChunkLayout::of(job_.options.element_count).chunk_count();
  step.places = exchange_->places();
  job_.options.places->open(std::move(step));
}

void StepRunner::close_places() {
  if (job_.options.places) job_.options.places->close();
}

void StepRunner::ask_compute(bool carries, Actions& out) {
  Compute compute;
  compute.id = ++compute_id_;
  compute.step = step_;
  compute.discard_kept = discard_kept_;
  compute.alone = job_.view().members.size() == 1;
  for (const collective::TreeNode& node : exchange_->own_cover())
    if (!partials_.contains(node)) compute.nodes.push_back(node);
  if (carries) {
    const view::View& view = job_.view();
    compute.carry =
        Carry{*view.rank_of(job_.self()), static_cast<std::uint16_t>(view.members.size()),
              view.owner_rotation, plan_.slices(),
              std::clamp<Duration>(kCarriedSteps * step_time_, kLeastCarrying, kMostCarrying)};
  }
  discard_kept_ = false;
  fault_point("compute", step_);
  if (compute.nodes.empty())
    watchdog_.dropped(Watchdog::Work::compute);
  else
    watchdog_.asked(Watchdog::Work::compute, job_.now);
  out.push_back(std::move(compute));
}

void StepRunner::send(std::uint64_t step, const std::vector<collective::SendTo>& sends,
                      Actions& out) {
  const view::View& view = job_.view();
  const Digest& followed = step == step_ && exchange_ ? plan_digest_ : previous_plan_digest_;
  for (const collective::SendTo& one : sends) {
    if (one.rank >= view.members.size()) continue;
    // DONE follows the results on their own way; a question must get through where that is broken.
    const bool bulk = !std::holds_alternative<collective::Need>(one.message);
    sent_bytes_ += payload_bytes(one.message);
    job_.send(view.members[one.rank].node, StepMessage{step, followed, one.message}, out, bulk);
  }
}

Result<void> StepRunner::on_message(const NodeId& from, std::uint16_t rank,
                                    const StepMessage& message, Actions& out) {
  std::vector<collective::SendTo> sends;
  if (exchange_ && message.step == step_) {
    if (message.plan != plan_digest_)
      return Error{ErrorCode::invalid_argument,
                   "node " + from.short_text() + " follows another slice plan"};
    received_bytes_ += payload_bytes(message.message);
    exchange_->on_message(job_.now, rank, message.message, sends);
    send(step_, sends, out);
    leave_group_if_asked(from, out);
    return {};
  }
  const std::uint64_t committed = job_.progress.committed();
  const std::uint64_t done = job_.state_ready ? committed : job_.view().base_step;
  if (message.step == committed && previous_) {
    previous_->on_message(job_.now, rank, message.message, sends);
    send(committed, sends, out);
  } else if (message.step > done && message.step <= done + 2) {  // nobody is further ahead
    early_.keep(from, message);
  }
  return {};
}

// Whoever sends its sums by messages, or asks for some, has lost the group, or does not know that it
// is carried: it needs those of all members so.
void StepRunner::leave_group_if_asked(const NodeId& who, Actions& out) {
  if (!exchange_->is_asked_for_chunks() || left_group_in_ == step_) return;
  left_group_in_ = step_;
  link_.break_off("node " + who.short_text() + " is not in the devices' group any more", step_,
                  out);
  on_group_broken();
}

void StepRunner::on_group_broken() {
  if (!exchange_) return;
  // The sums come back from the devices after all.
  const bool awaits = exchange_->is_carried() && !exchange_->held();
  if (awaits && !exchange_->own_cover().empty()) watchdog_.asked(Watchdog::Work::compute, job_.now);
  exchange_->set_has_group(false);
  exchange_->end_carry();
}

void StepRunner::on_sums_whole(std::uint64_t compute_id, const collective::ComputeTimes& times) {
  if (!exchange_ || compute_id != compute_id_) return;
  compute_times_ = times;
  exchange_->set_times(compute_times_, after_);
  exchange_->on_carrying(job_.now);
  watchdog_.done(Watchdog::Work::compute, job_.now);
  fault_point("reduce", step_);
}

bool StepRunner::on_carried(const Carried& carried, Actions& out) {
  const bool awaited = exchange_ && carried.compute_id == compute_id_ && carried.step == step_ &&
                       carried.result && carried.result.size() == job_.options.element_count;
  if (!awaited) return false;
  std::vector<collective::SendTo> sends;
  ++carried_;
  exchange_->on_carried(job_.now, carried.result, carried.data_fingerprint, sends);
  send(step_, sends, out);
  return true;
}

void StepRunner::keep_early(const NodeId& from, const JobMessage& message) {
  if (const auto* step = std::get_if<StepMessage>(&message.body))
    early_.keep_early(message.view, from, *step);
}

bool StepRunner::fits(const PartialRange& range) const {
  const std::uint64_t elements = job_.options.element_count;
  const bool whole = range.first == 0 && range.count == elements;
  return range.step == job_.progress.committed() + 1 && job_.options.tree.contains(range.node) &&
         range.sum && range.sum.size() == elements && range.first <= elements &&
         range.count <= elements - range.first && (range.compute_id == compute_id_ || whole);
}

bool StepRunner::on_partial(const PartialRange& range, bool goes_on, Actions& out) {
  if (!fits(range)) return false;
  if (partial_step_ != range.step) drop_partials(range.step);
  Partial& partial =
      partials_.try_emplace(range.node, Partial{range.sum, range.data_fingerprint}).first->second;
  const std::uint64_t elements = job_.options.element_count;
  if (partial.sum != range.sum || partial.final_elements + range.count > elements ||
      (is_whole(partial) && elements > 0))
    return false;
  partial.final_elements += range.count;
  if (range.times.compute_us >= compute_times_.compute_us) compute_times_ = range.times;
  if (is_whole(partial)) fault_point("reduce", range.step);
  if (!exchange_ || step_ != range.step) return false;
  const auto cover = exchange_->own_cover();
  if (std::find(cover.begin(), cover.end(), range.node) == cover.end()) return false;
  // The work has come back, whether the step may go on by it or not.
  if (std::all_of(cover.begin(), cover.end(), [this](const auto& node) {
        const auto found = partials_.find(node);
        return found != partials_.end() && is_whole(found->second);
      }))
    watchdog_.done(Watchdog::Work::compute, job_.now);
  if (!goes_on) return false;
  std::vector<collective::SendTo> sends;
  exchange_->set_times(compute_times_, after_);
  exchange_->on_partial_range(job_.now, range.node, range.sum, range.data_fingerprint, range.first,
                              range.count, sends);
  send(range.step, sends, out);
  return true;
}

void StepRunner::on_tick(Actions& out) {
  if (!exchange_) return;
  std::vector<collective::SendTo> sends;
  exchange_->on_tick(job_.now, sends);
  send(step_, sends, out);
}

void StepRunner::on_reconnected(std::uint16_t rank, Actions& out) {
  std::vector<collective::SendTo> sends;
  if (previous_) previous_->on_reconnected(job_.now, rank, sends);
  send(job_.progress.committed(), sends, out);
  sends.clear();
  if (exchange_) exchange_->on_reconnected(job_.now, rank, sends);
  send(step_, sends, out);
}

void StepRunner::tell_arrived(Actions& out) {
  const auto arrived = exchange_->take_arrived();
  for (const collective::Elements& part : arrived.parts)
    out.push_back(SpeculativeUpdate{step_, arrived.sum, part.first, part.count});
}

bool StepRunner::newly_held() {
  if (!exchange_->held() || told_held_ == step_) return false;
  told_held_ = step_;
  held_at_ = job_.now;
  fault_point("held", step_);
  return true;
}

bool StepRunner::is_complete() const {
  return exchange_->committed() || (broken("apply_on_own_completion") && exchange_->held());
}

const collective::AllReduce& StepRunner::end() {
  previous_ = std::move(exchange_);
  exchange_.reset();
  form_->on_commit();
  previous_plan_digest_ = plan_digest_;
  step_time_ = job_.now - began_;
  return *previous_;
}

std::uint32_t StepRunner::on_commit(const std::vector<collective::StepTimes>& told) {
  drop_partials(0);
  compute_times_ = {};
  const std::uint32_t confirm_us = collective::microseconds(job_.now - held_at_);
  after_ = {confirm_us, 0, static_cast<std::uint32_t>(sent_bytes_ / 1024),
            static_cast<std::uint32_t>(received_bytes_ / 1024)};
  sent_bytes_ = received_bytes_ = 0;
  committed_at_ = job_.now;
  watchdog_.dropped(Watchdog::Work::compute);
  if (!told.empty()) plan_.next(job_.view(), job_.progress.committed() + 1, told);
  return confirm_us;
}

void StepRunner::on_applied() {
  after_.apply_us = collective::microseconds(job_.now - committed_at_);
}

void StepRunner::drop_partials(std::uint64_t step) {
  partials_.clear();
  partial_step_ = step;
}

void StepRunner::on_state_replaced() {
  drop_partials(0);
  discard_kept_ = true;
}

std::optional<collective::AllReduce> StepRunner::on_view(bool redo) {
  early_.on_view(job_.view().name());
  previous_.reset();
  form_->forget();  // chunks may have other owners
  left_group_in_ = 0;
  began_ = job_.now;
  if (redo) on_state_replaced();
  std::optional<collective::AllReduce> held;
  if (exchange_ && exchange_->held() && step_ == job_.progress.committed() + 1)
    held = std::move(exchange_);
  exchange_.reset();
  watchdog_.dropped(Watchdog::Work::compute);  // what it was asked for is void
  close_places();
  return held;
}

void StepRunner::release() {
  previous_.reset();
  close_places();
  drop_partials(0);
  form_->forget();
  results_ = collective::FloatPool::create(job_.options.element_count);  // with it go its spares
}

Duration StepRunner::step_time() const {
  return std::max(step_time_, job_.now - began_);
}

}  // namespace gpunode::job
