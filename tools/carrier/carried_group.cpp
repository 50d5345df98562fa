#include "tools/carrier/carried_group.hpp"

#include <poll.h>
#include <sched.h>

#include <cstring>
#include <string>
#include <utility>

namespace gpunode::carrier {
namespace {

// An invite is the version of rank 0's NCCL and its name of the group.
struct Invite {
  std::int32_t version = 0;
  NcclId id{};
};
static_assert(sizeof(Invite) <= kMaxInvite);

constexpr std::uint64_t kAlignment = 16;  // of offsets
constexpr int kFastLooks = 2000;          // some hundred microseconds, as most moves are short

Error refused(std::string why) {
  return {ErrorCode::invalid_argument, std::move(why)};
}

}  // namespace

Result<Bytes> CarriedGroup::carry_out(Order order, ByteView body) {
  const Error nonsense = refused("an order that is none");
  if (order == Order::open) {
    const auto read = read_open(body);
    return read ? open(*read) : nonsense;
  }
  if (!nccl_) return refused("no GPU is open");
  switch (order) {
    case Order::invite:
      return invite();
    case Order::join: {
      const auto read = read_join(body);
      return read ? join(*read) : nonsense;
    }
    case Order::region: {
      const auto read = read_region(body);
      return read ? region(*read) : nonsense;
    }
    case Order::move: {
      const auto read = read_move(body);
      return read ? move(*read) : nonsense;
    }
    default:
      return nonsense;
  }
}

Result<Bytes> CarriedGroup::open(const OpenOrder& order) {
  if (order.protocol != kProtocol)
    return refused("gpunode-carrier is of another build than the node: install both from one");
  if (nccl_) return refused("a GPU is open already");
  auto driver = CudaDriver::open();
  if (!driver) return driver.error();
  if (auto done = driver->check(driver->init(0), "starting the driver"); !done) return done.error();
  int device = 0;
  auto done = driver->check(driver->device_by_place(&device, order.pci_bus_id.c_str()),
                            ("looking for the GPU at " + order.pci_bus_id).c_str());
  if (!done) return done.error();
  // The primary context is the one that NCCL's own runtime uses.
  CuContext context = nullptr;
  done = driver->check(driver->retain_context(&context, device), "opening the GPU");
  if (done) done = driver->check(driver->use_context(context), "using the GPU");
  if (done) done = driver->check(driver->create_stream(&stream_, kCuNonBlocking), "a stream");
  if (!done) return done.error();
  auto nccl = Nccl::open();
  if (!nccl) return nccl.error();
  done = nccl->check(nccl->get_version(&version_), "ncclGetVersion");
  if (!done) return done.error();
  driver_ = *driver;
  nccl_ = *nccl;
  return to_bytes(as_bytes(nccl_version_text(version_)));
}

Result<Bytes> CarriedGroup::invite() {
  Invite made{.version = version_};
  if (auto done = nccl_->check(nccl_->get_id(&made.id), "ncclGetUniqueId"); !done)
    return done.error();
  return to_bytes(std::as_bytes(std::span(&made, 1)));
}

Result<Bytes> CarriedGroup::join(const JoinOrder& order) {
  if (size_ > 0) return refused("it has joined already");
  Invite invite;
  if (order.invite.size() != sizeof invite) return refused("an invite that is none");
  std::memcpy(&invite, order.invite.data(), sizeof invite);
  // Others would speak another protocol, and may wait for each other for ever.
  if (invite.version != version_)
    return Error{ErrorCode::unsupported, "rank 0 has NCCL " + nccl_version_text(invite.version) +
                                             " and this machine " + nccl_version_text(version_) +
                                             ": install the same on all"};
  auto done =
      nccl_->check(nccl_->init_rank(&comm_, order.size, invite.id, order.rank), "ncclCommInitRank");
  if (!done) return done.error();
  size_ = order.size;
  return Bytes{};
}

Result<Bytes> CarriedGroup::region(const RegionOrder& order) {
  if (region_bytes_ > 0) {
    region_bytes_ = 0;
    if (auto done = driver_->check(driver_->close_memory(region_), "cuIpcCloseMemHandle"); !done)
      return done.error();
  }
  if (order.bytes == 0) return Bytes{};
  CuMemoryHandle handle{};
  static_assert(sizeof handle == sizeof order.handle);
  std::memcpy(&handle, order.handle.data(), sizeof handle);
  auto done = driver_->check(driver_->open_memory(&region_, handle, kCuLazyPeerAccess),
                             "opening the node's memory (cuIpcOpenMemHandle)");
  if (!done) return done.error();
  region_bytes_ = order.bytes;
  return Bytes{};
}

Result<void> CarriedGroup::check(std::span<const CarriedSpan> spans) const {
  for (const CarriedSpan& span : spans)
    if (span.peer >= size_ || span.offset % kAlignment != 0 || span.offset > region_bytes_ ||
        span.bytes > region_bytes_ - span.offset)
      return refused("no span of " + std::to_string(region_bytes_) + " bytes among " +
                     std::to_string(size_) + " ranks: rank " + std::to_string(span.peer) +
                     ", offset " + std::to_string(span.offset) + ", " + std::to_string(span.bytes) +
                     " bytes");
  return {};
}

Result<void> CarriedGroup::queue(const MoveOrder& order) {
  const auto place = [&](const CarriedSpan& span) {
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(region_ + span.offset));
  };
  auto done = nccl_->check(nccl_->group_start(), "ncclGroupStart");
  for (const CarriedSpan& span : order.sends)
    if (done && span.bytes > 0)
      done = nccl_->check(nccl_->send(place(span), span.bytes, kNcclBytes,
                                      static_cast<int>(span.peer), comm_, stream_),
                          "ncclSend", comm_);
  for (const CarriedSpan& span : order.receives)
    if (done && span.bytes > 0)
      done = nccl_->check(nccl_->receive(place(span), span.bytes, kNcclBytes,
                                         static_cast<int>(span.peer), comm_, stream_),
                          "ncclRecv", comm_);
  if (!done) return done;
  return nccl_->check(nccl_->group_end(), "ncclGroupEnd", comm_);
}

// Looks instead of waiting in the driver, as an error of the network shows only in the communicator.
Result<void> CarriedGroup::await_stream() {
  for (int look = 0;; ++look) {
    const int state = driver_->query_stream(stream_);
    if (state == kCuNotReady && look < kFastLooks) {
      sched_yield();
      continue;
    }
    int error = kNcclSuccess;
    auto done = nccl_->check(nccl_->async_error(comm_, &error), "ncclCommGetAsyncError", comm_);
    if (done && error != kNcclInProgress) done = nccl_->check(error, "moving", comm_);
    if (!done) return done;
    if (state != kCuNotReady) return driver_->check(state, "moving");
    poll(nullptr, 0, 1);
  }
}

Result<Bytes> CarriedGroup::move(const MoveOrder& order) {
  if (size_ == 0) return refused("a move before the group was joined");
  for (const auto* spans : {&order.sends, &order.receives})
    if (auto good = check(*spans); !good) return good.error();
  auto done = queue(order);
  if (done) done = await_stream();
  if (!done) return done.error();
  return Bytes{};
}

}  // namespace gpunode::carrier
