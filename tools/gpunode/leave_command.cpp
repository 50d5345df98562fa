// `leave`: the running node says goodbye and ends.
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"

namespace gpunode::cli {

int run_leave(const Invocation& invocation) {
  Answer answer = ask_node(invocation, "leave", nlohmann::json::object(), std::chrono::seconds(60));
  if (!answer) return fail(invocation, answer);
  if (invocation.json())
    print_json(answer.body);
  else
    print("the node has said goodbye to the cluster and ends\n");
  return kOk;
}

}  // namespace gpunode::cli
