// `keys rotate` and `cluster refound`: what is done about keys that are, or may be, in wrong hands.
#include <filesystem>

#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/recovery.hpp"
#include "tools/gpunode/tables.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

using nlohmann::json;

std::string counted(std::uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string rotated_text(const json& answer) {
  const auto ended = field<std::uint64_t>(answer, "tokens_ended", 0);
  std::string text = "the links of this node take key " +
                     std::to_string(field<std::uint64_t>(answer, "epoch", 0)) + "; " +
                     counted(field<std::uint64_t>(answer, "told", 0), "other node") +
                     " hear of it now, the others from them\n";
  if (ended > 0)
    text += counted(ended, "token") +
            " of this node ended with the old key: `gpunode token create` "
            "makes new ones\n";
  return text;
}

std::string refounded_text(const json& answer) {
  const bool check = field<bool>(answer, "check", false);
  std::vector<std::vector<std::string>> rows = {{"NAME", "ID", "BECOMES", "ROLES", "LET IN BY"}};
  bool drops = false, restores = false;
  for (const json& node : list(answer, "nodes")) {
    const std::string becomes = word(node, "becomes");
    drops |= becomes == "dropped";
    restores |= becomes == "restored";
    rows.push_back({word(node, "name"), word(node, "id").substr(0, 8),
                    becomes == "put_out" ? "put out" : becomes, word(node, "roles"),
                    joined(list(node, "admitted_by"), ", ")});
  }
  std::string text = aligned(rows);
  if (check)
    return text +
           "nothing was done. Look at who let each of the members in, and when in doubt name it "
           "with "
           "--without\n";
  text +=
      "the cluster stands on its recovery key now: this node has all roles, and what those that "
      "are "
      "put out sign counts nowhere\n";
  if (drops)
    text +=
        "who was dropped joins anew, as another node: `gpunode token create` here, and there a new "
        "state "
        "directory\n";
  if (restores) text += "who is restored may still take others for put out: order the same there\n";
  return text +
         "put the recovery key away again; a second node with the roles admit and operate makes "
         "it needed less (`gpunode token create --role all`)\n";
}

}  // namespace

std::string recovery_key_of(const Invocation& invocation) {
  const std::filesystem::path path = std::filesystem::path(invocation.state()) / "recovery.key";
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? path.string() : "";
}

std::string recovery_key_advice(const std::string& path) {
  return "the cluster's recovery key is in " + path +
         ": move it to a safe place off this machine. Where this node is lost or taken, `gpunode "
         "cluster "
         "refound` on another one needs it; whoever has it rules the cluster\n";
}

int run_keys_rotate(const Invocation& invocation) {
  return tell(invocation, ask_node(invocation, "keys.rotate"), rotated_text);
}

int run_cluster_refound(const Invocation& invocation) {
  const std::string file = invocation.arguments.text("--recovery-key");
  if (file.empty())
    return fail(
        invocation,
        {ErrorCode::invalid_argument,
         "--recovery-key names the file that `gpunode up` wrote when the cluster was founded"},
        kUsage);
  std::string without;
  for (const std::string& node : invocation.arguments.all("--without"))
    without += (without.empty() ? "" : "\n") + node;
  return tell(
      invocation,
      ask_node(invocation, "cluster.refound",
               {{"recovery_key", std::filesystem::absolute(file).lexically_normal().string()},
                {"without", without},
                {"with_admitted", invocation.arguments.has("--with-admitted")},
                {"check", invocation.arguments.has("--check")}}),
      refounded_text);
}

}  // namespace gpunode::cli
