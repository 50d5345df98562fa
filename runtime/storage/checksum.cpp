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

struct Sha256Stream::State {
  EVP_MD_CTX* context = nullptr;
};

Sha256Stream::Sha256Stream() : state_(std::make_unique<State>()) {
  state_->context = EVP_MD_CTX_new();
  GPUNODE_CHECK(state_->context && EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1,
                "OpenSSL has no SHA-256");
}

Sha256Stream::~Sha256Stream() {
  EVP_MD_CTX_free(state_->context);
}

void Sha256Stream::add(ByteView bytes) {
  GPUNODE_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1,
                "SHA-256 of OpenSSL failed");
}

Sha256 Sha256Stream::finish() {
  Sha256 hash;
  unsigned length = 0;
  GPUNODE_CHECK(
      EVP_DigestFinal_ex(state_->context, reinterpret_cast<unsigned char*>(hash.value.data()),
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
