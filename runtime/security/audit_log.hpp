// Who did what, in a log that shows tampering: one JSON object a line, each with the hash of the
// line before it and a signature of this node, so that a line cannot be changed, dropped or added
// unnoticed; the newest line's hash is kept beside them, so that the end cannot be cut off either.
// One file a boot (audit/000001.log ...), the chain running through all of them. Owned by the
// control thread; an entry costs a signature and the fsyncs of a line and of the head record.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/security/cluster_identity.hpp"
#include "runtime/security/crypto.hpp"
#include "runtime/storage/durable_record.hpp"

namespace gpunode::security {

struct AuditField {
  std::string name;  // of ours; "event", "time", "prev", "seq" and "sig" are taken
  std::string value;
};

class AuditLog {
 public:
  // Verifies the log in `state_directory`/audit and goes on in a new file of it. `files` and
  // `identity` must outlive the log. A last line torn by a power loss is passed over. Fails with
  // corrupted (it does not verify, naming the first line that is wrong and how; the entries stay as
  // they are), permission_denied, io_error.
  static Result<AuditLog> open(storage::FileSystem& files, const storage::Path& state_directory,
                               const Identity& identity);

  // Adds an entry; durable when this returns. Fails with io_error, disk_full.
  Result<void> append(WallTime now, std::string_view event, const std::vector<AuditField>& fields);

  std::uint64_t entries() const { return entries_; }

 private:
  AuditLog(storage::FileSystem& files, storage::Path folder, const Identity& identity);
  Result<void> reload();
  Result<void> mend();
  Result<void> append_line(WallTime now, std::string_view event,
                           const std::vector<AuditField>& fields);

  storage::FileSystem* files_;
  storage::Path folder_;
  const Identity* identity_;
  std::unique_ptr<storage::WritableFile> file_;  // made by the first append of this boot
  storage::DurableRecord head_;
  std::uint64_t file_number_ = 1;
  Sha256 last_{};  // hash of the newest line; zeros before the first
  std::uint64_t entries_ = 0;
  bool broken_ = false;  // a write failed: what is on disk is not known
};

}  // namespace gpunode::security
