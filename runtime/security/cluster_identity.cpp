#include "runtime/security/cluster_identity.hpp"

#include "runtime/security/crypto.hpp"
#include "runtime/security/detail/layout.hpp"
#include "runtime/storage/durable_record.hpp"

namespace gpunode::security {

namespace {

storage::DurableRecord record_of(storage::FileSystem& files, const storage::Path& state_directory) {
  return {files, state_directory / "cluster", {{'G', 'P', 'C', 'L'}, 2}};
}

}  // namespace

std::array<std::byte, 16> ClusterIdentity::public_hash() const {
  detail::LayoutWriter named;
  named.text("gpunode cluster");
  named.raw(id.value);
  Sha256 hash = sha256(named.bytes());
  std::array<std::byte, 16> out;
  std::memcpy(out.data(), hash.data(), out.size());
  return out;
}

Result<ClusterIdentity> ClusterIdentity::load(storage::FileSystem& files,
                                              const storage::Path& state_directory) {
  storage::DurableRecord record = record_of(files, state_directory);
  auto stored = record.load();
  if (!stored) return stored.error();
  if (!stored->has_value()) {
    return {ErrorCode::not_found,
            "this node is in no cluster yet; start one with `gpunode up` or "
            "join one with `gpunode join <host:port>`"};
  }
  detail::LayoutReader reader(**stored);
  ClusterIdentity cluster;
  cluster.id.value = reader.array<16>();
  cluster.founder.value = reader.array<32>();
  cluster.recovery.value = reader.array<32>();
  if (!reader.ok() || !reader.at_end()) {
    return {ErrorCode::corrupted, record.path().string() + " is not a cluster record"};
  }
  return cluster;
}

Result<ClusterIdentity> ClusterIdentity::init(storage::FileSystem& files,
                                              const storage::Path& state_directory,
                                              const Identity& identity, const SignKey& recovery) {
  if (files.exists(state_directory / "admissions"))
    return {ErrorCode::corrupted,
            (state_directory / "cluster").string() +
                " is missing, and this state directory has been a node's: restore the file from a "
                "copy, or move the state directory away"};
  ClusterIdentity cluster;
  cluster.id.value = random_array<16>();
  cluster.founder = identity.id();
  cluster.recovery = recovery;
  auto saved = cluster.save(files, state_directory);
  if (!saved) return saved.error();
  return cluster;
}

Result<void> ClusterIdentity::save(storage::FileSystem& files,
                                   const storage::Path& state_directory) const {
  auto present = load(files, state_directory);
  if (present && *present == *this) return {};
  if (present) {
    return {ErrorCode::already_exists, "this state directory belongs to cluster " +
                                           present->id.text().substr(0, 8) +
                                           "; use another one with --state"};
  }
  if (present.error().code != ErrorCode::not_found) return present.error();
  detail::LayoutWriter writer;
  writer.raw(id.value);
  writer.raw(founder.value);
  writer.raw(recovery.value);
  return record_of(files, state_directory).store(writer.bytes());
}

}  // namespace gpunode::security
