// `metrics`: the node's figures as a Prometheus collector reads them.
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"

namespace gpunode::cli {

int run_metrics(const Invocation& invocation) {
  return tell_lines(invocation, ask_node(invocation, "metrics"), "text");
}

}  // namespace gpunode::cli
