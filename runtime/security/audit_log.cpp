#include "runtime/security/audit_log.hpp"

#include "runtime/base/log.hpp"
#include "runtime/base/utf8.hpp"

#include <algorithm>
#include <cstdio>

namespace gpunode::security {
namespace {

constexpr std::size_t kLongestValue = 1024;

// Well-formed UTF-8 is kept, and cut where a character ends.
std::string_view shortened(std::string_view text, bool& is_utf8) {
  std::size_t kept = 0;
  while (const std::size_t length = utf8_length(text.substr(kept))) {
    if (kept + length > kLongestValue) break;
    kept += length;
  }
  is_utf8 = kept == text.size() || kept + 4 > kLongestValue;
  return text.substr(0, is_utf8 ? kept : std::min(text.size(), kLongestValue));
}

// One JSON string from any bytes, with the quotes: well-formed UTF-8 is kept, else every byte above
// 0x7e becomes \u00xx, so that a stranger's name can neither break a line of the log nor end its
// string.
std::string json_text(std::string_view bytes) {
  bool keep = false;
  std::string out = "\"";
  for (char letter : shortened(bytes, keep)) {
    auto byte = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      out += '\\';
      out += letter;
    } else if (byte < 0x20 || byte == 0x7f || (byte > 0x7f && !keep)) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(byte));
      out += escaped;
    } else {
      out += letter;
    }
  }
  return out + '"';
}

std::string json_fields(const std::vector<AuditField>& fields) {
  std::string text;
  for (const AuditField& field : fields)
    text += "," + json_text(field.name) + ":" + json_text(field.value);
  return text;
}

// Moves what does not verify out of the way; both parts keep what they show.
Result<storage::Path> set_aside(storage::FileSystem& files, const storage::Path& state) {
  storage::Path aside;
  for (int number = 1; files.exists(aside = state / ("audit.damaged-" + std::to_string(number)));)
    ++number;
  if (auto made = files.create_folder(audit_folder(state)); !made) return made.error();
  if (auto moved = files.rename(audit_folder(state), aside); !moved) return moved.error();
  if (files.exists(audit_head_path(state)))
    if (auto moved = files.rename(audit_head_path(state), aside / "head"); !moved)
      return moved.error();
  if (auto synced = files.sync_folder(state); !synced) return synced.error();
  return aside;
}

}  // namespace

AuditLog::AuditLog(storage::FileSystem& files, storage::Path state, const Identity& identity,
                   Limits limits)
    : files_(&files),
      state_(std::move(state)),
      identity_(&identity),
      limits_(limits),
      head_(files, audit_head_path(state_), kAuditHeadFormat) {}

Result<AuditLog> AuditLog::open(storage::FileSystem& files, const storage::Path& state_directory,
                                const Identity& identity, Limits limits) {
  AuditLog log(files, state_directory, identity, limits);
  if (auto read = log.reload(); !read) return read.error();
  if (auto made = files.create_folder(audit_folder(state_directory)); !made)
    return made.error().within("audit log");
  log.remove_given_up();
  return log;
}

Result<AuditLog> AuditLog::open_or_begin_anew(storage::FileSystem& files,
                                              const storage::Path& state_directory,
                                              const Identity& identity, WallTime now,
                                              Limits limits) {
  auto log = open(files, state_directory, identity, limits);
  if (log ||
      (log.error().code != ErrorCode::corrupted && log.error().code != ErrorCode::unsupported))
    return log;
  const std::string why = log.error().detail;
  const auto aside = set_aside(files, state_directory);
  if (!aside) return aside.error().within("audit log");
  log::error("security", "the audit log does not verify: " + why + "; it is kept as " +
                             aside->string() + ", and a new one begins");
  auto anew = open(files, state_directory, identity, limits);
  if (!anew) return anew;
  if (auto noted = anew->append(now, "audit_begun_anew",
                                {{"reason", why}, {"kept_as", aside->filename().string()}});
      !noted)
    return noted.error();
  return anew;
}

Result<void> AuditLog::reload() {
  auto chain = read_audit(*files_, state_, identity_->sign_key());
  if (!chain) return chain.error();
  chain_ = std::move(*chain);
  file_.reset();
  return {};
}

Result<void> AuditLog::append(WallTime now, std::string_view event,
                              const std::vector<AuditField>& fields) {
  if (broken_) {
    if (auto mended = mend(); !mended) return mended;
  }
  auto written = append_line(now, event, fields);
  broken_ = !written;
  if (!written) return written.error().within("audit log");
  return {};
}

