// The few cryptographic functions that the house uses: random bytes and comparison in constant time
// (libsodium), HMAC and HKDF (OpenSSL), SHA-256 (storage/checksum.hpp, OpenSSL too). Stateless and
// thread-safe; the first call that needs libsodium initialises it. AES-GCM for bulk data is in
// session_keys.hpp.
#pragma once

#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "runtime/base/bytes.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/security/secret.hpp"

namespace gpunode::security {

using Sha256 = std::array<std::byte, 32>;
using Nonce = std::array<std::byte, 32>;

// Fills `out` from the operating system's generator.
void random_bytes(MutableByteView out);
template <std::size_t N>
std::array<std::byte, N> random_array() {
  std::array<std::byte, N> out;
  random_bytes(out);
  return out;
}
// Never zero.
inline std::uint64_t random_nonce() {
  std::uint64_t nonce = 0;
  while (nonce == 0) {
    const auto bytes = random_array<8>();
    std::memcpy(&nonce, bytes.data(), sizeof nonce);
  }
  return nonce;
}
template <std::size_t N>
Secret<N> random_secret() {
  Secret<N> out;
  random_bytes(out.writable());
  return out;
}

// True when both are equal; the time taken depends on the lengths only.
bool constant_time_equal(ByteView left, ByteView right);

Sha256 sha256(ByteView bytes);
Sha256 hmac_sha256(ByteView key, ByteView message);

// HKDF with SHA-256. Fills `out`, at most 255 * 32 bytes, from an `info` of at most
// 1024. Source: RFC 5869.
void hkdf_sha256(ByteView secret, ByteView salt, ByteView info, MutableByteView out);

// RFC 4648 base64url without padding. Decoding gives nothing for any other character, an
// impossible length or stray bits.
std::string to_base64url(ByteView bytes);
std::optional<Bytes> from_base64url(std::string_view text);

}  // namespace gpunode::security
