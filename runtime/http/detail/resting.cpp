#include "runtime/http/detail/resting.hpp"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace gpunode::http::detail {
namespace {

constexpr int kEventsAtOnce = 256;

}  // namespace

Resting::Resting() : set_(::epoll_create1(EPOLL_CLOEXEC)) {}

bool Resting::watch(int number) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = number;
  return ::epoll_ctl(set_.get(), EPOLL_CTL_ADD, number, &event) == 0;
}

void Resting::unwatch(int number) const {
  (void)::epoll_ctl(set_.get(), EPOLL_CTL_DEL, number, nullptr);
}

void Resting::add(Owned connection) {
  const int number = connection->number();
  epoll_event event{};
  event.events = EPOLLONESHOT | EPOLLRDHUP | (connection->wanted() == POLLOUT ? EPOLLOUT : EPOLLIN);
  event.data.fd = number;
  if (::epoll_ctl(set_.get(), EPOLL_CTL_MOD, number, &event) != 0 &&
      ::epoll_ctl(set_.get(), EPOLL_CTL_ADD, number, &event) != 0)
    connection->until = {};  // nothing is heard of it: it is late at once
  times_.emplace(connection->until, number);
  of_client_[connection->client()].emplace(connection->since, number);
  all_[number] = std::move(connection);
}

Resting::Owned Resting::take(int number) {
  const auto found = all_.find(number);
  if (found == all_.end()) return nullptr;
  Owned taken = std::move(found->second);
  all_.erase(found);
  times_.erase({taken->until, number});
  const auto client = of_client_.find(taken->client());
  client->second.erase({taken->since, number});
  if (client->second.empty()) of_client_.erase(client);
  return taken;
}

Resting::Owned Resting::take_late(SteadyTime now) {
  return times_.empty() || times_.begin()->first > now ? nullptr : take(times_.begin()->second);
}

Resting::Owned Resting::take_idle() {
  const auto found = std::ranges::find_if(
      all_, [](const auto& one) { return !one.second->ended && one.second->reader().is_empty(); });
  return found == all_.end() ? nullptr : take(found->first);
}

Resting::Owned Resting::take_longest(const std::string& client) {
  const auto found = of_client_.find(client);
  return found == of_client_.end() ? nullptr : take(found->second.begin()->second);
}

const std::vector<int>& Resting::wait() {
  std::int64_t most = 3'600'000;
  if (!times_.empty()) {
    const auto left = times_.begin()->first - std::chrono::steady_clock::now();
    most = std::clamp<std::int64_t>(std::chrono::ceil<std::chrono::milliseconds>(left).count(), 0,
                                    most);
  }
  epoll_event events[kEventsAtOnce];
  const int count = ::epoll_wait(set_.get(), events, kEventsAtOnce, static_cast<int>(most));
  if (count < 0 && errno != EINTR) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ready_.clear();
  for (int at = 0; at < count; ++at) ready_.push_back(events[at].data.fd);
  return ready_;
}

}  // namespace gpunode::http::detail
