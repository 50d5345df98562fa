// `serve`, `unserve` and `models`: which models this cluster answers with.
#include <filesystem>

#include "kernels/ops/weight_format.hpp"
#include "runtime/snapshot/checkpoint.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/tables.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLargestVersion = std::uint64_t{1} << 48;

// What a model at this path is called: the job of a checkpoint, else the file's name.
std::string name_at(const std::filesystem::path& path) {
  storage::PosixFileSystem files;
  if (std::filesystem::is_directory(path)) {
    auto checkpoint = snapshot::Checkpoint::open(files, path);
    if (checkpoint) return checkpoint->manifest().meta.job_name;
  }
  return path.stem().string();
}

// A job's result may be lost on this node, or not be there yet: what is served is not it then.
std::string steps_that_lack(const json& answer) {
  const auto steps = field<std::uint64_t>(answer, "steps", 0);
  if (field<std::uint64_t>(answer, "step", steps) >= steps) return "";
  return " of " + std::to_string(steps) + " (this node has no newer checkpoint of it)";
}

std::string served_text(const json& answer) {
  const std::string shown = word(answer, "model");
  const std::string others = joined(list(answer, "differs_from"), " and ");
  const std::string job = field<std::string>(answer, "job", "");
  return "model " + shown + " is served, version " + number(answer, "version") +
         (job.empty() ? "" : ", of job " + job.substr(0, 8)) +
         (answer.contains("step") ? " after step " + number(answer, "step") : "") +
         steps_that_lack(answer) + "; any node of the cluster can `gpunode generate --model " +
         shown + "`\n" +
         (others.empty() ? ""
                         : "  " + others +
                               " serves another version of it, and requests go to one or the "
                               "other: --model " +
                               shown + "@" + number(answer, "version") +
                               " asks for this one alone, --name gives it another name\n");
}

}  // namespace

int run_serve(const Invocation& invocation) {
  std::string what = invocation.arguments.text("JOB|PATH");
  std::string name = invocation.arguments.text("--name");
  json arguments = json::object();
  const std::string weights = invocation.arguments.text("--weights");
  if (!weights.empty()) {
    if (const auto format = ops::weight_format_of(weights); !format)
      return fail(invocation, format.error(), kUsage);
    arguments["weights"] = weights;
  }
  const auto version = invocation.arguments.whole("--version", 0, 1, kLargestVersion);
  if (!version) return fail(invocation, version.error(), kUsage);
  const auto idle = invocation.arguments.duration("--idle", {});
  if (!idle) return fail(invocation, idle.error(), kUsage);
  if (invocation.arguments.has("--idle")) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*idle).count();
    if (seconds < 1)
      return fail(invocation, {ErrorCode::invalid_argument, "--idle is at least one second"},
                  kUsage);
    arguments["idle_seconds"] = seconds;
  }
  const bool copy = invocation.arguments.has("--copy");
  const bool rollback = invocation.arguments.has("--rollback");
  if (*version > 0 && !copy)
    return fail(invocation,
                {ErrorCode::invalid_argument,
                 "--version goes with --copy: a version is taken from "
                 "those who serve it"},
                kUsage);
  if (copy && rollback)
    return fail(invocation,
                {ErrorCode::invalid_argument, "--copy and --rollback say different things"},
                kUsage);
  if (copy || rollback) {
    if (!name.empty() && name != what)
      return fail(invocation,
                  {ErrorCode::invalid_argument, "a copy has its model's name: leave --name out"},
                  kUsage);
    arguments["name"] = what;
    if (copy) arguments["copy"] = true;
    if (rollback) arguments["rollback"] = true;
    if (*version > 0) arguments["version"] = *version;
    if (invocation.arguments.has("--replace")) arguments["replace"] = true;
    return tell(invocation, ask_node(invocation, "serve", arguments, std::chrono::hours(24)),
                served_text);
  }
  if (invocation.arguments.has("--replace")) arguments["replace"] = true;
  std::error_code unreadable;
  bool is_path = what.find('/') != std::string::npos || std::filesystem::exists(what, unreadable);
  if (is_path) {
    std::filesystem::path path = std::filesystem::absolute(what).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    if (!std::filesystem::exists(path, unreadable))
      return fail(invocation,
                  {ErrorCode::not_found, "nothing is at " + path.string() +
                                             ": name a checkpoint folder, an exported file, or a "
                                             "job (`gpunode checkpoint ls` lists them)"});
    arguments["path"] = path.string();
    arguments["name"] = name.empty() ? name_at(path) : name;
  } else {
    arguments["job"] = what;
    if (!name.empty()) arguments["name"] = name;
  }
  Answer answer = ask_node(invocation, "serve", arguments, std::chrono::minutes(5));
  if (!answer && !is_path && answer.error->code == ErrorCode::not_found &&
      std::filesystem::path(what).has_extension())
    answer.error->detail += "; nor is there a file of that name in this folder";
  return tell(invocation, answer, served_text);
}

int run_unserve(const Invocation& invocation) {
  return tell(invocation,
              ask_node(invocation, "unserve", {{"model", invocation.arguments.text("MODEL")}}),
              [](const json& answer) {
                return "model " + word(answer, "model") + " is not served by this node any more\n";
              });
}

std::string models_text(const json& answer) {
  std::vector<std::vector<std::string>> rows = {
      {"MODEL", "VERSION", "NODE", "JOB", "STEP", "WEIGHTS", "DIGEST"}};
  for (const json& model : list(answer, "models"))
    rows.push_back({word(model, "model") + (field<bool>(model, "asleep", false) ? " (asleep)" : ""),

                    model.contains("version") ? number(model, "version") : "-", word(model, "node"),
                    field<std::string>(model, "job", "-").substr(0, 8),
                    model.contains("step") ? number(model, "step") : "-",
                    field<std::string>(model, "weights", "-"),
                    field<std::string>(model, "digest", "-").substr(0, 12)});
  return rows.size() == 1 ? "no model is served; `gpunode serve JOB` serves one\n" : aligned(rows);
}

int run_models(const Invocation& invocation) {
  return tell(invocation, ask_node(invocation, "models"), models_text);
}

}  // namespace gpunode::cli
