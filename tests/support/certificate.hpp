// A certificate that signs itself, and its key, as PEM: what a server shows over TLS, made in the test.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace gpunode::testing {

struct Certificate {
  std::string certificate, key;
};

inline std::string text_of(BIO* memory) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(memory, &bytes);
  std::string text(bytes, static_cast<std::size_t>(size));
  BIO_free(memory);
  return text;
}

// Good for so many seconds from now on; of fewer than none, it is over.
inline Certificate make_certificate(long seconds = 90L * 24 * 3600) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> own(X509_new(), X509_free);
  ASN1_INTEGER_set(X509_get_serialNumber(own.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(own.get()), -3600 * 24 * 365);
  X509_gmtime_adj(X509_getm_notAfter(own.get()), seconds);
  X509_set_pubkey(own.get(), key.get());
  X509_NAME* name = X509_get_subject_name(own.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("here"), -1, -1, 0);
  X509_set_issuer_name(own.get(), name);
  X509_sign(own.get(), key.get(), EVP_sha256());
  BIO *shown = BIO_new(BIO_s_mem()), *secret = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(shown, own.get());
  PEM_write_bio_PrivateKey(secret, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return {text_of(shown), text_of(secret)};
}

}  // namespace gpunode::testing
