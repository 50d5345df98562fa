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

// Where a model lies, as the node is told. Fails with not_found.
Result<std::string> model_path(const std::string& text) {
  std::filesystem::path path = std::filesystem::absolute(text).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  std::error_code unreadable;
  if (!std::filesystem::exists(path, unreadable))
    return Error{ErrorCode::not_found, "nothing is at " + path.string() +
                                           ": name a checkpoint folder, an exported file, or a "
                                           "job (`gpunode checkpoint ls` lists them)"};
  return path.string();
}

// How it is to be served, whatever it is.
Result<json> settings_in(const Arguments& given) {
  json settings = json::object();
  if (const std::string weights = given.text("--weights"); !weights.empty()) {
    if (const auto format = ops::weight_format_of(weights); !format) return format.error();
    settings["weights"] = weights;
  }
  const auto idle = given.duration("--idle", {});
  if (!idle) return idle.error();
  if (given.has("--idle")) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*idle).count();
    if (seconds < 1) return Error{ErrorCode::invalid_argument, "--idle is at least one second"};
    settings["idle_seconds"] = seconds;
  }
  if (given.has("--draft")) {
    if (given.has("--rollback"))
      return Error{ErrorCode::invalid_argument,
                   "--rollback brings the draft back that it had: leave --draft out"};
    const auto draft = model_path(given.text("--draft"));
    if (!draft) return draft.error().within("--draft");
    settings["draft"] = *draft;
  }
  if (given.has("--replace")) settings["replace"] = true;
  if (given.has("--deterministic")) settings["deterministic"] = true;
  if (given.has("--part")) settings["part"] = given.text("--part");
  return settings;
}

// Of a part of a model, which answers where all others are served too.
std::string part_text(const json& answer) {
  const std::string shown = word(answer, "model"), part = word(answer, "part");
  const std::string head = "part " + part + " of a model is served as " + shown;
  if (!part.starts_with("1/")) return head + "; the node that serves its part 1 answers with it\n";
  const std::string missing = joined(list(answer, "missing_parts"), ", ");
  return head + ", version " + number(answer, "version") +
         (missing.empty()
              ? "; any node of the cluster can `gpunode generate --model " + shown + "`"
              : "; it answers once other nodes serve the parts that are missing: " + missing) +
         "\n";
}

std::string served_text(const json& answer) {
  if (answer.contains("part")) return part_text(answer);
  const std::string shown = word(answer, "model");
  const std::string others = joined(list(answer, "differs_from"), " and ");
  const std::string job = field<std::string>(answer, "job", "");
  return "model " + shown + " is served, version " + number(answer, "version") +
         (job.empty() ? "" : ", of job " + job.substr(0, 8)) +
         (answer.contains("step") ? " after step " + number(answer, "step") : "") +
         steps_that_lack(answer) + (answer.contains("draft") ? ", with a draft" : "") +
         "; any node of the cluster can `gpunode generate --model " + shown + "`\n" +
         (others.empty() ? ""
                         : "  " + others +
                               " serves another version of it, and requests go to one or the "
                               "other: --model " +
                               shown + "@" + number(answer, "version") +
                               " asks for this one alone, --name gives it another name\n") +
         (field<bool>(answer, "draft_left_out", false)
              ? "  others have a draft for it, which a copy does not take: --draft names one here\n"
              : "");
}

// Those of `serve` that say different things.
Result<void> flags_fit(const Invocation& invocation) {
  const auto refused = [](const char* text) { return Error{ErrorCode::invalid_argument, text}; };
  const auto has = [&](const char* flag) { return invocation.arguments.has(flag); };
  const bool copy = has("--copy"), rollback = has("--rollback");
  if (has("--version") && !copy)
    return refused("--version goes with --copy: a version is taken from those who serve it");
  if (has("--part") && (copy || rollback))
    return refused("a part is served from a path: --part goes neither with --copy nor --rollback");
  if (copy && rollback) return refused("--copy and --rollback say different things");
  if (rollback && has("--deterministic"))
    return refused("--rollback brings a model back as it was served: leave --deterministic out");
  if (rollback && (has("--weights") || has("--replace")))
    return refused(
        "--rollback brings a model back as it was served, in place of what is there: leave "
        "--weights and --replace out");
  if (copy && has("--weights"))
    return refused("a copy has its weights as those who serve it keep them: leave --weights out");
  return {};
}

}  // namespace

int run_serve(const Invocation& invocation) {
  std::string what = invocation.arguments.text("JOB|PATH");
  std::string name = invocation.arguments.text("--name");
  const auto settings = settings_in(invocation.arguments);
  if (!settings)
    return fail(invocation, settings.error(),
                settings.error().code == ErrorCode::not_found ? kFailed : kUsage);
  json arguments = *settings;
  const auto version = invocation.arguments.whole("--version", 0, 1, kLargestVersion);
  if (!version) return fail(invocation, version.error(), kUsage);
  const bool copy = invocation.arguments.has("--copy");
  const bool rollback = invocation.arguments.has("--rollback");
  if (auto fits = flags_fit(invocation); !fits) return fail(invocation, fits.error(), kUsage);
  if (copy || rollback) {
    if (!name.empty() && name != what)
      return fail(invocation,
                  {ErrorCode::invalid_argument, "a copy has its model's name: leave --name out"},
                  kUsage);
    arguments["name"] = what;
    if (copy) arguments["copy"] = true;
    if (rollback) arguments["rollback"] = true;
    if (*version > 0) arguments["version"] = *version;
    return tell(invocation, ask_node(invocation, "serve", arguments, std::chrono::hours(24)),
                served_text);
  }
  std::error_code unreadable;
  bool is_path = what.find('/') != std::string::npos || std::filesystem::exists(what, unreadable);
  if (is_path) {
    const auto path = model_path(what);
    if (!path) return fail(invocation, path.error());
    arguments["path"] = *path;
    arguments["name"] = name.empty() ? name_at(*path) : name;
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

// Of a line of `models`; of a part that is no head its name says which it is.
std::string state_of(const json& model) {
  if (field<bool>(model, "asleep", false)) return " (asleep)";
  const auto part = field<std::string>(model, "part", "");
  return part.starts_with("1/") ? " (part " + part + ")" : "";
}

std::string models_text(const json& answer) {
  std::vector<std::vector<std::string>> rows = {
      {"MODEL", "VERSION", "NODE", "JOB", "STEP", "WEIGHTS", "DIGEST"}};
  for (const json& model : list(answer, "models"))
    rows.push_back({word(model, "model") + state_of(model),
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
