// `leave`: the running node hands its jobs over, says goodbye and ends; waited for here.
#include <thread>

#include "runtime/storage/posix_file_system.hpp"
#include "runtime/storage/state_directory.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"

namespace gpunode::cli {
namespace {

constexpr auto kAskEvery = std::chrono::milliseconds(100);
constexpr auto kLeaves = std::chrono::seconds(60);

// Until the node has let go of its state directory: its jobs are handed over, and it can be started
// again.
Answer await_end(const Invocation& invocation) {
  storage::PosixFileSystem files;
  const auto by = std::chrono::steady_clock::now() + kLeaves;
  while (std::chrono::steady_clock::now() < by) {
    if (!storage::StateDirectory::in_use(files, invocation.state())) return {};
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
  const auto unsaved = field<std::vector<std::string>>(answer.body, "unsaved", {});
  if (answer) answer = await_end(invocation);
  if (!answer) return fail(invocation, answer);
  for (const std::string& job : unsaved)
    warn("the disk had not taken the result of job '" + job +
         "' when this was ordered: `gpunode checkpoint ls` tells whether it has since");
  if (invocation.json())
    print_json({{"unsaved", unsaved}});
  else
    print("the node has let go of its jobs and left the cluster\n");
  return kOk;
}

}  // namespace gpunode::cli
