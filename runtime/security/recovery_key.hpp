// The key that stands above all nodes: whoever holds it admits, grants and revokes on any node, also
// where no node that may is left. Its public half is in the founding record (cluster_identity.hpp) and
// its word is believed as the founder's is; nobody can revoke it. Made when a cluster is founded,
// written to a file that belongs off the machine, and in a node's memory only while an order is
// signed.
#pragma once

#include <string>
#include <string_view>

#include "runtime/security/identity.hpp"

namespace gpunode::security {

class RecoveryKey {
 public:
  static constexpr std::string_view kPrefix = "gpnr1_";

  static RecoveryKey create();
  // Fails with invalid_argument (no recovery key; cut off; changed). The text itself never appears in
  // the error.
  static Result<RecoveryKey> parse(std::string_view text);
  // The key in the file. Fails with not_found, permission_denied (others can read it),
  // invalid_argument, io_error.
  static Result<RecoveryKey> load(const storage::FileSystem& files, const storage::Path& path);
  // The same, or a new one that is written there (0600), durable when this returns. Fails with
  // disk_full, too.
  static Result<RecoveryKey> load_or_create(storage::FileSystem& files, const storage::Path& path);

  // The one line of its file. The caller wipes it.
  std::string text() const;
  // What it signs with, under an id as a node has one.
  const Identity& signer() const { return signer_; }
  const SignKey& public_key() const { return signer_.sign_key(); }

 private:
  RecoveryKey(Secret<32> seed, Identity signer)
      : seed_(std::move(seed)), signer_(std::move(signer)) {}
  static RecoveryKey from(Secret<32> seed);

  Secret<32> seed_;
  Identity signer_;
};

}  // namespace gpunode::security
