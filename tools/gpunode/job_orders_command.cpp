// `job stop`, `job resume`, `job recover`, `job rm`: orders about a job; each answers when it is carried out,
// or says what it waits for.
#include <csignal>

#include "actors/job/job_phase.hpp"
#include "actors/job/timeouts.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/follow.hpp"

namespace gpunode::cli {
namespace {

using nlohmann::json;

// Which job was meant.
std::string meant_text(const json& answer) {
  return field<std::string>(answer, "shown_as", word(answer, "name"));
}

std::string removed_text(const json& answer) {
  std::string text = word(answer, "name") + " (" + word(answer, "job").substr(0, 8) +
                     ") is removed from " + joined(list(answer, "removed_on")) + "\n";
  for (const json& one : list(answer, "missing"))
    text += "  not from " + word(one, "node") + ": " + word(one, "reason") + "\n";
  return text;
}

std::string text_of(const std::string& order, bool from, const json& answer) {
  const std::string name = meant_text(answer);
  const std::string step = number(answer, "step");
  if (order == "job stop")
    return name + " is stopped after step " + step + "; `gpunode job resume " + name +
           "` goes on from there\n";
  // Steps have been made since, so that `step` may be one or more later.
  const std::string with = " after step " + number(answer, "base_step") +
                           (from ? ", from its checkpoint," : "") + " with " +
                           joined(list(answer, "members")) + "\n";
  if (order == "job resume" && field<std::string>(answer, "phase", "") == "preparing")
    return name + " failed here and begins again on this node; `gpunode job show " + name +
           "` tells how it goes on\n";
  if (order == "job resume") return name + " goes on" + with;
  const std::string generation = "generation " + number(answer, "generation");
  if (field<std::string>(answer, "phase", "") == to_string(jobs::JobPhase::stopped))
    return name + " is " + generation + " now, and still stopped after step " + step +
           "; `gpunode job resume " + name + "` goes on from there\n";
  return name + " goes on as " + generation + with;
}

bool waits(const Invocation& invocation, const std::string& job) {
  const Answer answer = ask_node(invocation, "job.find", {{"job", job}});
  return answer && field<bool>(answer.body, "waits", false);
}

}  // namespace

int run_job_stop(const Invocation& invocation) {
  const std::string order = invocation.command->name;
  const std::string job = invocation.arguments.text("JOB");
  const bool force = invocation.arguments.has("--force");
  if (order == "job recover" && !force && waits(invocation, job))
    return fail(invocation,
                Error{ErrorCode::wrong_state, "job '" + job +
                                                  "' waits in the queue, and nothing "
                                                  "of it is to be recovered; `gpunode job rm " +
                                                  job + "` takes it out"});
  if (order == "job recover" && !force)
    return fail(invocation,
                Error{ErrorCode::invalid_argument,
                      "this gives up on every node that does not answer, and on what only they "
                      "have done; if they are lost for good: gpunode job recover " +
                          job + " --force"},
                kUsage);
  json arguments = {{"job", job}};
  if (force) arguments["force"] = true;
  if (invocation.arguments.has("--anew")) arguments["anew"] = true;
  const bool from = invocation.arguments.has("--from");
  if (from) {
    const auto step = invocation.arguments.whole("--from", 0, 0, UINT64_MAX);
    if (!step) return fail(invocation, step.error(), kUsage);
    arguments["from"] = *step;
  }
  const Interrupts interrupts;
  const Answer answer =
      ask_node(invocation, "job." + order.substr(4), arguments, jobs::kOrderTimeout);
  if (!answer && Interrupts::any()) {
    warn("the order stands, and is carried out when it can be; `gpunode job show " + job +
         "` tells of it");
    return 128 + SIGINT;
  }
  return tell(invocation, answer, [&](const json& answer) { return text_of(order, from, answer); });
}

int run_job_rm(const Invocation& invocation) {
  json arguments = {{"job", invocation.arguments.text("JOB")}};
  if (invocation.arguments.has("--force")) arguments["force"] = true;
  return tell(invocation, ask_node(invocation, "job.rm", arguments, jobs::kOrderTimeout),
              removed_text);
}

}  // namespace gpunode::cli
