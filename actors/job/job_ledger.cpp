#include "actors/job/job_ledger.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <utility>

namespace gpunode::jobs {
namespace {

constexpr std::size_t kRecentSteps = 32;

}  // namespace

void JobLedger::on_view(const view::View& view) {
  view_ = view;
  account_.on_view(view);
  recent_.clear();
}

// The figures of the newest step, once that is another one than the last that was made.
void JobLedger::follow_history() {
  const JobHistory::Commit& newest = history_.newest();
  seen_.committed = newest.step;
  seen_.running = newest.running;
  seen_.state_digest = newest.state;
  seen_.loss = newest.loss;
}

void JobLedger::restore(JobHistory history) {
  history_ = std::move(history);
  follow_history();
  const JobHistory::Commit& newest = history_.newest();
  known_until_ = newest.time;
  if (!history_.events().empty())
    known_until_ = std::max(*known_until_, history_.events().back().time);
  if (newest.step > 0) last_ = newest;
}

bool JobLedger::take(const JobHistory& other) {
  if (!history_.take(other)) return false;
  history_.take_events(other, known_until_.value_or(Time::min()), began_.value_or(Time::max()));
  return true;
}

void JobLedger::undo_to(std::uint64_t step) {
  if (step >= history_.newest().step) return;
  history_.undo_to(step);
  follow_history();
}

void JobLedger::on_result(Time now, std::uint64_t step, const collective::DataFingerprint& running,
                          const Digest& state) {
  if (step > history_.newest().step)
    history_.jump_to({.time = now, .step = step, .state = state, .running = running});
  follow_history();
  current_ = true;
}

void JobLedger::on_committed(Time now, const job::Committed& committed) {
  // The first commit of another view: how long the job stood still is what people ask then.
  if (last_ && last_->view_id != view_.view_id && last_->step + 1 == committed.step) {
    char text[120];
    std::snprintf(text, sizeof text, "goes on with step %llu, %.3f s after the commit of step %llu",
                  static_cast<unsigned long long>(committed.step),
                  std::chrono::duration<double>(now - last_->time).count(),
                  static_cast<unsigned long long>(last_->step));
    on_event(now, text);
  }
  SliceCounts computed;
  for (const NodeId& node : committed.computed_by) ++computed[node];
  slices_ += committed.computed_by.size();
  if (const auto own = computed.find(compute_.self); own != computed.end())
    own_slices_ += own->second;
  history_.add({.time = now,
                .step = committed.step,
                .view_id = view_.view_id,
                .state = {},
                .running = committed.running,
                .computed = std::make_shared<const SliceCounts>(std::move(computed))});
  last_ = history_.newest();
  current_ = true;
  seen_.committed = committed.step;
  seen_.running = committed.running;
  account_.on_committed(now, committed);
  recent_.push_back({now, committed.step, slices_, own_slices_});
  if (recent_.size() > kRecentSteps) recent_.pop_front();
}

void JobLedger::on_applied(std::uint64_t step, double loss, const Digest& state) {
  seen_.loss = loss;
  seen_.state_digest = state;
  if (skipped_last_ != step) seen_.skipped_in_a_row = 0;
  history_.on_applied(step, loss, state);
}

void JobLedger::on_event(Time now, std::string text) {
  if (!began_) began_ = now;
  history_.add_event({now, std::move(text)});
}

std::optional<std::string> JobLedger::on_skipped(Time now, std::uint64_t step) {
  history_.count_skipped(step);
  seen_.skipped_in_a_row = step == skipped_last_ + 1 ? seen_.skipped_in_a_row + 1 : 1;
  skipped_last_ = step;
  const std::uint64_t first = step + 1 - seen_.skipped_in_a_row;
  const std::string text =
      first == step ? "step " + std::to_string(step) + " was skipped: its gradient is not finite"
                    : "steps " + std::to_string(first) + " to " + std::to_string(step) +
                          " were skipped: their gradients are not finite";
  if (first == step)
    on_event(now, text);
  else
    history_.change_event(skipped_text_, text);
  skipped_text_ = text;
  if (!std::has_single_bit(seen_.skipped_in_a_row)) return std::nullopt;
  return text;
}

KnownStep JobLedger::known(const job::JobStatus& status, JobPhase phase) const {
  KnownStep out;
  const std::uint64_t newest = history_.newest().step;
  // Where a lease is needed, only what was committed while it held; the result counts whoever gave
  // it, also to a node that has never held one.
  const bool leased = status.needs_lease && current_ && phase != JobPhase::finished;
  out.step = leased ? status.reported : std::max(newest, status.reported);
  if (const JobHistory::Commit* commit = history_.commit_of(out.step)) {
    if (commit->time != Time{}) out.at = commit->time;
    out.loss = commit->loss;
  }
  if (out.step == newest) out.loss = seen_.loss;
  if (only_hears(phase) && heard_.newest() && heard_.newest()->step > out.step)
    return *heard_.newest();
  if (out.step == 0) return out;
  if (!current_ && out.step == newest && phase != JobPhase::finished)
    out.how = "before this node was started again";
  else if (phase == JobPhase::paused || phase == JobPhase::failed || phase == JobPhase::outsider)
    out.how = "as far as is known here";
  return out;
}

double JobLedger::tokens_per_second() const {
  if (recent_.size() < 2) return 0;
  double seconds =
      std::chrono::duration<double>(recent_.back().time - recent_.front().time).count();
  double steps = static_cast<double>(recent_.back().step - recent_.front().step);
  return seconds > 0 ? steps * static_cast<double>(tokens_per_step_) / seconds : 0;
}

std::optional<double> JobLedger::recent_rate(std::uint64_t Recent::*slices) const {
  if (recent_.size() < 2 || compute_.slice_flops <= 0) return std::nullopt;
  const Recent &first = recent_.front(), &last = recent_.back();
  const double seconds = std::chrono::duration<double>(last.time - first.time).count();
  if (seconds <= 0) return std::nullopt;
  return static_cast<double>(last.*slices - first.*slices) * compute_.slice_flops / seconds;
}

std::optional<double> JobLedger::flops_per_second() const {
  return recent_rate(&Recent::slices);
}

std::optional<double> JobLedger::utilisation() const {
  const auto rate = recent_rate(&Recent::own_slices);
  if (!rate || compute_.peak_flops <= 0) return std::nullopt;
  return *rate / std::max(compute_.peak_flops, *rate);
}

Duration JobLedger::time_left(std::uint64_t total_steps) const {
  double speed = tokens_per_second();
  if (speed <= 0 || seen_.committed >= total_steps) return Duration{0};
  double tokens =
      static_cast<double>(total_steps - seen_.committed) * static_cast<double>(tokens_per_step_);
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(tokens / speed));
}

}  // namespace gpunode::jobs
