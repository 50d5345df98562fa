// `train`: hands a job file to the node.
#include <filesystem>
#include <vector>

#include "actors/job/job_phase.hpp"
#include "actors/job/timeouts.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/follow.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLongestJobFileBytes = 1 << 20;

std::string waits_text(const json& body) {
  const std::string name = word(body, "name");
  return "job " + name + " (" + word(body, "job").substr(0, 8) +
         ") waits: " + word(body, "reason") + "\n  it starts by itself, once; held by " +
         joined(list(body, "held_by")) + "; `gpunode job rm " + name + "` takes it out\n";
}

std::string started_text(const json& body) {
  if (field<std::string>(body, "phase", "") == to_string(jobs::JobPhase::waiting))
    return waits_text(body);
  std::string text =
      "job " + word(body, "name") + " (" + word(body, "job").substr(0, 8) + ") is started";
  const auto nodes = field<std::vector<std::string>>(body, "started_on", {});
  const auto wanted = field<std::uint64_t>(body, "nodes_wanted", nodes.size());
  text += " on " + std::to_string(nodes.size()) + " of " + std::to_string(wanted) +
          (wanted == 1 ? " node" : " nodes") + (nodes.empty() ? "" : ": " + joined(nodes)) + "\n";
  for (const std::string& name : field<std::vector<std::string>>(body, "silent", {}))
    text += "  not yet on " + name + ": it has not answered, and may come later\n";
  for (const json& refusal : list(body, "refused"))
    text += "  not on " + word(refusal, "node") + ": " + word(refusal, "reason") + "\n";
  return text;
}

std::string bytes_text(const json& object, const char* key) {
  return object.contains(key) ? human_bytes(field<double>(object, key, 0)) : "?";
}

// A line a node: its part in a step, or why it has none.
std::string nodes_text(const json& plan) {
  std::vector<std::vector<std::string>> rows = {
      {"NODE", "SLICES", "SENDS A STEP", "RECEIVES", "MEMORY NEEDED", "AVAILABLE", ""}};
  for (const json& node : list(plan, "nodes")) {
    const bool part = field<bool>(node, "takes_part", false);
    const auto of_part = [&](const std::string& text) { return part ? text : "-"; };
    rows.push_back(
        {word(node, "node"), of_part(number(node, "slices")),
         of_part(bytes_text(node, "sent_bytes")), of_part(bytes_text(node, "received_bytes")),
         bytes_text(node, "memory_needed_bytes"), bytes_text(node, "memory_available_bytes"),
         part ? "" : "takes no part: " + word(node, "reason")});
  }
  return aligned(rows);
}

// A short job sees a part of its data alone.
std::string epochs_text(double epochs) {
  return epochs < 1 ? decimal(100 * epochs, 1) + " % of them are read"
                    : "read " + decimal(epochs, 2) + " times";
}

std::string plan_text(const json& plan) {
  const auto wanted = field<std::uint64_t>(plan, "nodes_wanted", 0);
  const auto every = field<std::uint64_t>(plan, "checkpoint_every", 0);
  std::string data = word(plan, "data");
  if (plan.contains("data_samples"))
    data += ", " + bytes_text(plan, "data_bytes") + ", " + number(plan, "data_samples") +
            " samples; " + epochs_text(field<double>(plan, "epochs", 0));
  const std::vector<std::vector<std::string>> rows = {
      {"nodes", number(plan, "nodes_taking_part") + " of " + std::to_string(wanted) +
                    " wanted, at least " + number(plan, "nodes_least")},
      {"model", word(plan, "model") + ", " + number(plan, "parameters") + " parameters"},
      {"steps", number(plan, "steps") + ", each of " + number(plan, "samples_per_step") +
                    " samples (" + number(plan, "tokens_per_step") + " tokens) in " +
                    number(plan, "slices_per_step") + " slices"},
      {"exchange", word(plan, "exchange_mode")},
      {"checkpoint", bytes_text(plan, "checkpoint_bytes") + " after the last step" +
                         (every == 0 ? "" : " and every " + std::to_string(every)) +
                         ", the newest " + number(plan, "checkpoints_kept") +
                         " are kept on each member"},
      {"data", data}};
  std::string remarks;
  for (const std::string& one : field<std::vector<std::string>>(plan, "remarks", {}))
    remarks += (remarks.empty() ? "\nremark: " : "remark: ") + one + "\n";
  return aligned(rows) + "\n" + nodes_text(plan) + remarks +
         (field<bool>(plan, "starts", false)
              ? "\njob " + word(plan, "name") + " would start; nothing was started\n"
          : field<bool>(plan, "waits", false) ? "\njob " + word(plan, "name") + " would wait: " +
                                                    word(object(plan, "refusal"), "detail") + "\n"
                                              : "");
}

// A job that would be refused fails as `train` would.
int tell_plan(const Invocation& invocation, Answer answer) {
  if (!answer || field<bool>(answer.body, "waits", false))
    return tell(invocation, answer, plan_text);
  std::optional<Error> refusal;
  if (const json told = object(answer.body, "refusal"); !told.empty())
    refusal = parsed_answer(json{{"error", told}}.dump()).error();
  answer.body.erase("refusal");
  if (invocation.json())
    print_json(answer.body, refusal);
  else
    print(plan_text(harmless_answer(answer.body)));
  if (refusal && !invocation.json()) return fail(invocation, *refusal);
  return refusal ? kFailed : kOk;
}

}  // namespace

int run_train(const Invocation& invocation) {
  const bool check = invocation.arguments.has("--check");
  if (check && invocation.arguments.has("--follow"))
    return fail(invocation,
                {ErrorCode::invalid_argument, "--check starts nothing that --follow could show"},
                kUsage);
  std::string given = invocation.arguments.text("JOB.toml");
  storage::PosixFileSystem files;
  auto text = files.read(given, kLongestJobFileBytes);
  if (!text) return fail(invocation, text.error().within("job file"));
  std::string job_file(as_text(*text));
  std::string folder = std::filesystem::absolute(given).lexically_normal().parent_path().string();
  const json arguments = {{"job_file", job_file},
                          {"directory", folder},
                          {"check", check},
                          {"wait", !invocation.arguments.has("--no-wait")}};
  Answer answer = ask_node(invocation, "train", arguments, jobs::kTrainTimeout);
  if (check) return tell_plan(invocation, std::move(answer));
  const int told = tell(invocation, answer, started_text);
  if (!answer || !invocation.arguments.has("--follow")) return told;
  return watch_job(invocation, {.job = field<std::string>(answer.body, "job", "")});
}

}  // namespace gpunode::cli
