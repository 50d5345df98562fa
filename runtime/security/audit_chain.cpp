#include "runtime/security/audit_chain.hpp"

#include "runtime/security/detail/layout.hpp"

#include <algorithm>
#include <cstdio>

namespace gpunode::security {
namespace {

constexpr std::string_view kPrevMark = ",\"prev\":\"";
constexpr std::string_view kSigMark = "\",\"sig\":\"";
constexpr std::string_view kEnd = "\"}";

// Nothing: the line is good and now the newest. Else what is wrong with it.
std::optional<std::string> follow(AuditChain& chain, std::string_view line, const SignKey& key) {
  const std::size_t tail = kSigMark.size() + 128 + kEnd.size();
  const std::size_t back = kPrevMark.size() + 64 + tail;
  if (line.size() < back || !line.ends_with(kEnd)) return "is not an entry";
  const std::string_view statement = line.substr(0, line.size() - tail);
  const std::string_view rest = line.substr(statement.size());
  const Bytes signature = from_hex(rest.substr(kSigMark.size(), 128));
  const std::string begin = "{\"seq\":" + std::to_string(chain.end.entries + 1) + ",";
  if (!rest.starts_with(kSigMark) || signature.size() != 64) return "is not an entry";
  if (!statement.ends_with(std::string(kPrevMark) + to_hex(chain.end.last)))
    return "does not follow the line before it";
  if (!statement.starts_with(begin)) return "has the wrong number";
  Signature signed_by;
  std::copy(signature.begin(), signature.end(), signed_by.begin());
  if (!verify(key, kAuditLinePurpose, as_bytes(statement), signed_by)) return "was changed";
  chain.end = {chain.end.entries + 1, sha256(as_bytes(line))};
  chain.hashes.push_back(chain.end.last);
  return std::nullopt;
}

// Without entries: there is none yet.
Result<AuditHeadFile> load_head(storage::FileSystem& files, const storage::Path& path,
                                const SignKey& key) {
  storage::DurableRecord record(files, path, kAuditHeadFormat);
  auto stored = record.load();
  if (!stored) return stored.error();
  AuditHeadFile head;
  if (!stored->has_value()) return head;
  detail::LayoutReader reader(**stored);
  head.end = {reader.u64(), reader.array<32>()};
  head.begin = {reader.u64(), reader.array<32>()};
  head.first_file = reader.u64();
  const Signature signature = reader.array<64>();
  if (!reader.ok() || !reader.at_end() ||
      !verify(key, kAuditHeadPurpose, audit_head_statement(head), signature))
    return {ErrorCode::corrupted, path.string() + " was changed"};
  return head;
}

// Of the segments that are kept, by the number in their names.
Result<std::vector<std::uint64_t>> files_of(storage::FileSystem& files, const storage::Path& folder,
                                            std::uint64_t first) {
  std::vector<std::uint64_t> numbers;
  auto entries = files.list(folder);
  if (!entries && entries.error().code == ErrorCode::not_found) return numbers;
  if (!entries) return entries.error();
  for (const storage::Entry& entry : *entries) {
    const std::uint64_t number = std::strtoull(entry.name.c_str(), nullptr, 10);
    if (number >= first && entry.name == audit_file_name(number)) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

Error missing(const storage::Path& folder) {
  return {ErrorCode::corrupted,
          folder.string() + ": entries at the end of the audit log are missing"};
}

}  // namespace

bool AuditChain::holds(const AuditHead& head) const {
  if (head.entries > end.entries) return false;
  if (head.entries <= begin.entries) return head.entries < begin.entries || head == begin;
  return hashes[head.entries - begin.entries - 1] == head.last;
}

storage::Path audit_folder(const storage::Path& state_directory) {
  return state_directory / "audit";
}

storage::Path audit_head_path(const storage::Path& state_directory) {
  return state_directory / "audit.head";
}

std::string audit_file_name(std::uint64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "%06llu.log", static_cast<unsigned long long>(number));
  return text;
}

Bytes audit_head_statement(const AuditHeadFile& head) {
  detail::LayoutWriter writer;
  for (const AuditHead& one : {head.end, head.begin}) {
    writer.u64(one.entries);
    writer.raw(one.last);
  }
  writer.u64(head.first_file);
  return writer.take();
}

std::string audit_statement(std::uint64_t number, std::string_view time, std::string_view event,
                            std::string_view fields, const Sha256& last) {
  std::string line = "{\"seq\":" + std::to_string(number) + ",\"time\":\"";
  line.append(time).append("\",\"event\":").append(event).append(fields);
  return line.append(kPrevMark) + to_hex(last);
}

std::string audit_line(const std::string& statement, const Signature& signature) {
  return statement + std::string(kSigMark) + to_hex(signature) + std::string(kEnd);
}

Result<AuditChain> read_audit(storage::FileSystem& files, const storage::Path& state_directory,
                              const SignKey& key, const AuditVisitor& visitor) {
  const storage::Path folder = audit_folder(state_directory);
  auto head = load_head(files, audit_head_path(state_directory), key);
  if (!head) return head.error().within("audit log");
  auto numbers = files_of(files, folder, head->first_file);
  if (!numbers) return numbers.error().within("audit log");
  AuditChain chain;
  chain.begin = chain.end = head->begin;
  chain.next_file = head->first_file;
  for (const std::uint64_t number : *numbers) {
    const storage::Path path = folder / audit_file_name(number);
    auto bytes = files.read(path, kLargestAuditFile);
    if (!bytes && bytes.error().code == ErrorCode::resource_exhausted)
      return {ErrorCode::corrupted, path.string() + " is longer than an audit log's file gets"};
    if (!bytes) return bytes.error().within("audit log");
    std::string_view text = as_text(*bytes);
    std::uint64_t line = 1;
    for (std::size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
      if (auto wrong = follow(chain, text.substr(0, end), key))
        return {ErrorCode::corrupted,
                path.string() + ":" + std::to_string(line) + ": the entry " + *wrong};
      if (visitor) visitor(text.substr(0, end));
      ++line;
    }
    chain.segments.push_back({number, bytes->size(), chain.end});
    chain.next_file = number + 1;
  }
  // An entry is on disk before its head is: without a head there is one entry at most.
  const bool whole = head->end.entries == 0 ? chain.end.entries <= 1 : chain.holds(head->end);
  if (!whole) return missing(folder);
  return chain;
}

}  // namespace gpunode::security
