// The public halves of a node's keys, as types that cannot be mixed up: SignKey (Ed25519) says who
// a node is, CurveKey (X25519, as ZeroMQ CURVE uses it) says which connection is its own. Plain
// values, 32 bytes each.
#pragma once

#include <array>
#include <compare>
#include <string>

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
