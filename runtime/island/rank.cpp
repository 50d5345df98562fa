#include "runtime/island/rank.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>

#include "runtime/island/detail/nccl_device.hpp"
#include "runtime/island/detail/rank_protocol.hpp"

namespace gpunode::island {
namespace {

constexpr int kByHand = 2, kBroken = 3;

bool is_started_by_a_node() {
  int type = 0;
  socklen_t size = sizeof type;
  return getsockopt(kControlDescriptor, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
         type == SOCK_SEQPACKET && fcntl(kMemoryDescriptor, F_GET_SEALS) >= 0;
}

// The whole memory file; empty: it is not one.
std::span<float> map_memory(std::uint64_t element_count) {
  struct stat file = {};
  if (fstat(kMemoryDescriptor, &file) != 0 || file.st_size <= 0 ||
      element_count * sizeof(float) > static_cast<std::uint64_t>(file.st_size))
    return {};
  void* place = mmap(nullptr, static_cast<std::size_t>(file.st_size), PROT_READ | PROT_WRITE,
                     MAP_SHARED, kMemoryDescriptor, 0);
  if (place == MAP_FAILED) return {};
  return {static_cast<float*>(place), element_count};
}

class Rank {
 public:
  Result<void> carry_out(const RankOrder& order, RankAnswer& answer) {
    if (order.kind == RankOrder::Kind::open) return open(order);
    if (!device_) return {ErrorCode::wrong_state, "no GPU is open"};
    switch (order.kind) {
      case RankOrder::Kind::name:
        return make_name(order, answer);
      case RankOrder::Kind::join:
        stay_inside(order);
        return device_->join(std::as_bytes(std::span(order.name)),
                             {static_cast<int>(order.rank), static_cast<int>(order.member_count),
                              static_cast<int>(order.place_on_host)});
      default:
        return device_->sum();
    }
  }

 private:
  Result<void> open(const RankOrder& order) {
    const std::span<float> vector = map_memory(order.element_count);
    if (vector.data() == nullptr) return {ErrorCode::internal, "the shared memory is not there"};
    auto device = NcclDevice::open(text_at(order.nccl), text_at(order.driver), vector);
    if (!device) return device.error();
    device_ = std::move(*device);
    return {};
  }
  Result<void> make_name(const RankOrder& order, RankAnswer& answer) {
    stay_inside(order);
    auto name = device_->make_name();
    if (!name) return name.error();
    std::memcpy(answer.name, name->data(), std::min(name->size(), kNameBytes));
    return {};
  }
  // NCCL's members find each other over sockets in clear: on one machine no other may see them.
  static void stay_inside(const RankOrder& order) {
    if (order.one_host) setenv("NCCL_SOCKET_IFNAME", "lo", 0);
  }

  std::unique_ptr<NcclDevice> device_;
};

}  // namespace

int run_rank() {
  if (!is_started_by_a_node()) {
    std::fprintf(stderr, "gpunode: %s is a part of a running node and is not started by hand\n",
                 kRankCommand);
    return kByHand;
  }
  // Also where NCCL never comes back. A node that died before this line has closed the socket.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, "gpunode-nccl");
  Rank rank;
  for (;;) {
    RankOrder order;
    const ssize_t size = recv(kControlDescriptor, &order, sizeof order, 0);
    if (size < 0 && errno == EINTR) continue;
    if (size == 0) _exit(0);  // no destructors of libraries that may hang
    if (size != sizeof order) _exit(kBroken);
    RankAnswer answer{.kind = order.kind};
    if (auto done = rank.carry_out(order, answer); !done) {
      answer.failed = 1;
      put_text(answer.reason, done.error().detail);
    }
    if (send(kControlDescriptor, &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer) _exit(0);
  }
}

}  // namespace gpunode::island
