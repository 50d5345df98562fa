#include "runtime/transport/detail/acceptor.hpp"

#include <unistd.h>

#include <cerrno>

namespace gpunode::transport::detail {

namespace {
constexpr int kBatch = 64;
constexpr Duration kPause = std::chrono::milliseconds(100);
}  // namespace

Acceptor::Acceptor(Reactor& reactor, const Listening& listening, IpRanges allowed, Admit admit)
    : reactor_(reactor),
      fd_(share_descriptor(listening.fd)),
      allowed_(std::move(allowed)),
      admit_(std::move(admit)) {}

void Acceptor::start() {
  watch_ = reactor_.watch(*fd_, Reactor::Wanted::reading, [this] { accept_all(); });
}

void Acceptor::accept_all() {
  for (int i = 0; i < kBatch; ++i) {
    SocketAddress from;
    from.size = sizeof from.storage;
    const int fd = ::accept4(*fd_, reinterpret_cast<sockaddr*>(&from.storage), &from.size,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0 && !may_enter(fd, allowed_)) {
      ::close(fd);
    } else if (fd >= 0) {
      admit_(fd, from.ip());
    } else if (errno == EAGAIN) {
      return;
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      reactor_.unwatch(watch_);
      return reactor_.after(kPause, [this] { start(); });
    }  // else: of the one connection, which is gone
  }
}

}  // namespace gpunode::transport::detail
