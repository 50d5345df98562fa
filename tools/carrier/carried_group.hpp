// One GPU's part in a device group: what the node orders, done with NCCL. Used by the program's main
// thread, which may hang in any of it for as long as a peer or the driver does; the node has a
// deadline on each order and kills the program.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "runtime/base/bytes.hpp"
#include "runtime/base/result.hpp"
#include "runtime/carrier/carrier_protocol.hpp"
#include "tools/carrier/device_libraries.hpp"

namespace gpunode::carrier {

class CarriedGroup {
 public:
  // What the order asks for (carrier_protocol.hpp). Whatever `body` holds, the worst is an error.
  Result<Bytes> carry_out(Order order, ByteView body);

 private:
  Result<Bytes> open(const OpenOrder& order);
  Result<Bytes> invite();
  Result<Bytes> join(const JoinOrder& order);
  Result<Bytes> region(const RegionOrder& order);
  Result<Bytes> move(const MoveOrder& order);
  Result<void> check(std::span<const CarriedSpan> spans) const;
  Result<void> queue(const MoveOrder& order);
  Result<void> await_stream();

  std::optional<CudaDriver> driver_;
  std::optional<Nccl> nccl_;
  int version_ = 0;  // NCCL's
  CuStream stream_ = nullptr;
  NcclComm comm_ = nullptr;
  std::uint16_t size_ = 0;  // ranks; 0: not joined
  CuPointer region_ = 0;
  std::uint64_t region_bytes_ = 0;
};

}  // namespace gpunode::carrier
