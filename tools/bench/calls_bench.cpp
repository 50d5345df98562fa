// gpunode-bench-calls: calls from one node to another, in two processes, against a bare round trip
// of libzmq with CURVE between the same two in the same run. They take turns, so that whatever else
// the machine does hits both alike.
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "tools/bench/bench_node.hpp"
#include "tools/bench/peers/zmq_echo.hpp"

namespace gpunode::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr auto kTimeout = std::chrono::seconds(20);
constexpr int kTurns = 20;

std::unique_ptr<Node> start(const std::string& folder, const char* name,
                            const std::string& join = {}, const std::string& token = {}) {
  NodeConfig config = config_of(folder, name);
  config.data_sets = {{"text", {folder + "/text"}}};
  config.join = join;
  config.token = token;
  return start_node(std::move(config));
}

// What the second process does: answers, until the first one is gone.
int answer(const std::string& folder) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto node = start(folder, "answers");
  auto echo = [](std::string_view text) -> Result<std::string> { return std::string(text); };
  if (!node->publish("at once", echo, Node::Run::at_once) || !node->publish("on a thread", echo))
    return 1;
  const auto token = nlohmann::json::parse(node->command("token.create", R"({"roles": "all"})"));
  const EchoPlace bare = serve_echo();
  std::cout << node->join_endpoints().at(0) << '\n'
            << token.value("token", "") << '\n'
            << bare.endpoint << '\n'
            << bare.key << '\n'
            << ::getpid() << std::endl;
  for (;;) ::pause();
}

struct Way {
  const char* name;
  std::function<bool(std::size_t bytes)> round;
  std::vector<double> microseconds = {};

  double percentile(int percent) {
    std::ranges::sort(microseconds);
    return microseconds[(microseconds.size() - 1) * static_cast<std::size_t>(percent) / 100];
  }
};

bool measure(std::vector<Way>& ways, std::size_t bytes, int rounds) {
  for (Way& way : ways) way.microseconds.clear();
  for (int turn = 0; turn <= kTurns; ++turn) {
    for (Way& way : ways) {
      for (int i = 0; i < rounds / kTurns; ++i) {
        const auto begin = SteadyClock::now();
        if (!way.round(bytes)) {
          std::fprintf(stderr, "%s: no answer\n", way.name);
          return false;
        }
        const std::chrono::duration<double, std::micro> took = SteadyClock::now() - begin;
        if (turn > 0) way.microseconds.push_back(took.count());  // the first one warms up
      }
    }
  }
  std::printf("%8zu bytes  ", bytes);
  const double bare = ways[0].percentile(50);
  for (Way& way : ways)
    std::printf("  %s %.0f us, p99 %.0f (%.2f)", way.name, way.percentile(50), way.percentile(99),
                way.percentile(50) / bare);
  std::printf("\n");
  return true;
}

