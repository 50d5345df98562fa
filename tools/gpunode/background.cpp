#include "tools/gpunode/background.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "runtime/storage/file_system.hpp"

namespace gpunode::cli {
namespace {

// Waits until the child says that it is up, or ends without a word.
int wait_for_child(pid_t child, int pipe) {
  char byte = 0;
  ssize_t got = 0;
  do {
    got = read(pipe, &byte, 1);
  } while (got < 0 && errno == EINTR);
  close(pipe);
  if (got == 1) return 0;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) return WEXITSTATUS(status) == 0 ? 1 : WEXITSTATUS(status);
  std::fprintf(stderr, "gpunode: the node was ended by signal %d while it started\n",
               WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  return 1;
}

}  // namespace

Result<Background::Begun> Background::begin() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return storage::error_of_errno(errno, "cannot make a pipe for", "the background");
  std::fflush(nullptr);
  pid_t child = fork();
  if (child < 0) return storage::error_of_errno(errno, "cannot start a process for", "the node");
  Begun begun;
  if (child > 0) {
    close(ends[1]);
    begun.exit_code = wait_for_child(child, ends[0]);
  } else {
    close(ends[0]);
    begun.child = std::make_unique<Background>(ends[1]);
  }
  return begun;
}

Result<void> Background::detach() {
  int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  setsid();
  if (chdir("/") != 0) return storage::error_of_errno(errno, "cannot go to", "/");
  dup2(nothing, STDIN_FILENO);
  close(nothing);
  char up = 1;
  ssize_t written = write(pipe_, &up, 1);
  close(pipe_);
  pipe_ = -1;
  if (written != 1) return Error{ErrorCode::io_error, "the process that waited for us is gone"};
  return {};
}

Background::~Background() {
  if (pipe_ >= 0) close(pipe_);
}

}  // namespace gpunode::cli
