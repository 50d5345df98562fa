#include "runtime/security/audit_log.hpp"

#include "runtime/base/utf8.hpp"
#include "runtime/security/detail/layout.hpp"

#include <algorithm>
#include <cstdio>

namespace gpunode::security {

namespace {

constexpr std::string_view kLinePurpose = "gpunode audit line 1";
constexpr std::string_view kHeadPurpose = "gpunode audit head 1";
constexpr storage::RecordFormat kHeadFormat{{'G', 'P', 'A', 'H'}, 1};
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;
constexpr std::string_view kPrevMark = ",\"prev\":\"";
constexpr std::string_view kSigMark = "\",\"sig\":\"";
constexpr std::string_view kEnd = "\"}";

std::string file_name(std::uint64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "%06llu.log", static_cast<unsigned long long>(number));
  return text;
}

bool is_utf8(std::string_view text) {
  while (const std::size_t length = utf8_length(text)) text.remove_prefix(length);
  return text.empty();
}

// One JSON string from any bytes, with the quotes: well-formed UTF-8 is kept, else every byte above
// 0x7e becomes \u00xx, so that a stranger's name can neither break a line of the log nor end its
// string.
std::string json_text(std::string_view bytes) {
  bool keep = is_utf8(bytes);
  std::string out = "\"";
  for (char letter : bytes) {
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

// The part that is signed ends behind the previous line's hash.
std::string statement_of(std::uint64_t number, WallTime now, std::string_view event,
                         const std::vector<AuditField>& fields, const Sha256& last) {
  std::string line = "{\"seq\":" + std::to_string(number) + ",\"time\":\"" +
                     utc_text(now, "%Y-%m-%dT%H:%M:%SZ") + "\",\"event\":" + json_text(event);
  for (const AuditField& field : fields) {
    line += "," + json_text(field.name) + ":" + json_text(field.value);
  }
  return line + std::string(kPrevMark) + to_hex(last);
}

Bytes head_statement(const Sha256& last, std::uint64_t entries) {
  detail::LayoutWriter writer;
  writer.raw(last);
  writer.u64(entries);
  return writer.take();
}

struct Head {
  Sha256 last{};
  std::uint64_t entries = 0;
};

struct Chain : Head {
  std::uint64_t files = 0;
};

// Nothing: the line is good and now the newest. Else what is wrong with it.
std::optional<std::string> follow(Chain& chain, std::string_view line, const SignKey& key) {
  std::size_t tail = kSigMark.size() + 128 + kEnd.size();
  std::size_t back = kPrevMark.size() + 64 + tail;
  if (line.size() < back || !line.ends_with(kEnd)) return "is not an entry";
  std::string_view statement = line.substr(0, line.size() - tail);
  std::string_view rest = line.substr(statement.size());
  Bytes signature = from_hex(rest.substr(kSigMark.size(), 128));
  std::string begin = "{\"seq\":" + std::to_string(chain.entries + 1) + ",";
  if (!rest.starts_with(kSigMark) || signature.size() != 64) return "is not an entry";
  if (!statement.ends_with(std::string(kPrevMark) + to_hex(chain.last))) {
    return "does not follow the line before it";
  }
  if (!statement.starts_with(begin)) return "has the wrong number";
  Signature signed_by;
  std::copy(signature.begin(), signature.end(), signed_by.begin());
  if (!verify(key, kLinePurpose, as_bytes(statement), signed_by)) return "was changed";
  chain.last = sha256(as_bytes(line));
  ++chain.entries;
  return std::nullopt;
}

// Without entries: there is none yet.
Result<Head> load_head(storage::FileSystem& files, const storage::Path& folder,
                       const SignKey& key) {
  storage::DurableRecord record(files, folder / "head", kHeadFormat);
  auto stored = record.load();
  if (!stored) return stored.error();
  if (!stored->has_value()) return Head{};
  detail::LayoutReader reader(**stored);
  Head head{reader.array<32>(), reader.u64()};
  Signature signature = reader.array<64>();
  if (!reader.ok() ||
      !verify(key, kHeadPurpose, head_statement(head.last, head.entries), signature)) {
    return {ErrorCode::corrupted, record.path().string() + " was changed"};
  }
  return head;
}

Result<std::vector<std::string>> log_files(storage::FileSystem& files,
                                           const storage::Path& folder) {
  std::vector<std::string> names;
  auto entries = files.list(folder);
  if (!entries && entries.error().code == ErrorCode::not_found) return names;
  if (!entries) return entries.error();
  for (const storage::Entry& entry : *entries) {
    if (entry.name.ends_with(".log")) names.push_back(entry.name);
  }
  std::sort(names.begin(), names.end(), [](const auto& left, const auto& right) {
    return left.size() != right.size() ? left.size() < right.size() : left < right;
  });
  return names;
}

// Walks all files. A line without an end was torn by a crash before it counted.
Result<Chain> walk(storage::FileSystem& files, const storage::Path& folder, const SignKey& key) {
  auto head = load_head(files, folder, key);
  if (!head) return head.error().within("audit log");
  auto names = log_files(files, folder);
  if (!names) return names.error().within("audit log");
  Chain chain;
  bool head_met = head->entries == 0;
  for (const std::string& name : *names) {
    chain.files = std::max<std::uint64_t>(chain.files, std::strtoull(name.c_str(), nullptr, 10));
    auto bytes = files.read(folder / name, kMaxFileBytes);
    if (!bytes) return bytes.error().within("audit log");
    std::string_view text = as_text(*bytes);
    std::uint64_t number = 1;
    for (std::size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
      if (auto wrong = follow(chain, text.substr(0, end), key)) {
        return {ErrorCode::corrupted,
                (folder / name).string() + ":" + std::to_string(number) + ": the entry " + *wrong};
      }
      ++number;
      if (chain.entries == head->entries) head_met = chain.last == head->last;
    }
  }
  if (!head_met || (head->entries == 0 && chain.entries > 1)) {
    return {ErrorCode::corrupted, folder.string() +
                                      ": entries at the end of the audit log are "
                                      "missing"};
  }
  return chain;
}

}  // namespace

AuditLog::AuditLog(storage::FileSystem& files, storage::Path folder, const Identity& identity)
    : files_(&files),
      folder_(std::move(folder)),
      identity_(&identity),
      head_(files, folder_ / "head", kHeadFormat) {}

Result<AuditLog> AuditLog::open(storage::FileSystem& files, const storage::Path& state_directory,
                                const Identity& identity) {
  storage::Path folder = state_directory / "audit";
  auto made = files.create_folder(folder);
  if (!made) return made.error().within("audit log");
  AuditLog log(files, folder, identity);
  auto read = log.reload();
  if (!read) return read.error();
  return log;
}

Result<void> AuditLog::reload() {
  auto chain = walk(*files_, folder_, identity_->sign_key());
  if (!chain) return chain.error();
  last_ = chain->last;
  entries_ = chain->entries;
  file_number_ = chain->files + 1;
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
  storage::Path path = folder_ / file_name(file_number_);
  auto read = reload();
  if (!read) return read;
  auto bytes = files_->read(path, kMaxFileBytes);
  if (!bytes && bytes.error().code == ErrorCode::not_found) return {};
  if (!bytes) return bytes.error().within("audit log");
  std::size_t whole = as_text(*bytes).rfind('\n') + 1;  // 0 when there is no whole line
  auto written = files_->write_atomic(path, {ByteView(*bytes).first(whole)});
  if (!written) return written.error().within("audit log");
  return {};
}

Result<void> AuditLog::append_line(WallTime now, std::string_view event,
                                   const std::vector<AuditField>& fields) {
  if (!file_) {
    auto file = files_->write_new(folder_ / file_name(file_number_));
    if (!file) return file.error();
    file_ = std::move(*file);
    if (auto named = files_->sync_folder(folder_); !named) return named;
  }
  std::string statement = statement_of(entries_ + 1, now, event, fields, last_);
  Signature signature = identity_->sign(kLinePurpose, as_bytes(statement));
  std::string line =
      statement + std::string(kSigMark) + to_hex(signature) + std::string(kEnd) + "\n";
  auto appended = file_->append(as_bytes(line));
  if (appended) appended = file_->sync();
  if (!appended) return appended;
  last_ = sha256(as_bytes(std::string_view(line).substr(0, line.size() - 1)));
  ++entries_;
  Bytes head = head_statement(last_, entries_);
  Signature head_signature = identity_->sign(kHeadPurpose, head);
  head.insert(head.end(), head_signature.begin(), head_signature.end());
  return head_.store(head);
}

}  // namespace gpunode::security
