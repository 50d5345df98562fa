// `metrics`: the node's figures as a Prometheus collector reads them.
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"

namespace gpunode::cli {

int run_metrics(const Invocation& invocation) {
  Answer answer = ask_node(invocation, "metrics");
  if (!answer) return fail(invocation, answer);
  if (invocation.json())
    print_json(answer.body);
  else
    print(field<std::string>(answer.body, "text", ""));
  return kOk;
}

}  // namespace gpunode::cli
