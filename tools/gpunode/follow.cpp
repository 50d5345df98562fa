#include "tools/gpunode/follow.hpp"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <thread>

#include "actors/job/job_phase.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/progress_text.hpp"

namespace gpunode::cli {
namespace {

using nlohmann::json;
using SteadyClock = std::chrono::steady_clock;

constexpr auto kPollEvery = std::chrono::milliseconds(250);
constexpr auto kStartsWithin = std::chrono::seconds(10);
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
    const json elsewhere = field<json>(progress, "elsewhere", json::object());
    std::string what = field<std::string>(progress, "phase", "") +
                       field<json>(progress, "members", json()).dump() +
                       field<std::string>(elsewhere, "phase", "");
    auto now = SteadyClock::now();
    auto step = std::max(field<std::uint64_t>(progress, "step", 0),
                         field<std::uint64_t>(elsewhere, "step", 0));
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
  void end() {
    if (terminal_) print("\n");
  }

 private:
  bool json_, terminal_;
  std::string what_;
  std::uint64_t step_ = 0;
  SteadyClock::time_point shown_{};
};

int leave_alone(const Invocation& invocation, const std::string& name, bool waits) {
  const std::string order = waits ? "rm " + name + "` takes it out" : "stop " + name + "` stops it";
  if (!invocation.json())
    std::fprintf(stderr,
                 "gpunode: the job %s; `gpunode job follow %s` watches it again, `gpunode job %s\n",
                 waits ? "waits on" : "goes on", name.c_str(), order.c_str());
  return 128 + SIGINT;
}

int stopped(const Invocation& invocation, const std::string& name) {
  if (!invocation.json())
    std::fprintf(stderr, "gpunode: it is stopped; `gpunode job resume %s` lets it go on\n",
                 name.c_str());
  return kStopped;
}

int failed(const Invocation& invocation, const json& progress, const std::string& name) {
  const std::string reason = field<std::string>(progress, "reason", "no reason is known");
  if (!invocation.json())
    std::fprintf(stderr, "gpunode: job %s failed: %s\n", name.c_str(), reason.c_str());
  return kFailed;
}

Error removed(const std::string& name) {
  return {ErrorCode::not_found, "job '" + name + "' was removed while it was waited for"};
}

volatile std::sig_atomic_t interrupted = 0;

// Where this node's part has failed, and others go on, the job has not.
std::optional<jobs::JobPhase> phase_of_all(const json& progress) {
  const json elsewhere = field<json>(progress, "elsewhere", json::object());
  return jobs::parse_job_phase(
      field<std::string>(elsewhere.empty() ? progress : elsewhere, "phase", ""));
}

}  // namespace

Interrupts::Interrupts() {
  interrupted = 0;
  struct sigaction heard {};
  heard.sa_handler = [](int) { interrupted = 1; };
  sigaction(SIGINT, &heard, &before_);
}

Interrupts::~Interrupts() {
  sigaction(SIGINT, &before_, nullptr);
}

bool Interrupts::any() {
  return interrupted != 0;
}

int watch_job(const Invocation& invocation, const Watch& watch) {
  Display display(invocation.json());
  const Interrupts interrupts;
  const auto until = SteadyClock::now() + watch.timeout.value_or(std::chrono::hours(0));
  std::string name = watch.job;
  bool known = false, waits = false;
  SteadyClock::time_point waited_at{};  // in the queue
  for (;;) {
    Answer answer = ask_node(invocation, "job.progress", {{"job", watch.job}});
    // It leaves the queue a moment before all nodes know where it runs.
    if (!answer && SteadyClock::now() < waited_at + kStartsWithin) {
      std::this_thread::sleep_for(kPollEvery);
      continue;
    }
    if (!answer && interrupted) return leave_alone(invocation, name, waits);
    if (!answer && known && answer.error->code == ErrorCode::not_found)
      return fail(invocation, removed(name));
    if (!answer) return fail(invocation, answer);
    if (!invocation.json()) answer.body = harmless_answer(answer.body);
    known = true;
    name = field<std::string>(answer.body, "name", name);
    const auto phase = phase_of_all(answer.body);
    waits = phase == jobs::JobPhase::waiting;
    if (waits) waited_at = SteadyClock::now();
    const bool stops = phase == jobs::JobPhase::stopped;
    const bool late = watch.timeout && SteadyClock::now() >= until;
    const bool over = (phase && jobs::is_over(*phase)) || stops || late;
    if (watch.shows || (over && !invocation.json()))
      display.show(answer.body, over);
    else if (over && invocation.json())
      print_json(answer.body);
    if (phase == jobs::JobPhase::finished) return kOk;
    if (phase == jobs::JobPhase::removed) return fail(invocation, removed(name));
    if (phase == jobs::JobPhase::failed) return failed(invocation, answer.body, name);
    if (stops) return stopped(invocation, name);
    if (late) return kTimedOut;
    if (interrupted) {
      if (watch.shows) display.end();
      return leave_alone(invocation, name, waits);
    }
    std::this_thread::sleep_for(kPollEvery);
  }
}

int run_job_follow(const Invocation& invocation) {
  return watch_job(invocation, {.job = invocation.arguments.text("JOB")});
}

int run_job_wait(const Invocation& invocation) {
  Watch watch{.job = invocation.arguments.text("JOB"), .shows = false};
  if (invocation.arguments.has("--timeout")) {
    const auto timeout = invocation.arguments.duration("--timeout", {});
    if (!timeout) return fail(invocation, timeout.error(), kUsage);
    watch.timeout = *timeout;
  }
  return watch_job(invocation, watch);
}

}  // namespace gpunode::cli
