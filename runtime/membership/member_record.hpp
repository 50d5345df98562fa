// What a node says about itself: name, incarnation, addresses, keys, labels; signed by its own key.
// Exists because gossip passes through third hands: a record replaces an older one only under its
// owner's signature. Plain values, owned by whoever holds them; about 0.5 KiB each. Signing and
// checking are handed in (RecordSigning), as keys live in runtime/security.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/ids.hpp"

namespace gpunode::membership {

// One life of a node's process, and how often it had to contradict rumours in that life.
struct Incarnation {
  Boot boot = 0;
  std::uint64_t counter = 0;
  auto operator<=>(const Incarnation&) const = default;
};

using PublicKey = std::array<std::byte, 32>;

struct MemberRecord {
  NodeId id;         // hash of sign_key
  std::string name;  // a label for people; two nodes may have the same (member_names.hpp)
  Incarnation incarnation;
  std::vector<std::string> control_endpoints;  // "tcp://host:port", best first
  std::vector<std::string> bulk_endpoints;
  std::vector<std::string> join_endpoints;
  PublicKey sign_key{};
  std::map<std::string, std::string> labels;
  bool dial_only = false;  // nobody can dial this node; it dials the others
  bool left = false;       // its owner has said goodbye in this incarnation
  Bytes signature;         // by sign_key over signed_bytes()

  bool operator==(const MemberRecord&) const = default;
};

// Bounds of one record; a record beyond them is refused by the codec and by well_formed().
inline constexpr std::size_t kMaxNameBytes = 64;
inline constexpr std::size_t kMaxEndpoints = 8;
inline constexpr std::size_t kMaxEndpointBytes = 128;
inline constexpr std::size_t kMaxLabels = 32;
inline constexpr std::size_t kMaxLabelBytes = 128;
inline constexpr std::size_t kMaxSignatureBytes = 128;
inline constexpr std::uint64_t kMaxCounter = 1ull << 48;

// UTF-8 without control characters: what may stand in logs and tables of other nodes.
bool is_plain_text(std::string_view text);

// Whether every field keeps its bound, and name and labels are plain text; says nothing about the
// signature.
bool well_formed(const MemberRecord& record);

// The canonical bytes that the owner signs: every field but the signature, lengths in front.
Bytes signed_bytes(const MemberRecord& record);

// The keys of runtime/security seen from here. Called on the thread that drives Swim.
struct RecordSigning {
  // Signs with this node's own key.
  std::function<Bytes(ByteView message)> sign;
  // True only if `owner` is the hash of `sign_key` and the signature over `message` is good.
  std::function<bool(const NodeId& owner, const PublicKey& sign_key, ByteView message,
                     ByteView signature)>
      verify;
  // Whether this node may be a member at all (an ADMIT record, not revoked). Null: everybody.
  std::function<bool(const NodeId& node)> admitted;
};

}  // namespace gpunode::membership
