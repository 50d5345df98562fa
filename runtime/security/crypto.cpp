#include "runtime/security/crypto.hpp"

#include "runtime/base/check.hpp"
#include "runtime/security/detail/sodium.hpp"

#include <algorithm>

namespace gpunode::security {

namespace detail {
void ensure_sodium() {
  static const bool ready = sodium_init() >= 0;
  GPUNODE_CHECK(ready, "libsodium cannot be initialised");
}
}  // namespace detail

using detail::ensure_sodium;
using detail::raw;

void wipe(MutableByteView bytes) {
  sodium_memzero(bytes.data(), bytes.size());
}

void random_bytes(MutableByteView out) {
  ensure_sodium();
  randombytes_buf(out.data(), out.size());
}

bool constant_time_equal(ByteView left, ByteView right) {
  return left.size() == right.size() && sodium_memcmp(left.data(), right.data(), left.size()) == 0;
}

Sha256 sha256(ByteView bytes) {
  ensure_sodium();
  Sha256 out;
  crypto_hash_sha256(raw(out), raw(bytes), bytes.size());
  return out;
}

Sha256 hmac_sha256(ByteView key, ByteView message) {
  ensure_sodium();
  Sha256 out;
  crypto_auth_hmacsha256_state state;
  // An empty key means a block of zeros, and has no address that sodium could be given.
  const Sha256 no_key{};
  crypto_auth_hmacsha256_init(&state, key.empty() ? raw(no_key) : raw(key), key.size());
  crypto_auth_hmacsha256_update(&state, raw(message), message.size());
  crypto_auth_hmacsha256_final(&state, raw(out));
  sodium_memzero(&state, sizeof state);
  return out;
}

void hkdf_sha256(ByteView secret, ByteView salt, ByteView info, MutableByteView out) {
  GPUNODE_CHECK(out.size() <= 255 * 32, "HKDF gives at most 8160 bytes");
  ensure_sodium();
  Sha256 extracted = hmac_sha256(salt, secret);
  Sha256 block{};
  std::size_t done = 0;
  for (std::uint8_t index = 1; done < out.size(); ++index) {
    crypto_auth_hmacsha256_state state;
    crypto_auth_hmacsha256_init(&state, raw(extracted), extracted.size());
    if (index > 1) crypto_auth_hmacsha256_update(&state, raw(block), block.size());
    crypto_auth_hmacsha256_update(&state, raw(info), info.size());
    crypto_auth_hmacsha256_update(&state, &index, 1);
    crypto_auth_hmacsha256_final(&state, raw(block));
    sodium_memzero(&state, sizeof state);
    std::size_t part = std::min(block.size(), out.size() - done);
    std::memcpy(out.data() + done, block.data(), part);
    done += part;
  }
  wipe(extracted);
  wipe(block);
}

std::string to_base64url(ByteView bytes) {
  ensure_sodium();
  constexpr int kVariant = sodium_base64_VARIANT_URLSAFE_NO_PADDING;
  std::string text(sodium_base64_encoded_len(bytes.size(), kVariant), '\0');
  sodium_bin2base64(text.data(), text.size(), raw(bytes), bytes.size(), kVariant);
  text.resize(text.size() - 1);  // the terminating zero
  return text;
}

std::optional<Bytes> from_base64url(std::string_view text) {
  ensure_sodium();
  Bytes bytes(text.size() / 4 * 3 + 3);
  std::size_t size = 0;
  const char* end = nullptr;
  int failed = sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(),
                                 text.data(), text.size(), nullptr, &size, &end,
                                 sodium_base64_VARIANT_URLSAFE_NO_PADDING);
  if (failed != 0 || end != text.data() + text.size()) return std::nullopt;
  bytes.resize(size);
  return bytes;
}

}  // namespace gpunode::security
