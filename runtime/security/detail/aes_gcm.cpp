#include "runtime/security/detail/aes_gcm.hpp"

#include "runtime/base/check.hpp"
#include "runtime/security/detail/sodium.hpp"

#include <openssl/evp.h>

#include <algorithm>

namespace gpunode::security::detail {

namespace {
constexpr std::size_t kTag = 16;
constexpr std::size_t kPiece = std::size_t{1} << 30;  // EVP counts in int
}  // namespace

void AesGcm::Free::operator()(evp_cipher_ctx_st* context) const {
  EVP_CIPHER_CTX_free(context);
}

AesGcm::AesGcm(Use use) : use_(use), context_(EVP_CIPHER_CTX_new()) {
  GPUNODE_CHECK(context_ != nullptr, "OpenSSL gives no cipher context");
}

void AesGcm::set_key(const Secret<32>& key) {
  int ok = EVP_CipherInit_ex(context_.get(), EVP_aes_256_gcm(), nullptr, raw(key.view()), nullptr,
                             use_ == Use::seal ? 1 : 0);
  GPUNODE_CHECK(ok == 1, "OpenSSL has no AES-256-GCM");
}

// All but the tag; `out` begins with room for `in`.
bool AesGcm::crypt(const Iv& iv, ByteView header, ByteView in, MutableByteView out) {
  if (EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, raw(iv), -1) != 1) return false;
  int done = 0;
  if (header.size() > kPiece) return false;
  if (!header.empty() && EVP_CipherUpdate(context_.get(), nullptr, &done, raw(header),
                                          static_cast<int>(header.size())) != 1) {
    return false;
  }
  for (std::size_t at = 0; at < in.size(); at += kPiece) {
    std::size_t part = std::min(kPiece, in.size() - at);
    if (EVP_CipherUpdate(context_.get(), raw_out(out) + at, &done, raw(in) + at,
                         static_cast<int>(part)) != 1) {
      return false;
    }
  }
  return true;
}

bool AesGcm::seal(const Iv& iv, ByteView header, ByteView payload, MutableByteView out) {
  unsigned char* tag = raw_out(out) + payload.size();
  int done = 0;
  return crypt(iv, header, payload, out) && EVP_CipherFinal_ex(context_.get(), tag, &done) == 1 &&
         EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, kTag, tag) == 1;
}

bool AesGcm::open(const Iv& iv, ByteView header, MutableByteView sealed) {
  const MutableByteView payload = sealed.first(sealed.size() - kTag);
  unsigned char tag[kTag];
  std::copy_n(raw(sealed.last(kTag)), kTag, tag);
  int done = 0;
  return crypt(iv, header, payload, payload) &&
         EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, kTag, tag) == 1 &&
         EVP_CipherFinal_ex(context_.get(), raw_out(sealed) + payload.size(), &done) == 1;
}

}  // namespace gpunode::security::detail
