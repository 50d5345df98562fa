#include "runtime/http/tls.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "runtime/base/descriptor.hpp"
#include "runtime/base/log.hpp"

namespace gpunode::http {
namespace {

constexpr auto kLookEvery = std::chrono::seconds(1);
constexpr std::time_t kSoonSeconds = 14 * 24 * 3600;
constexpr std::size_t kLongestFile = 1 << 20;

template <auto free>
struct FreesBy {
  template <class Object>
  void operator()(Object* object) const {
    free(object);
  }
};
using Certificate = std::unique_ptr<X509, FreesBy<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, FreesBy<EVP_PKEY_free>>;
using Memory = std::unique_ptr<BIO, FreesBy<BIO_free_all>>;

struct FileText {
  std::string bytes;
  FileText() = default;
  FileText(FileText&&) = default;
  ~FileText() { OPENSSL_cleanse(bytes.data(), bytes.size()); }
};

Error bad(const std::string& path, const std::string& why) {
  return {ErrorCode::invalid_argument, path + " " + why};
}

Result<FileText> read_file(const std::string& path, bool is_secret) {
  const auto failed = [&](const std::string& what) {
    const int number = errno;
    const ErrorCode code = number == ENOENT   ? ErrorCode::not_found
                           : number == EACCES ? ErrorCode::permission_denied
                                              : ErrorCode::io_error;
    return Error{code, what + " " + path + ": " + std::strerror(number)};
  };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) return failed("cannot open");
  if (!S_ISREG(status.st_mode)) return bad(path, "is no file");
  if (is_secret && (status.st_mode & (S_IROTH | S_IWOTH | S_IWGRP)) != 0)
    return Error{ErrorCode::permission_denied,
                 path + " is a private key that others may read or write: chmod 600 it"};
  FileText text;
  text.bytes.resize(std::min<std::size_t>(kLongestFile, static_cast<std::size_t>(status.st_size)));
  std::size_t count = 0;
  while (count < text.bytes.size()) {
    const ssize_t got = ::read(file.get(), text.bytes.data() + count, text.bytes.size() - count);
    if (got < 0 && errno != EINTR) return failed("cannot read");
    if (got == 0) break;
    if (got > 0) count += static_cast<std::size_t>(got);
  }
  text.bytes.resize(count);
  return text;
}

Memory memory_of(const FileText& text) {
  return Memory(BIO_new_mem_buf(text.bytes.data(), static_cast<int>(text.bytes.size())));
}

// Who would need a password has none.
int no_password(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return 0;
}

Result<Key> read_key(const std::string& path) {
  const auto text = read_file(path, true);
  if (!text) return text.error();
  bool asked = false;
  Key key(PEM_read_bio_PrivateKey(memory_of(*text).get(), nullptr, no_password, &asked));
  ERR_clear_error();
  if (!key && asked)
    return bad(path, "is locked by a password: `openssl pkey -in FILE -out OTHER` unlocks it");
  if (!key) return bad(path, "holds no private key in PEM (-----BEGIN PRIVATE KEY-----)");
  return key;
}

// The server's own, and behind it the chain.
Result<std::vector<Certificate>> read_certificates(const std::string& path) {
  const auto text = read_file(path, false);
  if (!text) return text.error();
  const Memory memory = memory_of(*text);
  std::vector<Certificate> all;
  while (X509* one = PEM_read_bio_X509(memory.get(), nullptr, nullptr, nullptr))
    all.emplace_back(one);
  ERR_clear_error();
  if (all.empty()) return bad(path, "holds no certificate in PEM (-----BEGIN CERTIFICATE-----)");
  return all;
}

void warn_of_its_time(const X509* own, const std::string& path) {
  std::time_t soon = std::time(nullptr) + kSoonSeconds;
  if (X509_cmp_current_time(X509_get0_notAfter(own)) < 0)
    log::warning("http", "the certificate in " + path +
                             " has expired: clients refuse it; renew it, and it is read anew");
  else if (X509_cmp_time(X509_get0_notAfter(own), &soon) < 0)
    log::warning("http", "the certificate in " + path + " expires within two weeks: renew it");
  if (X509_cmp_current_time(X509_get0_notBefore(own)) > 0)
    log::warning("http", "the certificate in " + path +
                             " is not good yet: clients refuse it; look at this machine's clock");
}

// Of what a client offers the one protocol that is spoken here.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* length,
                    const unsigned char* offered, unsigned offered_bytes, void*) {
  static constexpr unsigned char kOurs[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, length, kOurs, sizeof kOurs, offered, offered_bytes) !=
      OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

void Tls::Frees::operator()(ssl_ctx_st* context) const {
  SSL_CTX_free(context);
}

Tls::~Tls() = default;

Result<Tls::Context> Tls::load(const TlsFiles& files) {
  auto certificates = read_certificates(files.certificate);
  if (!certificates) return certificates.error();
  auto key = read_key(files.key);
  if (!key) return key.error();
  X509* const own = certificates->front().get();
  if (X509_check_private_key(own, key->get()) != 1) {
    ERR_clear_error();
    return bad(files.key, "is the key of another certificate than the first in " +
                              files.certificate + ": name the two that were made together");
  }
  Context context(SSL_CTX_new(TLS_server_method()));
  bool good = context && SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) == 1 &&
              SSL_CTX_use_certificate(context.get(), own) == 1 &&
              SSL_CTX_use_PrivateKey(context.get(), key->get()) == 1;
  for (std::size_t at = 1; good && at < certificates->size(); ++at)
    good = SSL_CTX_add1_chain_cert(context.get(), (*certificates)[at].get()) == 1;
  if (!good) {
    const char* const why = ERR_reason_error_string(ERR_get_error());
    ERR_clear_error();
    return bad(files.certificate, std::string("cannot be used: ") + (why ? why : "out of memory"));
  }
  // Nothing of a session is kept, by which one who has taken the memory could read others.
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(context.get(), choose_protocol, nullptr);
  warn_of_its_time(own, files.certificate);
  return context;
}

Result<std::unique_ptr<Tls>> Tls::open(TlsFiles files) {
  std::unique_ptr<Tls> tls(new Tls(std::move(files)));
  tls->seen_ = tls->look();
  auto context = load(tls->files_);
  if (!context) return context.error();
  tls->context_ = *std::move(context);
  return tls;
}

ssl_st* Tls::new_session() const {
  SSL* session = SSL_new(context_.get());
  if (session) SSL_set_accept_state(session);
  return session;
}

std::string Tls::look() const {
  std::string seen;
  for (const std::string& path : {files_.certificate, files_.key}) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) status = {};
    for (const auto number :
         {static_cast<long>(status.st_ino), static_cast<long>(status.st_size),
          static_cast<long>(status.st_mtim.tv_sec), static_cast<long>(status.st_mtim.tv_nsec)})
      seen += std::to_string(number) + ' ';
  }
  return seen;
}

void Tls::reload_if_changed() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < kLookEvery) return;
  looked_ = now;
  std::string seen = look();
  if (seen == seen_) return;
  seen_ = std::move(seen);
  auto context = load(files_);
  if (!context)
    return log::warning("http", "the certificate stays what it was: " + context.error().message());
  context_ = *std::move(context);
  log::info("http", "the certificate in " + files_.certificate + " was read anew");
}

}  // namespace gpunode::http
