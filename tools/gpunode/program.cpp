#include "tools/gpunode/command.hpp"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>

#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/command_line.hpp"

namespace gpunode::cli {
namespace {

// A closed standard descriptor would be given to the next file or socket that is opened, and what
// is printed would end up in there.
void keep_standard_descriptors() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor)
    if (fcntl(descriptor, F_GETFD) < 0)
      (void)!open("/dev/null", descriptor == 0 ? O_RDONLY : O_WRONLY);
}

// A reader that has seen enough, as `head` has, closes its end: no failure.
bool reader_went_away() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

// What a command printed may not have arrived: on a full disk.
int with_output_checked(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  if (reader_went_away()) return code;
  std::fprintf(stderr, "gpunode: what was to be printed could not be written to standard output\n");
  return code == kOk ? kFailed : code;
}

void prepare_process() {
  keep_standard_descriptors();
  // Vectors of mebibytes come and go with every step: glibc would map, fault and unmap each.
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
    return with_output_checked(invocation.command->run(invocation));
  } catch (const std::exception& error) {  // of the standard library and of the JSON library
    return fail(invocation, {ErrorCode::internal, error.what()});
  }
}

}  // namespace gpunode::cli
