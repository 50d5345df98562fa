#include "runtime/island/detail/rank_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>
#include <thread>

#include "runtime/base/descriptor.hpp"

namespace gpunode::island {
namespace {

constexpr int kEndPatienceMs = 2000;
constexpr int kAbove = 10;  // descriptors that the child's own do not overwrite

Error failure(const char* what) {
  return {ErrorCode::resource_exhausted, std::string(what) + ": " + std::strerror(errno)};
}

// A moment, where the system can tell.
void await_end(pid_t pid) {
  const Descriptor handle(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (handle.get() < 0) return;
  pollfd end{handle.get(), POLLIN, 0};
  while (poll(&end, 1, kEndPatienceMs) < 0 && errno == EINTR) continue;
}

void reap_later(pid_t pid) {
  try {
    std::thread([pid] {
      while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
    }).detach();
  } catch (const std::system_error&) {  // no thread left: its entry stays until this program ends
  }
}

// The node's environment but for its join token, which no other process needs.
std::vector<char*> environment() {
  std::vector<char*> kept;
  for (char** one = environ; one && *one; ++one)
    if (!std::string_view(*one).starts_with("GPUNODE_TOKEN=")) kept.push_back(*one);
  kept.push_back(nullptr);
  return kept;
}

}  // namespace

Result<std::unique_ptr<RankProcess>> RankProcess::start(const std::vector<std::string>& command,
                                                        std::size_t element_count) {
  std::unique_ptr<RankProcess> process(new RankProcess());
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return failure("no socket pair");
  process->control_ = ends[0];
  Descriptor given(ends[1]);
  Descriptor theirs(fcntl(given.get(), F_DUPFD_CLOEXEC, kAbove));
  Descriptor made(memfd_create("gpunode-nccl", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  Descriptor memory(made.get() < 0 ? -1 : fcntl(made.get(), F_DUPFD_CLOEXEC, kAbove));
  if (theirs.get() < 0 || memory.get() < 0) return failure("no shared memory");
  const std::size_t bytes = std::max<std::size_t>(element_count, 1) * sizeof(float);
  // Of fixed size: neither side can make the other's memory vanish.
  if (ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return failure("no shared memory for a gradient");
  void* place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (place == MAP_FAILED) return failure("no shared memory for a gradient");
  process->vector_ = {static_cast<float*>(place), element_count};
  if (auto spawned = process->spawn(command, theirs.get(), memory.get()); !spawned)
    return spawned.error();
  return process;
}

Result<void> RankProcess::spawn(const std::vector<std::string>& command, int control, int memory) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, control, kControlDescriptor);
  posix_spawn_file_actions_adddup2(&actions, memory, kMemoryDescriptor);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);  // of NCCL's log
  posix_spawn_file_actions_addclosefrom_np(&actions, kMemoryDescriptor + 1);
  // A group of its own: Ctrl-C is for the node, which ends it in order.
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  std::vector<char*> variables = environment();
  const int code =
      posix_spawn(&pid_, words[0], &actions, &attributes, words.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (code == 0) return {};
  pid_ = -1;
  return {code == ENOENT ? ErrorCode::not_found : ErrorCode::resource_exhausted,
          "cannot start " + command.front() + ": " + std::strerror(code)};
}

RankProcess::~RankProcess() {
  if (control_ >= 0) close(control_);
  if (vector_.data())
    munmap(vector_.data(), std::max<std::size_t>(vector_.size(), 1) * sizeof(float));
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  await_end(pid_);
  if (waitpid(pid_, nullptr, WNOHANG) == 0) reap_later(pid_);
}

bool RankProcess::send(const RankOrder& order) const {
  return ::send(control_, &order, sizeof order, MSG_NOSIGNAL) == sizeof order;
}

bool RankProcess::receive(RankAnswer& answer) const {
  ssize_t size = 0;
  do {
    size = recv(control_, &answer, sizeof answer, 0);
  } while (size < 0 && errno == EINTR);
  return size == sizeof answer;
}

std::string RankProcess::how_it_ended() {
  int status = 0;
  await_end(pid_);  // its socket closes a little earlier
  if (waitpid(pid_, &status, WNOHANG) != pid_) return {};
  pid_ = -1;
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return "exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace gpunode::island
