// A node's long-lived keys: one to sign, one for its links (keys.hpp). They are the node: its id is
// the hash of the signing key, and whoever can read the file can be it. Hence the file is 0600, a
// file that others can read is refused, and nothing here can be printed. Owned by the node;
// the signing key never changes, so that any thread may sign; the link key does by rotate() alone.
#pragma once

#include "runtime/base/result.hpp"
#include "runtime/security/keys.hpp"
#include "runtime/security/secret.hpp"
#include "runtime/storage/file_system.hpp"

#include <optional>

namespace gpunode::security {

class Identity {
 public:
  // Fresh keys that live in memory only.
  static Identity create();
  // Signs with the key of this seed; its link key is fresh, and means nothing.
  static Identity of_seed(const Secret<32>& sign_seed);

  // The keys in `state_directory`/identity.key; makes and stores them when there are none.
  // Fails with permission_denied (group or others can read the file), corrupted (not a key file,
  // or damaged), io_error, disk_full.
  static Result<Identity> load_or_create(storage::FileSystem& files,
                                         const storage::Path& state_directory);

  // Takes a new link key, of the next epoch; in the file before this returns, with the one before
  // it. One thread at a time may do this or look at link keys. Fails with io_error, disk_full, and
  // nothing has changed then.
  Result<void> rotate(storage::FileSystem& files, const storage::Path& state_directory);

  Identity(Identity&&) noexcept = default;
  Identity& operator=(Identity&&) noexcept = default;

  const NodeId& id() const { return id_; }
  const SignKey& sign_key() const { return sign_key_; }
  const LinkKey& link_key() const { return link_key_; }
  const CurveKey& curve_key() const { return curve_key_; }  // of link_key()

  // Signs `message` for one purpose, a short constant text. Thread-safe.
  Signature sign(std::string_view purpose, ByteView message) const;

  // Opens what seal_to(curve_key(), ...) made. Fails with unauthenticated.
  Result<Bytes> open_sealed(ByteView sealed) const;

  // For ZeroMQ's CURVE options.
  const GuardedSecret<32>& curve_secret() const { return curve_secret_; }
  // Of the epoch before, for a node that has not heard of this one; none in the first epoch.
  struct CurvePair {
    CurveKey open;
    GuardedSecret<32> secret;
  };
  const std::optional<CurvePair>& curve_before() const { return curve_before_; }

 private:
  Identity() = default;
  static std::optional<Identity> from_seeds(ByteView sign_seed, ByteView link_seed,
                                            std::uint64_t epoch, ByteView link_seed_before = {});
  Result<void> store(storage::FileSystem& files, const storage::Path& state_directory,
                     ByteView link_seed_before) const;

  GuardedSecret<64> sign_secret_;  // libsodium's form: seed and public key
  GuardedSecret<64> link_secret_;
  GuardedSecret<32> curve_secret_;  // of the link key
  SignKey sign_key_;
  LinkKey link_key_;
  CurveKey curve_key_;
  std::optional<CurvePair> curve_before_;
  NodeId id_;
};

}  // namespace gpunode::security
