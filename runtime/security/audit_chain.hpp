// What an audit log holds, and whether it is whole: the reading side of audit_log.hpp, also for who
// looks at the log of a node that does not run. Costs a signature check an entry.
//
// A log is the segments audit/000001.log ... of a state directory, one JSON object a line, each with
// the hash of the line before it and the node's signature. Beside the folder, so that it is missed
// when it goes, lies audit.head: number and hash of the newest entry, and where the log begins since
// its oldest segments were given up; signed, too. What the node's own disk cannot show, a whole log
// of an earlier day put back, its peers do (audit_witness.hpp).
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/security/crypto.hpp"
#include "runtime/security/keys.hpp"
#include "runtime/storage/durable_record.hpp"

namespace gpunode::security {

// How far a log has come: its newest entry. Without entries: nothing was ever written.
struct AuditHead {
  std::uint64_t entries = 0;  // also of those that were given up
  Sha256 last{};              // hash of the newest line
  bool operator==(const AuditHead&) const = default;
};

struct AuditSegment {
  std::uint64_t number = 0;  // of its file
  std::uint64_t bytes = 0;
  AuditHead end;  // behind its last entry
};

struct AuditChain {
  AuditHead begin;                    // what was given up ends here
  AuditHead end;                      // the newest entry
  std::vector<Sha256> hashes;         // of each entry that is kept
  std::deque<AuditSegment> segments;  // oldest first
  std::uint64_t next_file = 1;

  // Whether the log was at `head` once: it goes on from there. What lies before its beginning is
  // not known any more and is believed.
  bool holds(const AuditHead& head) const;
};

// One whole line, verified.
using AuditVisitor = std::function<void(std::string_view line)>;

// Reads and verifies the log in `state_directory`, telling `visitor` each line that is kept, oldest
// first. A last line without an end was torn by a crash before it counted. Fails with corrupted (it
// does not verify, naming the first line that is wrong and how, or that entries are missing),
// permission_denied, io_error.
Result<AuditChain> read_audit(storage::FileSystem& files, const storage::Path& state_directory,
                              const SignKey& key, const AuditVisitor& visitor = {});

// What the head file holds; `begin` and `first_file` tell what was given up.
struct AuditHeadFile {
  AuditHead end;
  AuditHead begin;
  std::uint64_t first_file = 1;
};
inline constexpr storage::RecordFormat kAuditHeadFormat{{'G', 'P', 'A', 'H'}, 2};
inline constexpr std::string_view kAuditHeadPurpose = "gpunode audit head 2";
inline constexpr std::string_view kAuditLinePurpose = "gpunode audit line 1";
// Longer than any segment gets.
inline constexpr std::uint64_t kLargestAuditFile = std::uint64_t{32} << 20;

storage::Path audit_folder(const storage::Path& state_directory);
storage::Path audit_head_path(const storage::Path& state_directory);
std::string audit_file_name(std::uint64_t number);
// What is signed of it; the signature follows in the file.
Bytes audit_head_statement(const AuditHeadFile& head);
// The part of a line that is signed, which ends behind the previous line's hash; the whole line.
std::string audit_statement(std::uint64_t number, std::string_view time, std::string_view event,
                            std::string_view fields, const Sha256& last);
std::string audit_line(const std::string& statement, const Signature& signature);

}  // namespace gpunode::security
