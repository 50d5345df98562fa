// `status`: nodes, jobs and models at a glance.
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/tables.hpp"

namespace gpunode::cli {

int run_status(const Invocation& invocation) {
  Answer all{nlohmann::json::object(), std::nullopt, kOk};
  for (const char* part : {"nodes", "jobs", "models"}) {
    Answer answer = ask_node(invocation, part);
    if (!answer) return fail(invocation, answer);
    all.body[part] = list(answer.body, part);
  }
  return tell(invocation, all, [](const nlohmann::json& answer) {
    return nodes_text(answer) + "\n" + jobs_text(answer) + "\n" + models_text(answer);
  });
}

}  // namespace gpunode::cli
