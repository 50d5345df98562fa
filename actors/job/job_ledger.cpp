#include "actors/job/job_ledger.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>

namespace gpunode::jobs {
namespace {

constexpr std::size_t kEventsKept = 1000;
constexpr std::size_t kCommitsKept = 4096;
constexpr std::size_t kRecentSteps = 32;

}  // namespace

void JobLedger::on_view(const view::View& view) {
  view_ = view;
  account_.on_view(view);
  recent_.clear();
}

void JobLedger::on_committed(Time now, const job::Committed& committed) {
  if (seen_.witnessed_from == 0) seen_.witnessed_from = committed.step;
  // The first commit of another view: how long the job stood still is what people ask then.
  if (!commits_.empty() && commits_.back().view_id != view_.view_id) {
    const Commit& last = commits_.back();
    char text[120];
    std::snprintf(text, sizeof text, "goes on with step %llu, %.3f s after the commit of step %llu",
                  static_cast<unsigned long long>(committed.step),
                  std::chrono::duration<double>(now - last.time).count(),
                  static_cast<unsigned long long>(last.step));
    on_event(now, text);
  }
  commits_.push_back({now, committed.step, view_.view_id, {}});
  if (commits_.size() > kCommitsKept) commits_.pop_front();
  seen_.committed = committed.step;
  seen_.running = committed.running;
  for (const NodeId& node : committed.computed_by) ++seen_.slices[node];
  account_.on_committed(now, committed);
  slices_ += committed.computed_by.size();
  const auto own = seen_.slices.find(compute_.self);
  recent_.push_back({now, committed.step, slices_, own == seen_.slices.end() ? 0 : own->second});
  if (recent_.size() > kRecentSteps) recent_.pop_front();
}

void JobLedger::on_applied(std::uint64_t step, double loss, const Digest& state) {
  seen_.loss = loss;
  seen_.state_digest = state;
  if (skipped_last_ != step) seen_.skipped_in_a_row = 0;
  for (auto commit = commits_.rbegin(); commit != commits_.rend(); ++commit) {
    if (commit->step < step) break;
    if (commit->step != step) continue;
    commit->state = state;
    break;
  }
}

void JobLedger::on_event(Time now, std::string text) {
  events_.push_back({now, std::move(text)});
  if (events_.size() <= kEventsKept) return;
  events_.pop_front();
  ++events_dropped_;
}

std::optional<std::string> JobLedger::on_skipped(Time now, std::uint64_t step) {
  ++seen_.skipped;
  seen_.skipped_in_a_row = step == skipped_last_ + 1 ? seen_.skipped_in_a_row + 1 : 1;
  skipped_last_ = step;
  const std::uint64_t first = step + 1 - seen_.skipped_in_a_row;
  const std::string text =
      first == step ? "step " + std::to_string(step) + " was skipped: its gradient is not finite"
                    : "steps " + std::to_string(first) + " to " + std::to_string(step) +
                          " were skipped: their gradients are not finite";
  if (first == step) {
    skipped_event_ = events_dropped_ + events_.size();
    on_event(now, text);
  } else if (skipped_event_ >= events_dropped_) {
    events_[skipped_event_ - events_dropped_].text = text;
  }
  if (!std::has_single_bit(seen_.skipped_in_a_row)) return std::nullopt;
  return text;
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
