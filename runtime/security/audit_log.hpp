// Who did what, in a log that shows tampering (audit_chain.hpp tells how it looks): one file a boot,
// and a new one whenever one is full. The oldest are given up where all together grow too large, so
// that no stranger fills the disk. Owned by the control thread; an entry costs a signature and the
// fsyncs of a line and of the head record.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/security/audit_chain.hpp"
#include "runtime/security/cluster_identity.hpp"

namespace gpunode::security {

struct AuditField {
  std::string name;   // of ours; "event", "time", "prev", "seq" and "sig" are taken
  std::string value;  // of which 1 KiB is kept
};

class AuditLog {
 public:
  // What is kept: with 400 bytes an entry some 160,000 of them. A boot's file may hold few.
  struct Limits {
    std::uint64_t segment_bytes = 4u << 20;
    std::uint64_t total_bytes = 64u << 20;
    std::size_t segments = 1024;
    // The head's record is written no more often; entries are on disk before, and a log is whole that goes
    // on behind its head. What ends since the last head could be cut off by who has the disk.
    std::chrono::milliseconds head_every{0};
  };

  // Verifies the log in `state_directory` and goes on in a new file of it. `files` and `identity`
  // must outlive the log. Fails as read_audit does; the entries stay as they are.
  static Result<AuditLog> open(storage::FileSystem& files, const storage::Path& state_directory,
                               const Identity& identity, Limits limits);
  static Result<AuditLog> open(storage::FileSystem& files, const storage::Path& state_directory,
                               const Identity& identity) {
    return open(files, state_directory, identity, Limits());
  }
  // The same for a node that has to start: a log that does not verify is set aside, as
  // audit.damaged-1 and so on, and a new one begins by saying so.
  static Result<AuditLog> open_or_begin_anew(storage::FileSystem& files,
                                             const storage::Path& state_directory,
                                             const Identity& identity, WallTime now, Limits limits);

  // Adds an entry; durable when this returns. Fails with io_error, disk_full.
  Result<void> append(WallTime now, std::string_view event, const std::vector<AuditField>& fields);
  // Writes the head's record, where that waits. Fails with io_error, disk_full.
  Result<void> settle();

  std::uint64_t entries() const { return chain_.end.entries; }
  const AuditHead& head() const { return chain_.end; }
  bool holds(const AuditHead& head) const { return chain_.holds(head); }

 private:
  AuditLog(storage::FileSystem& files, storage::Path state, const Identity& identity,
           Limits limits);
  Result<void> reload();
  Result<void> mend();
  Result<void> append_line(WallTime now, std::string_view event,
                           const std::vector<AuditField>& fields);
  Result<void> open_segment();
  Result<void> store_head();
  bool give_up_oldest();
  void remove_given_up();

  storage::FileSystem* files_;
  storage::Path state_;
  const Identity* identity_;
  Limits limits_;
  std::unique_ptr<storage::WritableFile> file_;  // of the newest segment, once it is written to
  storage::DurableRecord head_;
  AuditChain chain_;
  WallTime head_stored_{};
  bool head_waits_ = false;
  bool broken_ = false;  // a write failed: what is on disk is not known
};

}  // namespace gpunode::security
