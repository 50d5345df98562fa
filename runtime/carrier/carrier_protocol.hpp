// What a node orders of its carrier process, and how it is answered: one order at a time, one answer
// to each. An answer is a byte, 1 if the order failed, and then what was asked for, or the cause in
// words. Readers give nothing for bytes that are not exactly one message.
//
//   order  | effect                                                         | answer
//   open   | opens the libraries and the GPU; must be the first             | NCCL's version, in words
//   invite | makes what other ranks join by                                 | the invite
//   join   | waits until all ranks are there; once                          |
//   region | closes the memory that is moved in, and opens another if given |
//   move   | sends and receives spans of it, as one group                   |
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::carrier {

inline constexpr std::uint32_t kProtocol = 1;    // an installed program may be of another build
inline constexpr int kControlDescriptor = 3;     // where the program finds its end of the pair
inline constexpr std::size_t kMaxInvite = 1024;  // bytes

enum class Order : std::uint32_t { open = 1, invite, join, region, move };

struct OpenOrder {
  std::uint32_t protocol = kProtocol;
  std::string pci_bus_id;  // of the GPU, "0000:0a:00.0"
};
struct JoinOrder {
  std::uint16_t rank = 0, size = 0;
  Bytes invite;
};
// CUDA's name of an allocation for other processes (cudaIpcMemHandle_t).
using MemoryHandle = std::array<std::byte, 64>;
struct RegionOrder {
  std::uint64_t bytes = 0;  // none: only closes
  MemoryHandle handle{};
};
struct CarriedSpan {
  std::uint64_t peer = 0, offset = 0, bytes = 0;
};
struct MoveOrder {
  std::vector<CarriedSpan> sends, receives;
};

Bytes write(const OpenOrder& order);
Bytes write(const JoinOrder& order);
Bytes write(const RegionOrder& order);
Bytes write(const MoveOrder& order);
std::optional<OpenOrder> read_open(ByteView body);
std::optional<JoinOrder> read_join(ByteView body);
std::optional<RegionOrder> read_region(ByteView body);
std::optional<MoveOrder> read_move(ByteView body);

Bytes write_answer(const Result<Bytes>& done);
// Fails with: unavailable (the carrier's words), corrupted.
Result<Bytes> read_answer(ByteView body);

}  // namespace gpunode::carrier
