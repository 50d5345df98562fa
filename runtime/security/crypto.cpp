#include "runtime/security/crypto.hpp"

#include "runtime/base/check.hpp"
#include "runtime/security/detail/sodium.hpp"
#include "runtime/storage/checksum.hpp"

#include <openssl/hmac.h>
#include <openssl/kdf.h>

#include <memory>
#include <new>

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

void FreesGuarded::operator()(std::byte* bytes) const {
  sodium_free(bytes);
}

std::unique_ptr<std::byte, FreesGuarded> allocate_guarded(std::size_t size_bytes) {
  ensure_sodium();
  auto* bytes = static_cast<std::byte*>(sodium_malloc(size_bytes));
  if (!bytes) throw std::bad_alloc();
  wipe({bytes, size_bytes});
  return std::unique_ptr<std::byte, FreesGuarded>(bytes);
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
  const std::unique_ptr<EVP_PKEY_CTX, decltype(&EVP_PKEY_CTX_free)> context(
      EVP_PKEY_CTX_new_id(EVP_PKEY_HKDF, nullptr), EVP_PKEY_CTX_free);
  const auto length = [](ByteView bytes) { return static_cast<int>(bytes.size()); };
  std::size_t size = out.size();
  const bool done = context && EVP_PKEY_derive_init(context.get()) == 1 &&
                    EVP_PKEY_CTX_set_hkdf_md(context.get(), EVP_sha256()) == 1 &&
                    EVP_PKEY_CTX_set1_hkdf_salt(context.get(), raw(salt), length(salt)) == 1 &&
                    EVP_PKEY_CTX_set1_hkdf_key(context.get(), raw(secret), length(secret)) == 1 &&
                    EVP_PKEY_CTX_add1_hkdf_info(context.get(), raw(info), length(info)) == 1 &&
                    EVP_PKEY_derive(context.get(), detail::raw_out(out), &size) == 1;
  GPUNODE_CHECK(done && size == out.size(), "HKDF with SHA-256 failed");
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
