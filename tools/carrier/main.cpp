// gpunode-carrier: the process that NCCL runs in, as NCCL may hang and take its process along. A
// node starts one a device group, with an end of a pair of sockets as descriptor 3, and orders what
// runtime/carrier/carrier_protocol.hpp says; it may kill it at any time. Ends with the node: not by
// PR_SET_PDEATHSIG, which goes by the thread that started it, but by a thread that looks whether the
// node's process and its end of the pair are there. Nothing is freed at the end, as that may hang.
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <thread>

#include "runtime/carrier/frame_socket.hpp"
#include "tools/carrier/carried_group.hpp"

namespace gpunode::carrier {
namespace {

constexpr int kByHand = 2, kBroken = 3;

bool started_by_a_node() {
  int domain = 0;
  socklen_t size = sizeof domain;
  return getsockopt(kControlDescriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
         domain == AF_UNIX;
}

void end_with(int node) {
  // A kernel without such handles has the socket alone, which another child of the node may hold.
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, node, 0));
  pollfd ends[2] = {{kControlDescriptor, POLLRDHUP, 0}, {handle, POLLIN, 0}};
  while (poll(ends, 2, -1) < 0 && errno == EINTR) continue;
  _exit(0);
}

int run() {
  if (!started_by_a_node()) {
    std::fprintf(stderr, "gpunode-carrier: is a part of a running node and not started by hand\n");
    return kByHand;
  }
  std::thread(end_with, static_cast<int>(getppid())).detach();
  FrameSocket socket{Descriptor(kControlDescriptor)};
  CarriedGroup group;
  for (;;) {
    auto order = socket.receive(kNever);
    if (!order) _exit(order.error().code == ErrorCode::unavailable ? 0 : kBroken);
    const auto done = group.carry_out(static_cast<Order>(order->kind), order->body);
    if (!socket.send({order->kind, write_answer(done)}, kNever)) _exit(0);
  }
}

}  // namespace
}  // namespace gpunode::carrier

int main() {
  return gpunode::carrier::run();
}
