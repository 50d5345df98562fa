// `token create`: the token alone on standard output, so that it can go straight into a file; `token
// ls` and `token revoke`: what becomes of those that were made here.
#include <cstdio>
#include <optional>

#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/output_file.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

std::string advice_of(const nlohmann::json& answer) {
  const auto endpoints = field<std::vector<std::string>>(answer, "endpoints", {});
  std::string address = endpoints.empty() ? "HOST" : endpoints.front();
  if (address.starts_with("tcp://")) address = address.substr(6);
  const auto uses = field<std::uint64_t>(answer, "uses", 0);
  return "they may " + word(answer, "roles") + "; good for " +
         human_duration(field<double>(answer, "ttl_seconds", -1)) + " and " + std::to_string(uses) +
         (uses == 1 ? " node" : " nodes") + "; keep it secret. There: gpunode join " + address +
         " --token-file FILE\n";
}

// Moves the token into a file of its own, which nobody else can read.
Result<void> keep(nlohmann::json& answer, const storage::Path& path) {
  if (auto written = write_secret(path, word(answer, "token")); !written) return written;
  answer.erase("token");
  answer["path"] = path.string();
  return {};
}

}  // namespace

int run_token_create(const Invocation& invocation) {
  auto term = invocation.arguments.duration("--ttl", std::chrono::minutes(15));
  if (!term) return fail(invocation, term.error(), kUsage);
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*term).count();
  if (seconds < 1)
    return fail(invocation, {ErrorCode::invalid_argument, "--ttl is at least one second"}, kUsage);
  auto uses = invocation.arguments.whole("--uses", 1, 1, 1'000'000);
  if (!uses) return fail(invocation, uses.error(), kUsage);
  if (invocation.arguments.has("--role") && invocation.arguments.text("--role").empty())
    return fail(invocation,
                {ErrorCode::invalid_argument,
                 "--role names what who joins may, as compute,call: it is empty"},
                kUsage);
  // Looked at before: a token that is made and cannot be written would be good, and nobody's.
  std::optional<storage::Path> file;
  if (const std::string out = invocation.arguments.text("--out"); !out.empty()) {
    auto fresh = secret_file(invocation, out);
    if (!fresh) return fail(invocation, fresh.error());
    file = std::move(*fresh);
  }
  Answer answer = ask_node(invocation, "token.create",
                           {{"ttl_seconds", seconds},
                            {"uses", *uses},
                            {"roles", invocation.arguments.text("--role")},
                            {"label", invocation.arguments.text("--label")}});
  if (answer && file)
    if (auto kept = keep(answer.body, *file); !kept) return fail(invocation, kept.error());
  const int told = tell(invocation, answer, [](const nlohmann::json& body) {
    return body.contains("path") ? "" : word(body, "token") + "\n";
  });
  if (!answer || invocation.json()) return told;
  std::fputs(advice_of(answer.body).c_str(), stderr);
  return told;
}

int run_token_ls(const Invocation& invocation) {
  return tell(invocation, ask_node(invocation, "token.ls"), [](const nlohmann::json& body) {
    std::vector<std::vector<std::string>> rows = {{"ID", "LABEL", "ROLES", "USES LEFT", "ENDS IN"}};
    for (const nlohmann::json& token : list(body, "tokens"))
      rows.push_back({word(token, "id").substr(0, 8), word(token, "label"), word(token, "roles"),
                      std::to_string(field<std::uint64_t>(token, "uses_left", 0)),
                      human_duration(field<double>(token, "ends_in_seconds", -1))});
    return rows.size() > 1 ? aligned(rows)
                           : std::string("no token of this node is good any more\n");
  });
}

int run_token_revoke(const Invocation& invocation) {
  return tell(invocation,
              ask_node(invocation, "token.revoke", {{"token", invocation.arguments.text("TOKEN")}}),
              [](const nlohmann::json& body) {
                return "nobody joins with token " + word(body, "id").substr(0, 8) + " any more\n";
              });
}

}  // namespace gpunode::cli
