#include "actors/job/history_policy.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gpunode::jobs {

void HistoryPolicy::on_checkpoint(WriteCheckpoint order) {
  next_.push_back(std::move(order));
  changed_ = at_once_ = true;
}

std::vector<WriteCheckpoint> HistoryPolicy::take_checkpoints(bool ends) {
  std::vector<WriteCheckpoint> out;
  if (!writing_ || ends) out = std::exchange(in_write_, {});
  if (ends) std::ranges::move(std::exchange(next_, {}), std::back_inserter(out));
  return out;
}

bool HistoryPolicy::begins_to_write(Time now, bool ends) {
  const bool too_early = now < not_before_ && !at_once_;
  if (!ends && (!changed_ || writing_ || too_early)) return false;
  changed_ = at_once_ = false;
  writing_ = true;
  std::ranges::move(std::exchange(next_, {}), std::back_inserter(in_write_));
  not_before_ = now + kLeastBetween;
  return true;
}

bool HistoryPolicy::on_written(Time now, bool success) {
  writing_ = false;
  if (success) {
    failed_ = false;
    return false;
  }
  changed_ = true;
  not_before_ = now + kAfterFailure;
  const bool first = !failed_;
  failed_ = true;
  return first;
}

std::optional<NodeId> HistoryPolicy::asks(Time now, std::uint64_t first,
                                          const std::vector<NodeId>& others) {
  if (first != first_) {
    first_ = first;
    asked_.clear();
    rounds_ = 0;
  }
  if (first <= 1 || waits_for_answer_ || now < next_question_ || rounds_ == kRounds)
    return std::nullopt;
  const auto next =
      std::ranges::find_if(others, [&](const NodeId& node) { return !asked_.contains(node); });
  if (next == others.end()) {
    asked_.clear();
    ++rounds_;
    next_question_ = now + kAskedAgain;
    return std::nullopt;
  }
  asked_.insert(*next);
  waits_for_answer_ = true;
  return *next;
}

}  // namespace gpunode::jobs