// After a failed write nobody knows which lines would survive power loss: those that can be read
// are written anew, and the log goes on behind them in another file.
Result<void> AuditLog::mend() {
  if (auto read = reload(); !read) return read;
  if (chain_.segments.empty()) return {};
  const storage::Path path = audit_folder(state_) / audit_file_name(chain_.segments.back().number);
  auto bytes = files_->read(path, kLargestAuditFile);
  if (!bytes) return bytes.error().within("audit log");
  const std::size_t whole = as_text(*bytes).rfind('\n') + 1;  // 0 when there is no whole line
  auto written = files_->write_atomic(path, {ByteView(*bytes).first(whole)});
  if (!written) return written.error().within("audit log");
  return {};
}

Result<void> AuditLog::open_segment() {
  auto file = files_->write_new(audit_folder(state_) / audit_file_name(chain_.next_file));
  if (!file) return file.error();
  file_ = std::move(*file);
  if (auto named = files_->sync_folder(audit_folder(state_)); !named) return named;
  chain_.segments.push_back({chain_.next_file++, 0, chain_.end});
  return {};
}

Result<void> AuditLog::settle() {
  if (!head_waits_ || broken_) return {};
  auto stored = store_head();
  broken_ = !stored;
  if (!stored) return stored.error().within("audit log");
  head_waits_ = false;
  return {};
}

Result<void> AuditLog::append_line(WallTime now, std::string_view event,
                                   const std::vector<AuditField>& fields) {
  const std::string time = utc_text(now, "%Y-%m-%dT%H:%M:%SZ");
  const std::string statement = audit_statement(chain_.end.entries + 1, time, json_text(event),
                                                json_fields(fields), chain_.end.last);
  const std::string line =
      audit_line(statement, identity_->sign(kAuditLinePurpose, as_bytes(statement)));
  if (file_ && chain_.segments.back().bytes + line.size() > limits_.segment_bytes) file_.reset();
  if (!file_)
    if (auto opened = open_segment(); !opened) return opened;
  auto appended = file_->append(as_bytes(line + "\n"));
  if (appended) appended = file_->sync();
  if (!appended) return appended;
  chain_.end = {chain_.end.entries + 1, sha256(as_bytes(line))};
  chain_.hashes.push_back(chain_.end.last);
  AuditSegment& segment = chain_.segments.back();
  segment.bytes += line.size() + 1;
  segment.end = chain_.end;
  const bool less = give_up_oldest();
  const bool is_soon = now >= head_stored_ && now - head_stored_ < limits_.head_every;
  head_waits_ = is_soon && !less;  // of the first entry, too, as none was stored before
  if (head_waits_) return {};
  if (auto stored = store_head(); !stored) return stored;
  head_stored_ = now;
  if (less) remove_given_up();
  return {};
}

Result<void> AuditLog::store_head() {
  const std::uint64_t first =
      chain_.segments.empty() ? chain_.next_file : chain_.segments.front().number;
  Bytes bytes = audit_head_statement({chain_.end, chain_.begin, first});
  const Signature signature = identity_->sign(kAuditHeadPurpose, bytes);
  bytes.insert(bytes.end(), signature.begin(), signature.end());
  return head_.store(bytes);
}

// Never the newest. The head says that they are gone before they are.
bool AuditLog::give_up_oldest() {
  std::uint64_t bytes = 0;
  for (const AuditSegment& segment : chain_.segments) bytes += segment.bytes;
  bool any = false;
  while (chain_.segments.size() > 1 &&
         (bytes > limits_.total_bytes || chain_.segments.size() > limits_.segments)) {
    const AuditSegment& oldest = chain_.segments.front();
    bytes -= oldest.bytes;
    chain_.hashes.erase(chain_.hashes.begin(),
                        chain_.hashes.begin() +
                            static_cast<std::ptrdiff_t>(oldest.end.entries - chain_.begin.entries));
    chain_.begin = oldest.end;
    chain_.segments.pop_front();
    any = true;
  }
  return any;
}

// Those that a crash or a full disk leaves are removed with the next.
void AuditLog::remove_given_up() {
  const auto entries = files_->list(audit_folder(state_));
  if (!entries || chain_.segments.empty()) return;
  for (const storage::Entry& entry : *entries) {
    const std::uint64_t number = std::strtoull(entry.name.c_str(), nullptr, 10);
    if (number < chain_.segments.front().number && entry.name == audit_file_name(number))
      (void)files_->remove(audit_folder(state_) / entry.name);
  }
}

}  // namespace gpunode::security
