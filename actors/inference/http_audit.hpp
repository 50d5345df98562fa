// What the audit log tells of the HTTP front: keys that were made, changed and revoked, as the file of keys
// shows it, whoever changed it and also while no node ran; and how often whom something was refused. What of
// the keys is in the log already is remembered beside them. Never a key itself, which nobody here has.
// Refusals come from any thread; the rest is for the owner of the log.
//
//   http_key_created  key, id, may, models, expires     http_key_revoked  key, id
//   http_key_changed  as created                        http_refused      key ("" without one), count, newest
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/inference/api_keys.hpp"
#include "runtime/security/audit_log.hpp"
#include "runtime/security/refusal_counts.hpp"
#include "runtime/storage/file_system.hpp"

namespace gpunode::inference {

class HttpAudit {
 public:
  static constexpr const char* kAuditedFile = "http_keys.audited";  // in the state directory
  // Writes an entry; false: it could not.
  using Note =
      std::function<bool(std::string_view event, const std::vector<security::AuditField>& fields)>;

  // `files` outlives it.
  HttpAudit(storage::FileSystem& files, storage::Path state_directory);

  // `key`: the name of the one that asked; empty: nobody's. `what`: no secret.
  void refused(const std::string& key, std::string_view what) { refusals_.add(key, what); }

  // Notes what has changed of the keys since it was last noted. Costs a look at a file.
  void look_at_keys(const Note& note);
  // Notes who was refused what since the last time.
  void tell_refusals(const Note& note);

 private:
  void load_audited();

  storage::FileSystem& files_;
  const storage::Path keys_path_, audited_path_;
  std::optional<ApiKeys> audited_;   // nothing: not looked at yet
  std::optional<std::string> seen_;  // the file, as it was noted
  security::RefusalCountsOf<std::string> refusals_;
};

}  // namespace gpunode::inference
