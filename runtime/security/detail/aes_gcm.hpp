// AES-256-GCM over one OpenSSL context that is reused for every frame: a frame costs an IV set-up,
// no allocation and no key schedule. Owned by BulkSealer and BulkOpener. Included by .cpp files of
// this folder only.
#pragma once

#include <memory>

#include "runtime/base/bytes.hpp"
#include "runtime/security/secret.hpp"

#include <openssl/evp.h>

namespace gpunode::security::detail {

class AesGcm {
 public:
  enum class Use { seal, open };
  explicit AesGcm(Use use);

  void set_key(const Secret<32>& key);

  // The IV is 32 zero bits and the sequence number, big-endian.
  bool seal(std::uint64_t sequence, ByteView header, ByteView payload, MutableByteView out);
  bool open(std::uint64_t sequence, ByteView header, MutableByteView sealed);

  // The same with a full 96-bit IV, for the published test vectors.
  bool seal_iv(const unsigned char* iv, ByteView header, ByteView payload, MutableByteView out);
  bool open_iv(const unsigned char* iv, ByteView header, MutableByteView sealed);

 private:
  struct Free {
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
  };
  bool add_header(ByteView header);
  Use use_;
  std::unique_ptr<EVP_CIPHER_CTX, Free> context_;
};

}  // namespace gpunode::security::detail
