#include "runtime/security/detail/aes_gcm.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>
#include <limits>

namespace gpunode::security::detail {

namespace {

constexpr std::size_t kTag = 16;
constexpr std::size_t kPiece = std::size_t{1} << 30;  // EVP counts in int

const unsigned char* in_pointer(ByteView bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* out_pointer(MutableByteView bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

void put_iv(std::uint64_t sequence, unsigned char* iv) {
  std::fill(iv, iv + 4, static_cast<unsigned char>(0));
  for (int index = 0; index < 8; ++index) {
    iv[4 + index] = static_cast<unsigned char>(sequence >> (56 - 8 * index));
  }
}

}  // namespace

AesGcm::AesGcm(Use use) : use_(use), context_(EVP_CIPHER_CTX_new()) {
  GPUNODE_CHECK(context_ != nullptr, "OpenSSL gives no cipher context");
}

void AesGcm::set_key(const Secret<32>& key) {
  int ok = EVP_CipherInit_ex(context_.get(), EVP_aes_256_gcm(), nullptr, in_pointer(key.view()),
                             nullptr, use_ == Use::seal ? 1 : 0);
  GPUNODE_CHECK(ok == 1, "OpenSSL has no AES-256-GCM");
}

bool AesGcm::add_header(ByteView header) {
  int done = 0;
  return header.empty() || (header.size() <= kPiece &&
                            EVP_CipherUpdate(context_.get(), nullptr, &done, in_pointer(header),
                                             static_cast<int>(header.size())) == 1);
}

bool AesGcm::seal_iv(const unsigned char* iv, ByteView header, ByteView payload,
                     MutableByteView out) {
  if (EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, iv, -1) != 1) return false;
  if (!add_header(header)) return false;
  int done = 0;
  for (std::size_t at = 0; at < payload.size(); at += kPiece) {
    std::size_t part = std::min(kPiece, payload.size() - at);
    if (EVP_CipherUpdate(context_.get(), out_pointer(out) + at, &done, in_pointer(payload) + at,
                         static_cast<int>(part)) != 1) {
      return false;
    }
  }
  unsigned char* tag = out_pointer(out) + payload.size();
  if (EVP_CipherFinal_ex(context_.get(), tag, &done) != 1) return false;
  return EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, kTag, tag) == 1;
}

bool AesGcm::open_iv(const unsigned char* iv, ByteView header, MutableByteView sealed) {
  std::size_t size = sealed.size() - kTag;
  if (EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, iv, -1) != 1) return false;
  if (!add_header(header)) return false;
  int done = 0;
  for (std::size_t at = 0; at < size; at += kPiece) {
    std::size_t part = std::min(kPiece, size - at);
    if (EVP_CipherUpdate(context_.get(), out_pointer(sealed) + at, &done, in_pointer(sealed) + at,
                         static_cast<int>(part)) != 1) {
      return false;
    }
  }
  unsigned char tag[kTag];
  std::copy_n(out_pointer(sealed) + size, kTag, tag);
  if (EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, kTag, tag) != 1) return false;
  return EVP_CipherFinal_ex(context_.get(), out_pointer(sealed) + size, &done) == 1;
}

bool AesGcm::seal(std::uint64_t sequence, ByteView header, ByteView payload, MutableByteView out) {
  unsigned char iv[12];
  put_iv(sequence, iv);
  return seal_iv(iv, header, payload, out);
}

bool AesGcm::open(std::uint64_t sequence, ByteView header, MutableByteView sealed) {
  unsigned char iv[12];
  put_iv(sequence, iv);
  return open_iv(iv, header, sealed);
}

}  // namespace gpunode::security::detail
