#include "tools/bench/rank_network.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "tools/bench/contender.hpp"

namespace gpunode::bench {

namespace {

constexpr std::uint64_t kLeastBurst = 128 << 10;  // two of the largest packets
constexpr double kBurstSeconds = 1e-3;            // what the bucket holds: more than a timer's turn

std::vector<std::string> enter_process(pid_t process) {
  return {"nsenter", "-t", std::to_string(process), "-n", "--"};
}

// Of the calling process's namespace.
bool choose_congestion_control(const std::string& name) {
  if (name.empty()) return true;
  const int file = open("/proc/sys/net/ipv4/tcp_congestion_control", O_WRONLY | O_CLOEXEC);
  const bool done =
      file >= 0 && write(file, name.data(), name.size()) == static_cast<ssize_t>(name.size());
  if (file >= 0) close(file);
  return done;
}

// Runs a command in a process's namespace; its words are split at spaces.
Result<void> run_in(pid_t process, const std::string& command) {
  std::vector<std::string> words = enter_process(process);
  std::istringstream stream(command);
  for (std::string word; stream >> word;) words.push_back(word);
  const pid_t child = start_process(words);
  int status = 1;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
    return Error{ErrorCode::unsupported,
                 "`" + command + "` fails: install iproute2 and util-linux, and run as root"};
  return {};
}

}  // namespace

RankNetwork::~RankNetwork() {
  for (const pid_t process : held_) {
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
  }
}

Result<pid_t> RankNetwork::hold_namespace(const std::string& congestion) {
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0) return Error{ErrorCode::io_error, "no pipe"};
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const bool made = getppid() == parent && unshare(CLONE_NEWNET) == 0;
    const char answer = !made ? 'n' : choose_congestion_control(congestion) ? 'y' : 'c';
    (void)!write(ready[1], &answer, 1);
    for (;;) pause();
  }
  close(ready[1]);
  char answer = 'n';
  if (child > 0) {
    held_.push_back(child);
    (void)!read(ready[0], &answer, 1);
  }
  close(ready[0]);
  if (answer == 'c')
    return Error{ErrorCode::unsupported,
                 "TCP's congestion control cannot be set to " + congestion +
                     ": /proc/sys/net/ipv4/tcp_allowed_congestion_control names what can be"};
  if (answer != 'y')
    return Error{ErrorCode::permission_denied, "no network namespace can be made: run as root"};
  return child;
}

Result<std::unique_ptr<RankNetwork>> RankNetwork::create(const Options& options) {
  std::unique_ptr<RankNetwork> network(new RankNetwork(options.ranks));
  auto bridge = network->hold_namespace(options.congestion);
  if (!bridge) return bridge.error();
  network->bridge_ = *bridge;
  std::vector<std::pair<pid_t, std::string>> commands = {
      {*bridge, "ip link add bridge0 type bridge"}, {*bridge, "ip link set bridge0 up"}};
  const auto burst = std::max(
      kLeastBurst,
      static_cast<std::uint64_t>(kBurstSeconds / 8 * static_cast<double>(options.bits_a_second)));
  for (std::uint32_t machine = 0; machine < options.machines; ++machine) {
    auto held = network->hold_namespace(options.congestion);
    if (!held) return held.error();
    network->machines_.push_back(*held);
    const std::string port = "port" + std::to_string(machine);
    commands.insert(
        commands.end(),
        {{*bridge,
          "ip link add " + port + " type veth peer name eth0 netns " + std::to_string(*held)},
         {*bridge, "ip link set " + port + " master bridge0 up"},
         {*held, "ip addr add " + address(machine) + "/24 dev eth0"},
         {*held, "ip link set lo up"},
         {*held, "ip link set eth0 up"},
         {*held, "tc qdisc add dev eth0 root tbf rate " + std::to_string(options.bits_a_second) +
                     "bit burst " + std::to_string(burst) + " limit 16777216"}});
  }
  for (const auto& [process, command] : commands)
    if (auto done = run_in(process, command); !done) return done.error();
  return network;
}

std::vector<std::string> RankNetwork::enter(std::uint32_t rank) const {
  return enter_process(machines_[machine_of(rank, ranks_, machines())]);
}

std::string RankNetwork::address(std::uint32_t machine) {
  return "10.231.7." + std::to_string(machine + 1);
}

}  // namespace gpunode::bench
