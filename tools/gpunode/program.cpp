#include "tools/gpunode/command.hpp"

#include <malloc.h>

#include <csignal>
#include <exception>

#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/command_line.hpp"

namespace gpunode::cli {
namespace {

void prepare_process() {
  // A chunk that arrives is one allocation of a mebibyte: glibc would map, fault and unmap each.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace

int run_program(int argc, char** argv, const Platform& platform) {
  prepare_process();
  std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  bool json = false;
  for (const std::string& word : words) json = json || word == "--json";
  Invocation invocation;
  if (json) invocation.arguments.add("--json", "");
  auto parsed = parse_command_line(std::move(words));
  if (!parsed) return fail(invocation, parsed.error(), kUsage);
  invocation = std::move(*parsed);
  invocation.platform = &platform;
  try {
    return invocation.command->run(invocation);
  } catch (const std::exception& error) {  // of the standard library and of the JSON library
    return fail(invocation, {ErrorCode::internal, error.what()});
  }
}

}  // namespace gpunode::cli
