#include "runtime/transport/detail/reactor.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "runtime/base/check.hpp"

namespace gpunode::transport::detail {

namespace {
constexpr Duration kCrowded = std::chrono::milliseconds(200);
}

Reactor::Reactor()
    : epoll_(epoll_create1(EPOLL_CLOEXEC)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  GPUNODE_CHECK(epoll_ >= 0 && wake_ >= 0, "no file descriptors left for a thread's wake-up");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = 0;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event);
}

Reactor::~Reactor() {
  stop(nullptr);
  ::close(epoll_);
  ::close(wake_);
}

void Reactor::start() {
  running_ = true;
  thread_ = std::thread([this] { run(); });
}

void Reactor::stop(Task last) {
  if (!thread_.joinable()) {
    if (last) last();
    return;
  }
  post([this, last = std::move(last)] {
    if (last) last();
    running_ = false;
  });
  thread_.join();
  std::lock_guard lock(mutex_);
  stopped_ = true;
  posted_.clear();
}

void Reactor::post(Task task) {
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return;
    posted_.push_back(std::move(task));
    if (awake_ || on_its_thread()) return;  // it looks before it waits
    awake_ = true;
  }
  // Outside of the lock, which who wakes takes first.
  std::uint64_t one = 1;
  [[maybe_unused]] auto written = ::write(wake_, &one, sizeof one);
}

std::uint64_t Reactor::watch(int fd, Wanted wanted, Task task) {
  std::uint64_t id = next_id_++;
  epoll_event event{};
  event.events = wanted == Wanted::reading   ? std::uint32_t{EPOLLIN}
                 : wanted == Wanted::writing ? std::uint32_t{EPOLLOUT}
                                             : EPOLLIN | EPOLLOUT | EPOLLET;
  event.data.u64 = id;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
  watches_[id] = {fd, std::make_shared<Task>(std::move(task))};
  return id;
}

void Reactor::unwatch(std::uint64_t id) {
  auto found = watches_.find(id);
  if (found == watches_.end()) return;
  epoll_ctl(epoll_, EPOLL_CTL_DEL, found->second.fd, nullptr);
  watches_.erase(found);
}

void Reactor::after(Duration delay, Task task) {
  timers_.emplace(clock_.now() + delay, std::move(task));
}

int Reactor::timeout_ms() const {
  if (timers_.empty()) return -1;
  auto left = timers_.begin()->first - clock_.now();
  auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count() + 1;
  return static_cast<int>(std::clamp<long long>(ms, 0, 60'000));
}

void Reactor::run_timers() {
  while (running_ && !timers_.empty() && timers_.begin()->first <= clock_.now()) {
    Task task = std::move(timers_.extract(timers_.begin()).mapped());
    task();
  }
}

void Reactor::run_posted() {
  std::vector<Task> tasks;
  {
    std::lock_guard lock(mutex_);
    tasks.swap(posted_);
  }
  for (Task& task : tasks) {
    if (running_) task();
  }
}

bool Reactor::anything_posted() {
  std::lock_guard lock(mutex_);
  return !posted_.empty();
}

// Sleeps until something is ready; where that is likely within microseconds, it looks again and
// again instead, giving way to others between two looks: the kernel's wake-up takes longer. Where
// others want the core, giving way takes milliseconds: then no spin is tried for a while.
int Reactor::wait(epoll_event* ready, int most) {
  if (anything_posted()) return epoll_wait(epoll_, ready, most, 0);
  if (spin_ > Duration{}) {
    const Time until = clock_.now() + spin_;
    for (Time now = until - spin_; now < until;) {
      int count = epoll_wait(epoll_, ready, most, 0);
      if (count != 0 || anything_posted()) {
        spin_ = spin_most_;
        return count;
      }
      std::this_thread::yield();
      now = clock_.now();
      if (now > until + spin_most_) no_spin_until_ = now + kCrowded;
    }
    spin_ = clock_.now() >= no_spin_until_ && spin_ > spin_most_ / 16 ? spin_ / 2 : Duration{};
  }
  if (spin_most_ == Duration{}) return epoll_wait(epoll_, ready, most, timeout_ms());
  const Time asleep = clock_.now();
  int count = epoll_wait(epoll_, ready, most, timeout_ms());
  const Time awake = clock_.now();
  // A spin would have met it.
  if (awake - asleep < spin_most_ && awake >= no_spin_until_) spin_ = spin_most_;
  return count;
}

void Reactor::run() {
  self_ = std::this_thread::get_id();
  epoll_event ready[64];
  while (running_) {
    int count = wait(ready, 64);
    for (int i = 0; i < count && running_; ++i) {
      if (ready[i].data.u64 == 0) {
        std::uint64_t value;
        [[maybe_unused]] auto got = ::read(wake_, &value, sizeof value);
        std::lock_guard lock(mutex_);
        awake_ = false;
        continue;
      }
      auto found = watches_.find(ready[i].data.u64);
      if (found == watches_.end()) continue;  // closed by an earlier callback of this round
      auto task = found->second.task;
      (*task)();
    }
    run_posted();
    run_timers();
  }
}

}  // namespace gpunode::transport::detail
