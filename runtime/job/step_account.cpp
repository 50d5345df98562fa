#include "runtime/job/step_account.hpp"

#include <algorithm>

namespace gpunode::job {

namespace {

constexpr std::size_t kSteps = 32;
constexpr double kWorthNaming = 0.05;  // of a step, that others wait for the slowest
constexpr double kLongConfirm = 0.1;   // of a step

double seconds(std::uint32_t microseconds) {
  return microseconds * 1e-6;
}

// The largest of all but `left_out`.
template <class Value>
double largest_other(const std::vector<MemberTimes>& members, std::size_t left_out, Value value) {
  double largest = 0;
  for (std::size_t rank = 0; rank < members.size(); ++rank)
    if (rank != left_out) largest = std::max(largest, value(members[rank]));
  return largest;
}

// Whether it computes too long, waits too long for its data, or sends too slowly.
Cause cause_of(const std::vector<MemberTimes>& members, std::size_t rank, double lost) {
  const auto compute = [](const MemberTimes& one) { return one.compute; };
  const auto data = [](const MemberTimes& one) { return one.data; };
  const double excess = members[rank].compute - largest_other(members, rank, compute);
  if (excess < lost / 2) return Cause::link;
  const double starved = members[rank].data - largest_other(members, rank, data);
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

Explanation StepAccount::explain() const {
  Explanation out;
  if (steps_.empty()) return out;
  const std::size_t count = members_.size();
  out.steps = static_cast<std::uint32_t>(steps_.size());
  out.members.resize(count);
  std::vector<double> lost(count, 0);
  std::vector<std::uint32_t> confirm(count, 0xffffffff);
  for (const Step& step : steps_) {
    out.step += std::chrono::duration<double>(step.took).count();
    std::uint32_t exposed = 0xffffffff;
    for (const auto& times : step.times) exposed = std::min(exposed, times.gather_us);
    std::vector<double> named(count, 0);
    double owners = 0;
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
      if (times.last_rank == collective::kNoRank) continue;
      owners += 1;
      if (times.last_rank < count) named[times.last_rank] += seconds(times.last_us);
    }
    for (std::size_t rank = 0; rank < count && owners > 0; ++rank)
      lost[rank] += named[rank] / owners;
    if (owners == 0 && count > 1) {
      const auto [rank, later] = least_waiting(step.times);
      lost[rank] += later;
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
    lost[rank] /= steps;
  }
  if (count < 2) return out;
  // The last to hold hears all DONEs at once, so the delay is what others see at least.
  out.confirm = seconds(*std::max_element(confirm.begin(), confirm.end()));
  out.confirm_is_long = out.confirm > kLongConfirm * out.step;
  const auto worst =
      static_cast<std::size_t>(std::max_element(lost.begin(), lost.end()) - lost.begin());
  if (lost[worst] > kWorthNaming * out.step)
    out.slowest = {members_[worst], cause_of(out.members, worst, lost[worst]), lost[worst]};
  return out;
}

}  // namespace gpunode::job
