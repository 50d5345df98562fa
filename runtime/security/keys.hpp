// The public halves of a node's keys, as types that cannot be mixed up: SignKey (Ed25519) says who
// a node is, CurveKey (X25519, as ZeroMQ CURVE uses it) says which connection is its own, and a
// LinkKey is the node's own word that it is. Plain values.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/bytes.hpp"
#include "runtime/base/ids.hpp"

namespace gpunode::security {

struct SignKey {
  std::array<std::byte, 32> value{};
  auto operator<=>(const SignKey&) const = default;
};

struct CurveKey {
  std::array<std::byte, 32> value{};
  auto operator<=>(const CurveKey&) const = default;
};

using Signature = std::array<std::byte, 64>;

// SHA-256 of the key: a node's id.
NodeId node_id_of(const SignKey& key);

// Whether `signature` is the one that the owner of `key` made over (`purpose`, `message`). The
// purpose keeps a signature made for one kind of record from being taken for another kind's.
bool verify(const SignKey& key, std::string_view purpose, ByteView message,
            const Signature& signature);

// Which key a node's links use. Signed by the node, so that nobody else says it for it, and by the
// link key itself, so that no node names another's as its own. An Ed25519 key, as X25519 cannot
// sign; CURVE uses its X25519 form (Langley, Hamburg, Turner 2016, RFC 7748 4.1). Of two of one node
// the one of the higher epoch counts.
struct LinkKey {
  NodeId node;
  SignKey key;
  std::uint64_t epoch = 0;
  Signature by_node{};
  Signature by_key{};

  bool operator==(const LinkKey&) const = default;
  // What CURVE uses; nothing where `key` is no point of full order.
  std::optional<CurveKey> curve_key() const;
  // Whether both signatures are right, and `sign_key` is the node's.
  bool is_genuine(const SignKey& sign_key) const;
  Bytes signed_bytes() const;
};
inline constexpr std::string_view kLinkKeyPurpose = "gpunode link key 1";

// Encrypts to the owner of `key`; anonymous, authenticated against change, 48 bytes longer.
inline constexpr std::size_t kSealedBoxBytes = 48;
Bytes seal_to(const CurveKey& key, ByteView message);

}  // namespace gpunode::security

template <>
struct std::hash<gpunode::security::CurveKey> {
  std::size_t operator()(const gpunode::security::CurveKey& key) const noexcept {
    std::size_t value;
    std::memcpy(&value, key.value.data(), sizeof value);
    return value;
  }
};