double processor_seconds(clockid_t clock) {
  timespec used{};
  ::clock_gettime(clock, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

struct Rate {
  double calls_a_second = 0;
  double processor_us = 0;  // of both processes, a call: what others do meanwhile matters little
};

Rate many_calls(Node& node, const std::string& name, int callers, pid_t other) {
  clockid_t clock_of_other{};
  ::clock_getcpuclockid(other, &clock_of_other);
  const auto used = [&] {
    return processor_seconds(CLOCK_PROCESS_CPUTIME_ID) + processor_seconds(clock_of_other);
  };
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> answered{0};
  std::vector<std::jthread> threads;
  const std::string request(64, 'x');
  const double before = used();
  const auto begin = SteadyClock::now();
  for (int i = 0; i < callers; ++i)
    threads.emplace_back([&] {
      while (!over)
        if (node.call(name, request, kTimeout)) ++answered;
    });
  std::this_thread::sleep_for(std::chrono::seconds(3));
  const std::chrono::duration<double> took = SteadyClock::now() - begin;
  const auto calls = static_cast<double>(answered);
  const Rate rate{calls / took.count(), (used() - before) / calls * 1e6};
  over = true;
  return rate;
}

// A job of both nodes whose steps are little else than 25 MB of gradients between the two.
constexpr const char* kJob = R"(name = "busy"
nodes = 2
[data]
set = "text"
[model]
kind = "gpt"
layers = 4
heads = 4
channels = 256
context = 16
[train]
steps = 1000000
batch = 2
slices = 2
[checkpoint]
every = 1000000
)";

bool beside_a_job(Node& node, std::vector<Way>& ways) {
  using nlohmann::json;
  const auto started =
      json::parse(node.command("train", json{{"job_file", kJob}, {"directory", "/"}}.dump()));
  if (!started.value("ok", false)) {
    std::fprintf(stderr, "%s\n", started.dump().c_str());
    return false;
  }
  const auto steps = [&] {
    const auto told = json::parse(node.command("job.progress", R"({"job": "busy"})"));
    const bool both = told.value("members", json::array()).size() == 2;
    return both ? told.value("step", std::uint64_t{0}) : 0;
  };
  const auto until = SteadyClock::now() + kTimeout;
  while (steps() < 5 && SteadyClock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::uint64_t before = steps();
  const auto begin = SteadyClock::now();
  if (before < 5 || !measure(ways, 64, 4'000)) return false;
  const std::chrono::duration<double> took = SteadyClock::now() - begin;
  std::printf("meanwhile the job did %.1f steps/s\n",
              static_cast<double>(steps() - before) / took.count());
  return true;
}

int ask(const std::string& folder) {
  std::ofstream(folder + "/text") << std::string(100'000, 'x');
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  FILE* other = ::popen(("exec " + program + " answer " + folder).c_str(), "r");
  if (!other) return 1;
  std::string told[5];
  for (std::string& line : told)
    for (int byte = std::fgetc(other); byte != '\n' && byte != EOF; byte = std::fgetc(other))
      line.push_back(static_cast<char>(byte));
  auto node = start(folder, "asks", told[0].substr(told[0].find("//") == std::string::npos ? 0 : 6),
                    told[1]);
  EchoCaller bare({told[2], told[3]});
  const auto of = [&](const char* name) {
    return [&node, name](std::size_t bytes) {
      const auto answer = node->call(name, std::string(bytes, 'x'), kTimeout);
      if (!answer) std::fprintf(stderr, "%s\n", answer.error().message().c_str());
      return answer && answer->size() == bytes;
    };
  };
  std::vector<Way> ways;
  ways.push_back({"bare", [&](std::size_t bytes) { return bare.round(bytes); }});
  ways.push_back({"at once", of("at once")});
  ways.push_back({"on a thread", of("on a thread")});
  std::printf("p50 and p99 of a round trip, and p50 as a part of bare libzmq's with CURVE\n");
  if (!measure(ways, 64, 10'000)) return 1;
  for (const std::size_t kib : {4, 16, 32, 64, 128, 256, 512, 1024})
    if (!measure(ways, kib << 10, 400)) return 1;
  for (const char* name : {"at once", "on a thread"}) {
    const Rate rate = many_calls(*node, name, 64, std::stoi(told[4]));
    std::printf("64 callers, %s: %.0f calls/s, each %.1f us of the processors\n", name,
                rate.calls_a_second, rate.processor_us);
  }
  std::printf("beside a job of both nodes:\n");
  if (!beside_a_job(*node, ways)) return 1;
  node->leave();
  return 0;
}

}  // namespace
}  // namespace gpunode::bench

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "answer") return gpunode::bench::answer(argv[2]);
  char folder[] = "/tmp/gpunode-bench-XXXXXX";
  if (!mkdtemp(folder)) return 1;
  const int status = gpunode::bench::ask(folder);
  std::filesystem::remove_all(folder);
  return status;
}
