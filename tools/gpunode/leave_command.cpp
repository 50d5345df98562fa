// `leave`: the running node hands its jobs over, says goodbye and ends; waited for here.
#include <thread>

#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"

namespace gpunode::cli {
namespace {

constexpr auto kAskEvery = std::chrono::milliseconds(100);
constexpr auto kAnswers = std::chrono::seconds(10);
constexpr auto kLeaves = std::chrono::seconds(60);

// Until the node hears no commands any more: then its jobs are handed over.
Answer await_end(const Invocation& invocation) {
  const auto by = std::chrono::steady_clock::now() + kLeaves;
  while (std::chrono::steady_clock::now() < by) {
    const Answer answer = ask_node(invocation, "node.info", nlohmann::json::object(), kAnswers);
    if (!answer && answer.exit_code == kNoNode) return {};
    std::this_thread::sleep_for(kAskEvery);
  }
  return {{},
          Error{ErrorCode::timeout,
                "the node was told to leave and has not ended yet: look into its log"},
          kFailed};
}

}  // namespace

int run_leave(const Invocation& invocation) {
  Answer answer = ask_node(invocation, "leave", {{"anyway", invocation.arguments.has("--anyway")}},
                           std::chrono::seconds(60));
  // A node that ends faster than it answers has left all the same.
  if (!answer && answer.error->code == ErrorCode::peer_lost) answer = Answer();
  if (answer) answer = await_end(invocation);
  if (!answer) return fail(invocation, answer);
  if (invocation.json())
    print_json(nlohmann::json::object());
  else
    print("the node has let go of its jobs and left the cluster\n");
  return kOk;
}

}  // namespace gpunode::cli
