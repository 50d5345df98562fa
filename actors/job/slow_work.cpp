#include "actors/job/slow_work.hpp"

#include <string>
#include <utility>

namespace gpunode::jobs {

Result<bool> SlowWork::add(const NodeId& by, Work work) {
  std::lock_guard lock(mutex_);
  if (closed_) return Error{ErrorCode::unavailable, "this node is stopping"};
  Asker& asker = askers_[by];
  const std::size_t room = by == self_ ? limits_.waiting : limits_.waiting_each;
  if (waiting_ >= limits_.waiting || asker.waiting.size() >= room) {
    if (asker.waiting.empty() && asker.running == 0) askers_.erase(by);
    return Error{ErrorCode::resource_exhausted,
                 "this node looks at " + std::to_string(limits_.threads) +
                     " jobs already, and others wait for that: try again later"};
  }
  asker.waiting.push_back(std::move(work));
  ++waiting_;
  if (threads_ >= limits_.threads || next_due() == askers_.end()) return false;
  ++threads_;
  return true;
}

// Of those whose turn it may be the one that comes after who was served last.
SlowWork::Askers::iterator SlowWork::next_due() {
  const auto first = askers_.upper_bound(last_served_);
  for (auto it = first; it != askers_.end(); ++it)
    if (is_due(*it)) return it;
  for (auto it = askers_.begin(); it != first; ++it)
    if (is_due(*it)) return it;
  return askers_.end();
}

void SlowWork::serve() {
  std::unique_lock lock(mutex_);
  for (auto next = next_due(); next != askers_.end(); next = next_due()) {
    const NodeId by = last_served_ = next->first;
    Work work = std::move(next->second.waiting.front());
    next->second.waiting.pop_front();
    ++next->second.running;
    --waiting_;
    lock.unlock();
    work();
    work = nullptr;  // what it holds goes outside of the lock
    lock.lock();
    Asker& asker = askers_.at(by);
    --asker.running;
    if (asker.waiting.empty() && asker.running == 0) askers_.erase(by);
  }
  --threads_;
}

void SlowWork::close() {
  std::deque<Work> lost;  // ends outside of the lock: it may answer
  std::lock_guard lock(mutex_);
  closed_ = true;
  for (auto& [by, asker] : askers_)
    for (Work& work : std::exchange(asker.waiting, {})) lost.push_back(std::move(work));
  std::erase_if(askers_, [](const auto& one) { return one.second.running == 0; });
  waiting_ = 0;
}

}  // namespace gpunode::jobs
