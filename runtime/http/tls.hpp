// What a server shows of itself over TLS 1.3: a certificate with its chain, and its key, from two PEM
// files that are read anew when they change (as certbot and its like renew them). Older versions of TLS
// are refused. Owned by a server; used by the one thread that accepts.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/clock.hpp"
#include "runtime/base/result.hpp"

struct ssl_st;
struct ssl_ctx_st;

namespace gpunode::http {

struct TlsFiles {
  std::string certificate = {};  // PEM: the server's own first, then those that lead to a root
  std::string key = {};          // PEM, not locked by a password, and no stranger's to read
};

class Tls {
 public:
  // Warns in the log of a certificate that is over, or will be within two weeks. Fails with: not_found,
  // permission_denied (not to be read, or by everybody), invalid_argument (no certificate, no key, a
  // key with a password, a key of another certificate); each names the file.
  static Result<std::unique_ptr<Tls>> open(TlsFiles files);
  ~Tls();
  Tls(const Tls&) = delete;

  // A new connection's; null where memory is out. The caller frees it.
  ssl_st* new_session() const;
  // Looks at the files, once a second at most. Files that are no good leave all as it is, and the log
  // says so.
  void reload_if_changed();

 private:
  struct Frees {
    void operator()(ssl_ctx_st* context) const;
  };
  using Context = std::unique_ptr<ssl_ctx_st, Frees>;
  explicit Tls(TlsFiles files) : files_(std::move(files)) {}
  static Result<Context> load(const TlsFiles& files);
  std::string look() const;

  const TlsFiles files_;
  Context context_;
  std::string seen_;  // which files those are
  std::chrono::steady_clock::time_point looked_{};
};

}  // namespace gpunode::http
