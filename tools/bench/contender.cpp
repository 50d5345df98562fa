#include "tools/bench/contender.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

namespace gpunode::bench {

namespace {

constexpr auto kTimeout = std::chrono::seconds(30);  // and a second a million floats
constexpr auto kEndTimeout = std::chrono::seconds(5);

volatile std::sig_atomic_t stop_wanted = 0;

}  // namespace

pid_t start_process(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  const int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, STDIN_FILENO);
  // What a peer prints is not ours to show; set GPUNODE_BENCH_VERBOSE to see it.
  if (!std::getenv("GPUNODE_BENCH_VERBOSE")) {
    dup2(nothing, STDOUT_FILENO);
    dup2(nothing, STDERR_FILENO);
  }
  execvp(words[0], words.data());
  _exit(127);
}

void watch_interrupts() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP})
    std::signal(number, [](int) { stop_wanted = 1; });
}

bool interrupted() {
  return stop_wanted != 0;
}

Contender::Contender(ContenderSpec spec, std::unique_ptr<RankBoard> board)
    : spec_(std::move(spec)), board_(std::move(board)) {}

Result<std::unique_ptr<Contender>> Contender::start(ContenderSpec spec, std::uint32_t ranks) {
  auto board = RankBoard::create(ranks);
  if (!board) return board.error();
  std::unique_ptr<Contender> contender(new Contender(std::move(spec), std::move(*board)));
  const std::uint32_t processes = contender->spec_.one_command ? 1 : ranks;
  for (std::uint32_t rank = 0; rank < processes; ++rank) {
    std::vector<std::string> command;
    if (rank < contender->spec_.prefix.size()) command = contender->spec_.prefix[rank];
    for (const std::string& word : contender->spec_.command) command.push_back(word);
    command.push_back(contender->board_->folder());
    if (!contender->spec_.one_command) command.push_back(std::to_string(rank));
    const pid_t process = start_process(command);
    if (process < 0)
      return Error{ErrorCode::io_error, "cannot start a process for " + contender->spec_.name};
    contender->processes_.push_back(process);
  }
  return contender;
}

Contender::~Contender() {
  if (!failure_)
    (void)board_->carry_out({.kind = Order::Kind::quit}, kEndTimeout, [this] { return alive(); });
  // A clean end takes a library a moment.
  const auto deadline = std::chrono::steady_clock::now() + (failure_ ? Duration{} : kEndTimeout);
  while (!processes_.empty()) {
    const bool late = std::chrono::steady_clock::now() >= deadline;
    std::erase_if(processes_, [&](pid_t process) {
      if (late) kill(process, spec_.one_command ? SIGTERM : SIGKILL);
      return waitpid(process, nullptr, late ? 0 : WNOHANG) != 0;
    });
    if (!processes_.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::string Contender::label(std::uint32_t setting) const {
  const std::string& name = spec_.settings[setting];
  return name.empty() ? spec_.name : spec_.name + " " + name;
}

bool Contender::alive() {
  if (interrupted()) return false;
  for (const pid_t process : processes_) {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid != 0)
      return false;
  }
  return true;
}

Result<Spent> Contender::order(const Order& order) {
  if (failure_) return *failure_;
  auto spent = board_->carry_out(order, timeout_, [this] { return alive(); });
  if (!spent) failure_ = spent.error().within(label(order.setting));
  return failure_ ? Result<Spent>(*failure_) : spent;
}

Result<void> Contender::prepare(std::uint64_t element_count, std::uint32_t setting) {
  timeout_ = kTimeout + std::chrono::seconds(element_count / 1'000'000);
  auto done =
      order({.kind = Order::Kind::prepare, .setting = setting, .element_count = element_count});
  if (!done) return done.error();
  return {};
}

Result<Spent> Contender::sample(std::uint32_t setting, std::uint32_t warm_up, std::uint32_t batch) {
  return order({.kind = Order::Kind::run, .setting = setting, .warm_up = warm_up, .batch = batch});
}

void Contender::release(std::uint32_t setting) {
  (void)order({.kind = Order::Kind::release, .setting = setting});
}

}  // namespace gpunode::bench
