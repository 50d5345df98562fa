// A listening TCP port on a reactor: hands over everyone who connects. Where descriptors or memory
// run out it looks away for a moment, as the port would be reported as ready without end. Who comes
// from elsewhere than it may is hung up on at once. Owned by whoever owns the reactor; must stay
// until that has ended.
#pragma once

#include <functional>
#include <string>

#include "runtime/transport/detail/reactor.hpp"
#include "runtime/transport/detail/tcp.hpp"

namespace gpunode::transport::detail {

class Acceptor {
 public:
  // Called on the reactor's thread with a non-blocking descriptor, which is the callee's to close.
  using Admit = std::function<void(int fd, const IpAddress& from)>;

  Acceptor(Reactor& reactor, const Listening& listening, IpRanges allowed, Admit admit);
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Before the reactor starts, or on its thread.
  void start();

 private:
  void accept_all();

  Reactor& reactor_;
  SharedDescriptor fd_;
  const IpRanges allowed_;
  Admit admit_;
  std::uint64_t watch_ = 0;
};

}  // namespace gpunode::transport::detail
