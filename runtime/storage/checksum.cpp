#include "runtime/storage/checksum.hpp"

#include "runtime/base/check.hpp"

#include <openssl/evp.h>

#include <algorithm>

namespace gpunode::storage {

std::optional<Sha256> Sha256::from(ByteView bytes) {
  Sha256 hash;
  if (bytes.size() != hash.value.size()) return std::nullopt;
  std::copy(bytes.begin(), bytes.end(), hash.value.begin());
  return hash;
}

std::optional<Sha256> Sha256::parse(std::string_view text) {
  return from(from_hex(text));
}

Sha256Stream::Sha256Stream() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
  GPUNODE_CHECK(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1,
                "OpenSSL has no SHA-256");
}

void Sha256Stream::add(ByteView bytes) {
  GPUNODE_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1,
                "SHA-256 of OpenSSL failed");
}

Sha256 Sha256Stream::finish() {
  Sha256 hash;
  unsigned length = 0;
  GPUNODE_CHECK(
      EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(hash.value.data()),
                         &length) == 1 &&
          length == hash.value.size(),
      "SHA-256 of OpenSSL failed");
  return hash;
}

Sha256 sha256_of(ByteView bytes) {
  Sha256Stream stream;
  stream.add(bytes);
  return stream.finish();
}

}  // namespace gpunode::storage
