#include "actors/job/disk_watch.hpp"

#include <algorithm>

namespace gpunode::jobs {

void DiskWatch::add_at(Time now, DiskTask task, std::deque<DiskTask>::iterator at) {
  if (at == tasks_.begin()) since_ = now;
  tasks_.insert(at, task);
}

void DiskWatch::done(Time now) {
  if (tasks_.empty()) return;
  Duration& usual = usual_[static_cast<std::size_t>(tasks_.front().work)];
  const Duration took = now - since_;
  usual = usual == Duration{} ? took : (3 * usual + took) / 4;
  tasks_.pop_front();
  since_ = now;
}

Duration DiskWatch::timeout() const {
  return std::max(kLeast, kTimesUsual * *std::max_element(std::begin(usual_), std::end(usual_)));
}

std::optional<LateTask> DiskWatch::late(Time now) const {
  if (tasks_.empty() || now < since_ + timeout()) return std::nullopt;
  const DiskTask& first = tasks_.front();
  return LateTask{first, now - since_, usual_[static_cast<std::size_t>(first.work)]};
}

bool DiskWatch::restores() const {
  return std::any_of(tasks_.begin(), tasks_.end(),
                     [](const DiskTask& task) { return task.restores; });
}

}  // namespace gpunode::jobs
