// AES-256-GCM over one OpenSSL context that is reused for every frame: a frame costs an IV set-up,
// no allocation and no key schedule. Owned by BulkSealer and BulkOpener.
#pragma once

#include <array>
#include <memory>

#include "runtime/base/bytes.hpp"
#include "runtime/security/secret.hpp"

struct evp_cipher_ctx_st;  // OpenSSL's

namespace gpunode::security::detail {

class AesGcm {
 public:
  enum class Use { seal, open };
  using Iv = std::array<std::byte, 12>;
  explicit AesGcm(Use use);

  void set_key(const Secret<32>& key);

  // `out` has room for a tag of 16 bytes behind the payload; `sealed` has at least a tag.
  bool seal(const Iv& iv, ByteView header, ByteView payload, MutableByteView out);
  bool open(const Iv& iv, ByteView header, MutableByteView sealed);

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  bool crypt(const Iv& iv, ByteView header, ByteView in, MutableByteView out);
  Use use_;
  std::unique_ptr<evp_cipher_ctx_st, Free> context_;
};

}  // namespace gpunode::security::detail
