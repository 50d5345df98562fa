// `audit show` and `audit verify`: what a node's audit log holds, and whether it is whole. Both read
// the state directory and need no node.
#include <filesystem>
#include <set>

#include "runtime/base/clock.hpp"
#include "runtime/security/audit_chain.hpp"
#include "runtime/security/identity.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"

namespace gpunode::cli {
namespace {

using nlohmann::json;
using storage::Path;

// An entry as it is shown: what every one has, and the rest by name.
json entry_of(std::string_view line) {
  json record = json::parse(line, nullptr, false);
  if (!record.is_object()) return {};
  json entry = {{"seq", field<std::uint64_t>(record, "seq", 0)},
                {"time", word(record, "time")},
                {"event", word(record, "event")},
                {"fields", json::object()}};
  for (const char* own : {"seq", "time", "event", "prev", "sig"}) record.erase(own);
  for (const auto& [name, value] : record.items())
    if (value.is_string()) entry["fields"][name] = value;
  return entry;
}

std::string line_of(const json& entry) {
  std::string line = word(entry, "time") + "  " + word(entry, "event");
  for (const auto& [name, value] : entry["fields"].items())
    line += "  " + name + "=" + value.get<std::string>();
  return line + "\n";
}

// Reads all of the log under the key of the state directory, which is not made by looking.
Result<security::AuditChain> read_log(const Invocation& invocation,
                                      const security::AuditVisitor& visitor) {
  storage::PosixFileSystem files;
  const Path state = invocation.state();
  const Error none{ErrorCode::not_found,
                   "there is no audit log in " + state.string() +
                       ": no node has been up with this state directory (--state names another "
                       "one)"};
  std::error_code failed;
  if (!std::filesystem::exists(state / "identity.key", failed)) {
    if (failed == std::errc::permission_denied)
      return {ErrorCode::permission_denied,
              state.string() + " belongs to another user: run the command as that user"};
    return none;
  }
  const auto identity = security::Identity::load_or_create(files, state);
  if (!identity) return identity.error();
  return security::read_audit(files, state, identity->sign_key(), visitor);
}

// Logs that did not verify when the node started.
json set_aside(const Invocation& invocation) {
  json found = json::array();
  storage::PosixFileSystem files;
  const auto entries = files.list(invocation.state());
  if (!entries) return found;
  for (const storage::Entry& entry : *entries)
    if (entry.name.starts_with("audit.damaged-")) found.push_back(entry.name);
  return found;
}

}  // namespace

int run_audit_show(const Invocation& invocation) {
  const auto since = invocation.arguments.duration("--since", std::chrono::milliseconds(0));
  if (!since) return fail(invocation, since.error(), kUsage);
  const std::string kind = invocation.arguments.text("--kind");
  std::string from;
  if (invocation.arguments.has("--since"))
    from = utc_text(std::chrono::system_clock::now() - *since, "%Y-%m-%dT%H:%M:%SZ");
  std::set<std::string> kinds;
  const auto chain = read_log(invocation, [&](std::string_view line) {
    const json entry = harmless_answer(entry_of(line));
    if (entry.empty()) return;
    kinds.insert(word(entry, "event"));
    if (word(entry, "time") < from) return;
    if (!kind.empty() && word(entry, "event") != kind) return;
    print(invocation.json() ? text_of(entry) + "\n" : line_of(entry));
  });
  if (!chain && chain.error().code == ErrorCode::corrupted)
    return fail(invocation, {ErrorCode::corrupted,
                             chain.error().detail +
                                 ". Told is what verifies before it; the file itself is text, an "
                                 "entry a line, for whoever wants to read what does not verify"});
  if (!chain) return fail(invocation, chain.error());
  if (kind.empty() || kinds.contains(kind)) return kOk;
  warn("there is no entry of kind '" + kind + "'; there are " + joined(kinds));
  return kOk;
}

int run_audit_verify(const Invocation& invocation) {
  std::string oldest, newest;
  std::uint64_t rolled_back = 0;
  const auto chain = read_log(invocation, [&](std::string_view line) {
    const json entry = entry_of(line);
    newest = word(entry, "time");
    if (oldest.empty()) oldest = newest;
    rolled_back += word(entry, "event") == "audit_rolled_back";
  });
  if (!chain) return fail(invocation, chain.error());
  Answer answer;
  answer.body = {{"entries", chain->end.entries},   {"given_up", chain->begin.entries},
                 {"files", chain->segments.size()}, {"head", to_hex(chain->end.last)},
                 {"rolled_back", rolled_back},      {"set_aside", set_aside(invocation)}};
  if (!oldest.empty()) {
    answer.body["oldest"] = oldest;
    answer.body["newest"] = newest;
  }
  return tell(invocation, answer, [](const json& body) {
    std::string text = "whole: " + number(body, "entries") + " entries";
    if (body.contains("oldest"))
      text += ", from " + word(body, "oldest") + " to " + word(body, "newest");
    text += "\n";
    if (field<std::uint64_t>(body, "given_up", 0) > 0)
      text += "the first " + number(body, "given_up") + " were given up to keep it small\n";
    if (field<std::uint64_t>(body, "rolled_back", 0) > 0)
      text +=
          "peers remember entries that are not in it: it was deleted or put back (`gpunode "
          "audit show --kind audit_rolled_back`)\n";
    for (const json& name : list(body, "set_aside"))
      text += "an earlier log did not verify and is kept as " + name.get<std::string>() + "\n";
    return text;
  });
}

}  // namespace gpunode::cli
