// What two directories say to each other, to wire and back, over schemas/directory.fbs. The decoder
// faces strangers' bytes: it copies them to aligned memory, verifies them with limits, and checks
// every count and length.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::directory {

inline constexpr std::size_t kMaxKeyBytes = 256;
inline constexpr std::size_t kMaxValueBytes = 4096;
inline constexpr std::size_t kMaxKeysPerOwner = 1024;
inline constexpr std::size_t kMaxBytesPerOwner = 256 * 1024;  // keys and values
inline constexpr std::size_t kMaxWireBytes = 512 * 1024;
inline constexpr std::size_t kMaxItems = 2 * kMaxKeysPerOwner;  // tombstones count too
inline constexpr std::size_t kMaxDeltas = 64;
inline constexpr std::size_t kMaxPositions = 4096;

using Hash = std::array<std::byte, 32>;

struct Item {
  std::string key;
  Bytes value;
  std::uint64_t version = 0;
  bool tombstone = false;
  bool operator==(const Item&) const = default;
};

struct Position {  // how much of a keyspace its sender holds
  NodeId owner;
  Boot epoch = 0;
  std::uint64_t version = 0;
};

struct Delta {  // the items in (since, upto] of a keyspace, and the owner's word on the whole
  NodeId owner;
  Boot epoch = 0;
  std::uint64_t collected = 0;
  std::uint64_t version = 0;
  Hash root{};
  Bytes signature;
  std::uint64_t since = 0;
  std::uint64_t upto = 0;
  std::vector<Item> items = {};  // in order of version
};

enum class MessageKind : std::uint8_t { root, summary, request, deltas };

struct Message {
  MessageKind kind = MessageKind::root;
  Hash root{};
  std::vector<Position> positions = {};
  std::vector<Delta> deltas = {};
};

Bytes encode(const Message& message);
// Fails with corrupted (not a message of this kind) or resource_exhausted (a bound is exceeded).
Result<Message> decode(ByteView bytes);

}  // namespace gpunode::directory
