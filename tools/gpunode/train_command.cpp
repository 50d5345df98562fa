// `train`: hands a job file to the node.
#include <filesystem>
#include <vector>

#include "actors/job/job_phase.hpp"
#include "actors/job/timeouts.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/follow.hpp"

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

}  // namespace

int run_train(const Invocation& invocation) {
  std::string given = invocation.arguments.text("JOB.toml");
  storage::PosixFileSystem files;
  auto text = files.read(given, kLongestJobFileBytes);
  if (!text) return fail(invocation, text.error().within("job file"));
  std::string job_file(as_text(*text));
  std::string folder = std::filesystem::absolute(given).lexically_normal().parent_path().string();
  Answer answer = ask_node(invocation, "train",
                           {{"job_file", job_file},
                            {"directory", folder},
                            {"wait", !invocation.arguments.has("--no-wait")}},
                           jobs::kTrainTimeout);
  const int told = tell(invocation, answer, started_text);
  if (!answer || !invocation.arguments.has("--follow")) return told;
  return watch_job(invocation, {.job = field<std::string>(answer.body, "job", "")});
}

}  // namespace gpunode::cli
