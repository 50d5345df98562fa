// `leave`: the running node hands its jobs over, says goodbye and ends.
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"

namespace gpunode::cli {

int run_leave(const Invocation& invocation) {
  Answer answer = ask_node(invocation, "leave", {{"anyway", invocation.arguments.has("--anyway")}},
                           std::chrono::seconds(60));
  // A node that ends faster than it answers has left all the same.
  if (!answer && answer.error->code == ErrorCode::peer_lost) answer = Answer();
  if (!answer) return fail(invocation, answer);
  if (invocation.json())
    print_json(answer.body.is_object() ? answer.body : nlohmann::json::object());
  else
    print("the node hands its jobs over, says goodbye to the cluster and ends\n");
  return kOk;
}

}  // namespace gpunode::cli
