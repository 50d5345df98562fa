// Which cluster a node belongs to: a random 128-bit id, and whose word all admissions go back to: the
// founder's and the recovery key's. Made once by `init` on the first node, copied by each join; one
// small file in the state directory. Plain value.
#pragma once

#include <array>
#include <string>

#include "runtime/base/clock.hpp"
#include "runtime/base/result.hpp"
#include "runtime/security/identity.hpp"

namespace gpunode::security {

using WallTime = std::chrono::system_clock::time_point;

struct ClusterId {
  std::array<std::byte, 16> value{};
  auto operator<=>(const ClusterId&) const = default;
  std::string text() const { return to_hex(value); }
};

struct ClusterIdentity {
  ClusterId id;
  NodeId founder;
  SignKey recovery{};  // the public half (recovery_key.hpp); all zero: there is none
  auto operator<=>(const ClusterIdentity&) const = default;

  bool has_recovery() const { return recovery != SignKey{}; }
  // Under which the recovery key signs; of no node.
  NodeId recovery_id() const { return node_id_of(recovery); }

  // What banners show: tells whether two nodes are of one cluster without naming it.
  std::array<std::byte, 16> public_hash() const;

  // The cluster recorded in `state_directory`. Fails with not_found (none yet: run `gpunode up` or
  // `gpunode join`), corrupted, permission_denied.
  static Result<ClusterIdentity> load(storage::FileSystem& files,
                                      const storage::Path& state_directory);

  // Makes a new cluster whose founder is `identity`, and stores it; `recovery` may be all zero.
  // Fails with already_exists (the directory belongs to a cluster), io_error, disk_full.
  static Result<ClusterIdentity> init(storage::FileSystem& files,
                                      const storage::Path& state_directory,
                                      const Identity& identity, const SignKey& recovery = {});

  // Stores the cluster that this node has just joined. Fails as init does; storing the same one
  // again succeeds.
  Result<void> save(storage::FileSystem& files, const storage::Path& state_directory) const;
};

}  // namespace gpunode::security
