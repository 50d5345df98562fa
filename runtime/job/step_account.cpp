#include "runtime/job/step_account.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace gpunode::job {

namespace {

constexpr std::size_t kSteps = 32;
constexpr std::size_t kLeastSteps = 8;  // before anybody is named
constexpr double kWorthNaming = 0.05;   // of a step, that others wait for the slowest
constexpr double kMostSteps = 2.0 / 3;  // in which it is the slowest, for one cause
constexpr double kAboveSpread = 3;      // times the median distance from the median
constexpr double kLongConfirm = 0.1;    // of a step

double seconds(std::uint32_t microseconds) {
  return microseconds * 1e-6;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double median_distance(std::vector<double> values, double from) {
  for (double& one : values) one = std::abs(one - from);
  return median(std::move(values));
}

// Whether it computes too long in this step, waits too long for its data, or sends too slowly.
Cause cause_of(const std::vector<collective::StepTimes>& times, std::size_t rank, double lost) {
  std::uint32_t compute_us = 0, data_us = 0;  // the most of the others
  for (std::size_t other = 0; other < times.size(); ++other) {
    if (other == rank) continue;
    compute_us = std::max(compute_us, times[other].compute.compute_us);
    data_us = std::max(data_us, times[other].compute.data_us);
  }
  const double excess = seconds(times[rank].compute.compute_us) - seconds(compute_us);
  if (excess < lost / 2) return Cause::link;
  const double starved = seconds(times[rank].compute.data_us) - seconds(data_us);
  return starved >= excess / 2 ? Cause::data : Cause::compute;
}

// Whose result came soonest after its own last partial sum, and how much later the next one's.
std::pair<std::size_t, double> least_waiting(const std::vector<collective::StepTimes>& times) {
  std::size_t first = 0;
  std::uint32_t least = 0xffffffff, next = 0xffffffff;
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    const std::uint32_t gather = times[rank].gather_us;
    if (gather < least) first = rank;
    next = std::min(next, std::max(least, gather));
    least = std::min(least, gather);
  }
  return {first, seconds(next - least)};
}

}  // namespace

std::string_view to_string(Cause cause) {
  switch (cause) {
    case Cause::compute:
      return "compute";
    case Cause::data:
      return "data";
    case Cause::link:
      return "link";
  }
  return "unknown";
}

void StepAccount::on_view(const view::View& view) {
  members_.clear();
  for (const view::Member& one : view.members) members_.push_back(one.node);
  steps_.clear();
  last_commit_.reset();
  plan_ = {};
}

void StepAccount::on_committed(Time now, const Committed& committed) {
  if (last_commit_ && committed.times.size() == members_.size()) {
    steps_.push_back({now - *last_commit_, committed.times});
    if (steps_.size() > kSteps) steps_.pop_front();
    plan_ = committed.plan;
  }
  last_commit_ = now;
}

// Seconds of the step that the others waited for each.
std::vector<double> StepAccount::lost_in(const Step& step) const {
  std::vector<double> lost(members_.size(), 0);
  double owners = 0;
  for (const collective::StepTimes& times : step.times) {
    if (times.last_rank == collective::kNoRank) continue;
    owners += 1;
    if (times.last_rank < lost.size()) lost[times.last_rank] += seconds(times.last_us);
  }
  for (double& one : lost)
    if (owners > 0) one /= owners;
  if (owners == 0 && lost.size() > 1) {
    const auto [rank, later] = least_waiting(step.times);
    lost[rank] = later;
  }
  return lost;
}

void StepAccount::add_means(Explanation& out) const {
  const std::size_t count = members_.size();
  out.members.resize(count);
  std::vector<std::uint32_t> confirm(count, 0xffffffff);
  for (const Step& step : steps_) {
    out.step += std::chrono::duration<double>(step.took).count();
    std::uint32_t exposed = 0xffffffff;
    for (const auto& times : step.times) exposed = std::min(exposed, times.gather_us);
    for (std::size_t rank = 0; rank < count; ++rank) {
      const collective::StepTimes& times = step.times[rank];
      MemberTimes& one = out.members[rank];
      one.compute += seconds(times.compute.compute_us);
      one.data += seconds(times.compute.data_us);
      one.wait += seconds(times.gather_us - exposed);
      one.exchange += seconds(exposed);
      one.confirm += seconds(times.before.confirm_us);
      one.apply += seconds(times.before.apply_us);
      one.sent_bytes += times.before.sent_kib * 1024.0;
      one.received_bytes += times.before.received_kib * 1024.0;
      one.site = times.site;
      if (times.compute.slices > 0)
        one.slice +=
            seconds(times.compute.compute_us) * times.compute.workers / times.compute.slices;
      confirm[rank] = std::min(confirm[rank], times.before.confirm_us);
    }
  }
  const double steps = static_cast<double>(steps_.size());
  out.step /= steps;
  for (std::size_t rank = 0; rank < count; ++rank) {
    MemberTimes& one = out.members[rank];
    one.node = members_[rank];
    one.slices =
        static_cast<std::uint32_t>(plan_.slices_of(static_cast<std::uint16_t>(rank)).size());
    for (double* sum : {&one.slice, &one.compute, &one.data, &one.wait, &one.exchange, &one.confirm,
                        &one.apply, &one.sent_bytes, &one.received_bytes})
      *sum /= steps;
  }
  if (count < 2) return;
  // The last to hold hears all DONEs at once, so the delay is what others see at least.
  out.confirm = seconds(*std::max_element(confirm.begin(), confirm.end()));
  out.confirm_is_long = out.confirm > kLongConfirm * out.step;
}

void StepAccount::name_slowest(const std::set<NodeId>& busy, Explanation& out) const {
  const double steps = static_cast<double>(steps_.size());
  std::vector<double> took;
  std::vector<std::vector<double>> lost(members_.size());  // by member and step
  std::map<std::pair<std::size_t, Cause>, double> last;    // steps in which it was for that cause
  double waits = 0;                                        // steps in which anybody is waited for
  for (const Step& step : steps_) {
    took.push_back(std::chrono::duration<double>(step.took).count());
    const std::vector<double> now = lost_in(step);
    for (std::size_t rank = 0; rank < now.size(); ++rank) lost[rank].push_back(now[rank]);
    const auto most = std::max_element(now.begin(), now.end());
    if (*most <= kWorthNaming * took.back()) continue;
    const auto rank = static_cast<std::size_t>(most - now.begin());
    last[{rank, cause_of(step.times, rank, *most)}] += 1;
    waits += 1;
  }
  const double usual = median(took);
  const bool overloaded = 2 * busy.size() >= members_.size();
  out.busy = overloaded && waits >= steps / 2;
  for (const auto& [who, times] : last) {
    const auto& [rank, cause] = who;
    const double middle = median(lost[rank]);
    const bool stands_out = times >= kMostSteps * steps && middle > kWorthNaming * usual &&
                            middle >= kAboveSpread * median_distance(lost[rank], middle);
    const bool by_load = cause == Cause::link && (overloaded || busy.contains(members_[rank]));
    if (!stands_out) continue;
    out.busy = by_load;
    if (!by_load) out.slowest = {members_[rank], cause, middle};
  }
}

Explanation StepAccount::explain(const std::set<NodeId>& busy) const {
  Explanation out;
  if (steps_.empty()) return out;
  out.steps = static_cast<std::uint32_t>(steps_.size());
  add_means(out);
  if (members_.size() >= 2 && steps_.size() >= kLeastSteps) name_slowest(busy, out);
  return out;
}

}  // namespace gpunode::job
