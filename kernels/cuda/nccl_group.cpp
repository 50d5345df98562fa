#include "kernels/cuda/nccl_group.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/carrier/carrier_process.hpp"

namespace gpunode::cuda {
namespace {

using carrier::CarrierProcess;
using carrier::Order;

// A driver takes long to start where a machine has many GPUs.
constexpr std::chrono::milliseconds kOpenTimeout = std::chrono::seconds(60);
constexpr std::chrono::milliseconds kInviteTimeout = std::chrono::seconds(30);
constexpr std::chrono::milliseconds kRegionTimeout = std::chrono::seconds(30);

class NcclGroup final : public ops::DeviceGroup {
 public:
  NcclGroup(std::unique_ptr<CarrierProcess> process, std::shared_ptr<GroupMemory> memory)
      : process_(std::move(process)), memory_(std::move(memory)) {}

  // The region is given back when nobody can write to it any more.
  ~NcclGroup() override {
    CarrierProcess::bury(std::move(process_), [memory = memory_, place = region_] {
      if (place) memory->release(place);
    });
  }

  Result<Bytes> invite() override {
    auto made = asked(Order::invite, {}, kInviteTimeout);
    if (made && (made->empty() || made->size() > carrier::kMaxInvite))
      return broken({ErrorCode::unavailable, "an invite of " + std::to_string(made->size()) +
                                                 " bytes: is gpunode-carrier of another build?"});
    return made;
  }

  Result<void> join(ByteView invite, std::uint16_t rank, std::uint16_t size,
                    std::chrono::milliseconds timeout) override {
    if (invite.size() > carrier::kMaxInvite)
      return broken({ErrorCode::unavailable, "rank 0's invite is too long to be one"});
    return done(
        asked(Order::join, write(carrier::JoinOrder{rank, size, to_bytes(invite)}), timeout));
  }

  Result<std::byte*> region(std::size_t bytes) override {
    bytes = std::max<std::size_t>(bytes, 1);
    if (bytes <= region_bytes_) return region_;
    if (region_) {
      if (auto closed = asked(Order::region, write(carrier::RegionOrder{}), kRegionTimeout);
          !closed)
        return closed.error();
      memory_->release(std::exchange(region_, nullptr));
      region_bytes_ = 0;
    }
    if (process_->ended()) return asked(Order::region, {}, kRegionTimeout).error();
    auto piece = memory_->allocate(bytes);
    if (!piece) return piece.error();
    region_ = piece->place;  // also if it may not have been opened: freed once the carrier is gone
    auto opened =
        asked(Order::region, write(carrier::RegionOrder{bytes, piece->handle}), kRegionTimeout);
    if (!opened) return opened.error();
    region_bytes_ = bytes;
    return region_;
  }

  Result<void> move(std::span<const ops::MovedSpan> sends, std::span<const ops::MovedSpan> receives,
                    std::chrono::milliseconds timeout) override {
    carrier::MoveOrder order;
    for (const ops::MovedSpan& span : sends)
      order.sends.push_back({span.peer, span.offset, span.bytes});
    for (const ops::MovedSpan& span : receives)
      order.receives.push_back({span.peer, span.offset, span.bytes});
    return done(asked(Order::move, write(order), timeout));
  }

  void give_up(const std::string& reason) override { process_->end(reason); }

 private:
  // The group is broken by whatever fails.
  Error broken(const Error& error) {
    process_->end(error.detail);
    return error;
  }
  Result<Bytes> asked(Order order, Bytes body, std::chrono::milliseconds timeout) {
    auto answer = process_->ask(order, std::move(body), timeout);
    if (!answer) return broken(answer.error());
    return answer;
  }
  static Result<void> done(const Result<Bytes>& answer) {
    if (!answer) return answer.error();
    return {};
  }

  std::unique_ptr<CarrierProcess> process_;
  std::shared_ptr<GroupMemory> memory_;
  std::byte* region_ = nullptr;
  std::size_t region_bytes_ = 0;  // 0: not opened by the carrier
};

Error unsupported(const Error& cause) {
  return {ErrorCode::unsupported, "no device group over NCCL: " + cause.detail};
}

}  // namespace

Result<std::unique_ptr<ops::DeviceGroup>> open_nccl_group(NcclGroupOptions options) {
  if (options.program.empty()) {
    auto found = carrier::find_carrier();
    if (!found) return unsupported(found.error());
    options.program = *found;
  }
  std::vector<std::string> settings = {"NCCL_COMM_BLOCKING=1"};  // whatever the user's says
  // NCCL's ranks find each other over sockets in clear: on one machine no other may reach them.
  if (!options.between_machines) settings.push_back("NCCL_SOCKET_IFNAME=lo");
  auto process = CarrierProcess::start(options.program, settings);
  if (!process) return unsupported(process.error());
  const carrier::OpenOrder order{.pci_bus_id = options.pci_bus_id};
  auto opened = (*process)->ask(Order::open, write(order), kOpenTimeout);
  if (!opened) {
    CarrierProcess::bury(std::move(*process), {});
    return unsupported(opened.error());
  }
  return std::unique_ptr<ops::DeviceGroup>(
      std::make_unique<NcclGroup>(std::move(*process), std::move(options.memory)));
}

}  // namespace gpunode::cuda
