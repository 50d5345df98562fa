#include "runtime/carrier/carrier_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <string_view>

namespace gpunode::carrier {
namespace {

// A driver may take a while to take a killed process's work from its GPU.
constexpr std::chrono::milliseconds kEndTimeout = std::chrono::seconds(5);
constexpr std::chrono::milliseconds kLookTimeout = std::chrono::seconds(1);  // for how it ended

// This process's environment with some of it set, and without the join token, which no other
// process needs.
std::vector<std::string> environment(const std::vector<std::string>& settings) {
  std::vector<std::string> all = settings;
  const auto is_set = [&](std::string_view one) {
    for (const std::string& setting : settings)
      if (one.starts_with(std::string_view(setting).substr(0, setting.find('=') + 1))) return true;
    return one.starts_with("GPUNODE_TOKEN=");
  };
  for (char** one = environ; one && *one; ++one)
    if (!is_set(*one)) all.emplace_back(*one);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

std::string how(int status) {
  if (status < 0) return "ended";
  if (WIFSIGNALED(status)) return "was ended by signal " + std::to_string(WTERMSIG(status));
  return "ended with code " + std::to_string(WEXITSTATUS(status));
}

struct Buried {
  std::unique_ptr<CarrierProcess> process;
  std::function<void()> then;
};
// Those that a driver still holds; few, as a GPU whose driver hangs is given up.
std::mutex buried_mutex;
std::list<Buried>& buried() {
  static auto* list = new std::list<Buried>();  // never destroyed: the GPU may be gone before
  return *list;
}

}  // namespace

Result<std::unique_ptr<CarrierProcess>> CarrierProcess::start(
    const std::string& program, const std::vector<std::string>& settings) {
  bury(nullptr, {});
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Error{ErrorCode::resource_exhausted,
                 std::string("no pair of sockets: ") + std::strerror(errno)};
  const Descriptor theirs(ends[1]);
  std::unique_ptr<CarrierProcess> process(new CarrierProcess(Descriptor(ends[0])));
  auto spawned = process->spawn(program, settings, theirs.get());
  if (!spawned) return spawned.error();
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, process->pid_, 0));
  if (handle >= 0) process->handle_ = std::make_unique<Descriptor>(handle);
  return process;
}

Result<void> CarrierProcess::spawn(const std::string& program,
                                   const std::vector<std::string>& settings, int control) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, control, kControlDescriptor);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);  // NCCL's log
  posix_spawn_file_actions_addclosefrom_np(&actions, kControlDescriptor + 1);
  // A process group of its own: Ctrl-C is for the node, which ends it in order.
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::vector<std::string> words{program}, variables = environment(settings);
  const int code = posix_spawn(&pid_, program.c_str(), &actions, &attributes,
                               pointers(words).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (code == 0) return {};
  pid_ = -1;
  reason_ = "was never started";
  return {code == EAGAIN || code == ENOMEM ? ErrorCode::resource_exhausted : ErrorCode::unsupported,
          "cannot start " + program + ": " + std::strerror(code)};
}

CarrierProcess::~CarrierProcess() {
  end("closed");
  reap(kEndTimeout);
}

void CarrierProcess::end(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!reason_.empty()) return;
  reason_ = reason.empty() ? "no reason" : reason;
  socket_.close_both_ways();
  if (pid_ < 0) return;
  // By its handle, as somebody else in this process may have reaped it and its number be another's.
  if (handle_)
    syscall(SYS_pidfd_send_signal, handle_->get(), SIGKILL, nullptr, 0);
  else
    kill(pid_, SIGKILL);
}

bool CarrierProcess::ended() {
  const std::lock_guard lock(mutex_);
  return !reason_.empty();
}

// Whether nothing of it is left.
bool CarrierProcess::reap(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (pid_ < 0) return true;
      int status = 0;
      const pid_t done = waitpid(pid_, &status, WNOHANG);
      if (done == pid_) status_ = status;
      if (done == pid_ || (done < 0 && errno == ECHILD)) {
        pid_ = -1;
        return true;
      }
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd end{handle_ ? handle_->get() : -1, POLLIN, 0};
    poll(&end, 1, handle_ ? static_cast<int>(left.count()) : 1);
  }
}

// What a call under way fails with: the reason of whoever ended it, or else how it ended.
Error CarrierProcess::broken(const Error& cause) {
  {
    const std::lock_guard lock(mutex_);
    if (!reason_.empty()) return {ErrorCode::unavailable, reason_};
  }
  if (cause.code == ErrorCode::timeout) {
    end("it did not answer in time");
    return {ErrorCode::timeout, "the carrier process did not answer in time"};
  }
  std::string told = "its carrier process gave no sense: " + cause.detail;
  if (reap(kLookTimeout)) {
    const std::lock_guard lock(mutex_);
    told = "its carrier process " + how(status_);
  }
  end(told);
  return {ErrorCode::unavailable, told};
}

Result<Bytes> CarrierProcess::ask(Order order, Bytes body, std::chrono::milliseconds timeout) {
  {
    const std::lock_guard lock(mutex_);
    if (!reason_.empty()) return Error{ErrorCode::unavailable, reason_};
  }
  const auto now = std::chrono::steady_clock::now();
  // Far ones would not be a time.
  const Deadline deadline =
      now + std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24));
  const auto kind = static_cast<std::uint32_t>(order);
  if (auto sent = socket_.send({kind, std::move(body)}, deadline); !sent)
    return broken(sent.error());
  auto answer = socket_.receive(deadline);
  if (!answer) return broken(answer.error());
  if (answer->kind != kind) return broken({ErrorCode::corrupted, "an answer to another order"});
  auto done = read_answer(answer->body);
  if (!done && done.error().code == ErrorCode::corrupted) return broken(done.error());
  return done;
}

void CarrierProcess::bury(std::unique_ptr<CarrierProcess> process, std::function<void()> then) {
  if (process) {
    process->end("closed");
    process->reap(kEndTimeout);
  }
  std::list<Buried> gone;
  {
    const std::lock_guard lock(buried_mutex);
    std::list<Buried>& all = buried();
    if (process) all.push_back({std::move(process), std::move(then)});
    for (auto one = all.begin(); one != all.end();) {
      const auto next = std::next(one);
      if (one->process->reap(std::chrono::milliseconds::zero())) gone.splice(gone.end(), all, one);
      one = next;
    }
  }
  for (Buried& one : gone)
    if (one.then) one.then();
}

}  // namespace gpunode::carrier
