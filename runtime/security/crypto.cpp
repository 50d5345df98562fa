#include "runtime/security/crypto.hpp"

#include "runtime/base/check.hpp"
#include "runtime/security/detail/sodium.hpp"
#include "runtime/storage/checksum.hpp"

#include <openssl/hmac.h>

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
  return storage::sha256_of(bytes).value;
}

Sha256 hmac_sha256(ByteView key, ByteView message) {
  Sha256 out;
  unsigned length = 0;
  const bool done = HMAC(EVP_sha256(), raw(key), static_cast<int>(key.size()), raw(message),
                         message.size(), raw(out), &length) != nullptr;
  GPUNODE_CHECK(done && length == out.size(), "OpenSSL has no HMAC with SHA-256");
  return out;
}

void hkdf_sha256(ByteView secret, ByteView salt, ByteView info, MutableByteView out) {
  GPUNODE_CHECK(out.size() <= 255 * 32, "HKDF gives at most 8160 bytes");
  Sha256 extracted = hmac_sha256(salt, secret);
  Sha256 block{};
  Bytes told;                                    // the block before, `info`, the number of this one
  told.reserve(block.size() + info.size() + 1);  // no copy is left behind in old memory
  std::size_t done = 0;
  for (std::uint8_t index = 1; done < out.size(); ++index) {
    told.clear();
    if (index > 1) told.insert(told.end(), block.begin(), block.end());
    told.insert(told.end(), info.begin(), info.end());
    told.push_back(std::byte(index));
    block = hmac_sha256(extracted, told);
    wipe(told);
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
