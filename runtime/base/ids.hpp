// Identities that cross the wire. A node is its key: NodeId is the SHA-256 of its Ed25519 public
// key. A boot is one life of its process; JobId is the digest of the job's manifest.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/bytes.hpp"
#include "runtime/base/digest.hpp"

namespace gpunode {

struct NodeId {
  std::array<std::byte, 32> value{};

  auto operator<=>(const NodeId&) const = default;
  std::string text() const { return to_hex(value); }
  std::string short_text() const { return text().substr(0, 8); }
  static std::optional<NodeId> parse(std::string_view text);
  static std::optional<NodeId> from(ByteView bytes);  // exactly 32 bytes
};

// Which history of states a state, a result or a checkpoint belongs to. A job begins with one, and
// with another one whenever it goes back to a checkpoint, or whenever a part of it goes on without a
// quorum. Within one history every step has exactly one state, so step and history together name a
// state, whatever views have come and gone.
struct HistoryId {
  std::uint32_t turn = 0;  // histories that were left behind on the way to this one
  std::uint64_t mark = 0;  // tells apart those of parts that knew nothing of each other
  auto operator<=>(const HistoryId&) const = default;
};

using JobId = Digest;
using Boot = std::uint64_t;  // raised and fsynced at every start of a node

}  // namespace gpunode

template <>
struct std::hash<gpunode::NodeId> {
  std::size_t operator()(const gpunode::NodeId& id) const noexcept {
    std::size_t value;
    std::memcpy(&value, id.value.data(), sizeof value);
    return value;
  }
};
template <>
struct std::hash<gpunode::Digest> {
  std::size_t operator()(const gpunode::Digest& digest) const noexcept { return digest.low; }
};
