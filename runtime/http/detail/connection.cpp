#include "runtime/http/detail/connection.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gpunode::http::detail {

void Connection::begin_request(SteadyTime deadline, std::size_t bytes) {
  deadline_ = deadline;
  piece_ = Duration::zero();
  bytes_left_ = bytes - std::min(bytes, end_ - begin_);
}

void Connection::begin_answer(SteadyTime deadline, Duration piece) {
  deadline_ = deadline;
  piece_ = piece;
}

void Connection::end() {
  ::shutdown(socket_.get(), SHUT_WR);
  char rest[1024];
  while (read(rest, sizeof rest) > 0) {
  }
}

bool Connection::is_readable() const {
  return begin_ < end_ || wait(POLLIN, deadline_);
}

bool Connection::is_writable() const {
  return wait(POLLOUT, deadline_);
}

bool Connection::is_gone() const {
  pollfd one{socket_.get(), POLLRDHUP, 0};
  return ::poll(&one, 1, 0) > 0 && one.revents != 0;
}

ssize_t Connection::read(char* out, size_t size) {
  if (begin_ == end_ && !fill()) return -1;
  const std::size_t count = std::min(size, end_ - begin_);
  std::memcpy(out, buffer_ + begin_, count);
  begin_ += count;
  return static_cast<ssize_t>(count);
}

ssize_t Connection::write(const char* bytes, size_t size) {
  const auto until = piece_ > Duration::zero()
                         ? std::min(deadline_, std::chrono::steady_clock::now() + piece_)
                         : deadline_;
  for (;;) {
    const ssize_t count = ::send(socket_.get(), bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) return count;
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return -1;
    if (!wait(POLLOUT, until)) return -1;
  }
}

void Connection::get_remote_ip_and_port(std::string& address, int&) const {
  address = client_;
}

bool Connection::wait(short events, SteadyTime until) const {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    constexpr std::int64_t kLongest = 3'600'000;
    pollfd one{socket_.get(), events, 0};
    const int ready = ::poll(&one, 1, static_cast<int>(std::min(left.count(), kLongest)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool Connection::fill() {
  const std::size_t most = std::min(sizeof buffer_, bytes_left_);
  if (most == 0) return false;
  for (;;) {
    const ssize_t count = ::recv(socket_.get(), buffer_, most, MSG_DONTWAIT);
    if (count > 0) {
      begin_ = 0;
      end_ = static_cast<std::size_t>(count);
      bytes_left_ -= end_;
      return true;
    }
    if (count == 0) return false;
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
    if (!wait(POLLIN, deadline_)) return false;
  }
}

}  // namespace gpunode::http::detail
