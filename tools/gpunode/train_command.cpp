// `train`: hands a job file to the node, and with --follow watches the job until it ends.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <thread>
#include <vector>

#include "actors/job/job_phase.hpp"
#include "actors/job/timeouts.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/progress_text.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

using nlohmann::json;
using SteadyClock = std::chrono::steady_clock;

constexpr std::uint64_t kLongestJobFileBytes = 1 << 20;
constexpr auto kPollEvery = std::chrono::milliseconds(250);
constexpr auto kLineEvery = std::chrono::seconds(5);

// Shows progress: on a terminal one line that is written over, else a line when something changes
// that is worth one, or after a while.
class Display {
 public:
  explicit Display(bool as_json) : json_(as_json), terminal_(!as_json && isatty(STDOUT_FILENO)) {}

  void show(const json& progress, bool last) {
    if (terminal_) {
      print("\r" + progress_text(progress) + "\033[K" + (last ? "\n" : ""));
      return;
    }
    std::string what =
        field<std::string>(progress, "phase", "") + field<json>(progress, "members", json()).dump();
    auto now = SteadyClock::now();
    auto step = field<std::uint64_t>(progress, "step", 0);
    bool moved = step != step_ && now - shown_ >= kLineEvery;
    if (!last && what == what_ && !moved) return;
    what_ = what;
    step_ = step;
    shown_ = now;
    if (json_)
      print_json(progress);
    else
      print(progress_text(progress) + "\n");
  }

 private:
  bool json_, terminal_;
  std::string what_;
  std::uint64_t step_ = 0;
  SteadyClock::time_point shown_{};
};

int follow(const Invocation& invocation, const std::string& job) {
  Display display(invocation.json());
  for (;;) {
    Answer answer = ask_node(invocation, "job.progress", {{"job", job}});
    if (!answer) return fail(invocation, answer);
    const auto phase = jobs::parse_job_phase(field<std::string>(answer.body, "phase", ""));
    display.show(answer.body, phase && jobs::is_over(*phase));
    if (phase == jobs::JobPhase::finished) return kOk;
    if (phase == jobs::JobPhase::failed) {
      std::string reason = field<std::string>(answer.body, "reason", "no reason is known");
      if (!invocation.json())
        std::fprintf(stderr, "gpunode: job %s failed: %s\n", job.substr(0, 8).c_str(),
                     reason.c_str());
      return kFailed;
    }
    std::this_thread::sleep_for(kPollEvery);
  }
}

std::string started_text(const json& body) {
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
  Answer answer = ask_node(invocation, "train", {{"job_file", job_file}, {"directory", folder}},
                           jobs::kTrainTimeout);
  const int told = tell(invocation, answer, started_text);
  if (!answer || !invocation.arguments.has("--follow")) return told;
  return follow(invocation, field<std::string>(answer.body, "job", ""));
}

}  // namespace gpunode::cli
