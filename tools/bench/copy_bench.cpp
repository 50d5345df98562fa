// gpunode-bench-copy: a model that three nodes serve is taken by a fourth one, against as many bytes as
// answers of calls to the same three in the same run, which are thrown away: how fast the links between
// these processes are. They take turns.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "actors/checkpoint/stored_model.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/base/log.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "tools/bench/bench_node.hpp"

namespace gpunode::bench {
namespace {

using nlohmann::json;
using SteadyClock = std::chrono::steady_clock;
constexpr int kHolders = 3, kRounds = 3, kAtOnce = 4 * kHolders;
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
constexpr auto kTimeout = std::chrono::seconds(60);

std::unique_ptr<Node> start(const std::string& folder, const std::string& name,
                            const std::string& join, const std::string& token) {
  NodeConfig config = config_of(folder, name);
  config.join = join;
  config.token = token;
  return start_node(std::move(config));
}

// One of the three: gives bytes and, once it has it, the model; until the first one is gone.
int hold(const std::string& folder, const std::string& name, const std::string& join,
         const std::string& token) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto node = start(folder, name, join, token);
  const std::string bytes(kPieceBytes, 'x');
  const auto give = [&](std::string_view) -> Result<std::string> { return bytes; };
  if (!node->publish("bytes", give)) return 1;
  command(*node, "serve", {{"path", folder + "/model"}, {"name", "m"}});
  std::ofstream(folder + "/" + name + ".ready") << "";
  for (;;) ::pause();
}

void write_model(const std::string& path, int layers) {
  checkpoint::StoredModel stored;
  stored.model = std::move(*model::make_model(
      "gpt", {{"layers", std::to_string(layers)}, {"heads", "16"}, {"channels", "1024"}}));
  stored.weights.resize(stored.model->parameter_count());
  for (std::size_t at = 0; at < stored.weights.size(); ++at)
    stored.weights[at] = static_cast<float>(at % 977) * 1e-4f;
  storage::PosixFileSystem files;
  if (auto done = checkpoint::save_model(files, stored, path); !done)
    give_up(done.error().message());
}

double seconds_since(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

// As many bytes as calls bring them.
double by_calls(Node& node, std::size_t pieces) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  const auto begin = SteadyClock::now();
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < kAtOnce; ++i)
      callers.emplace_back([&] {
        while (next++ < pieces)
          if (!node.call("bytes", "", kTimeout)) failed = true;
      });
  }
  if (failed) give_up("a call was not answered");
  return seconds_since(begin);
}

std::atomic<double> copied_in{0};  // seconds, as the node's log tells them

double by_copy(Node& node, const std::string& folder) {
  copied_in = 0;
  const json told = command(node, "serve", {{"name", "m"}, {"copy", true}});
  // It is kept on the disk meanwhile, which the next measurement is not to feel.
  const std::filesystem::path kept = folder + "/takes/models/" + told.value("digest", "");
  const auto until = SteadyClock::now() + kTimeout;
  while (!std::filesystem::exists(kept) && SteadyClock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  command(node, "unserve", {{"model", "m"}});
  return copied_in;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

int take(const std::string& program, const std::string& folder, int layers) {
  write_model(folder + "/model", layers);
  const auto bytes = std::filesystem::file_size(folder + "/model");
  auto node = start(folder, "takes", "", "");
  const std::string token =
      command(*node, "token.create", {{"roles", "all"}, {"uses", kHolders}}).value("token", "");
  for (int i = 0; i < kHolders; ++i) {
    if (::fork() != 0) continue;
    const std::string name = "holder" + std::to_string(i);
    ::execl(program.c_str(), program.c_str(), "hold", folder.c_str(), name.c_str(),
            node->join_endpoints().at(0).c_str(), token.c_str(), nullptr);
    ::_exit(127);
  }
  for (int i = 0; i < kHolders; ++i)
    while (!std::filesystem::exists(folder + "/holder" + std::to_string(i) + ".ready"))
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::this_thread::sleep_for(std::chrono::seconds(2));
  std::vector<double> calls, copies, ratios;
  for (int round = 0; round <= kRounds; ++round) {
    const double by_call = by_calls(*node, bytes / kPieceBytes), copy = by_copy(*node, folder);
    if (copy == 0) give_up("the node did not tell how long it took");
    if (round == 0) continue;  // warms up
    calls.push_back(by_call);
    copies.push_back(copy);
    ratios.push_back(by_call / copy);
  }
  const auto rate = [&](double seconds) { return static_cast<double>(bytes) / seconds / 1e6; };
  std::printf(
      "%zu MB from %d nodes: %.0f MB/s; as answers of calls %.0f MB/s; %.2f of it [%.2f to %.2f]\n",
      static_cast<std::size_t>(bytes / 1'000'000), kHolders, rate(median(copies)),
      rate(median(calls)), median(ratios), *std::ranges::min_element(ratios),
      *std::ranges::max_element(ratios));
  return 0;
}

}  // namespace
}  // namespace gpunode::bench

int main(int argc, char** argv) {
  using namespace gpunode;
  if (argc > 5 && std::string_view(argv[1]) == "hold")
    return bench::hold(argv[2], argv[3], argv[4], argv[5]);
  const int layers = argc > 1 ? std::atoi(argv[1]) : 20;  // of 50 MB each
  if (layers < 1) {
    std::fprintf(stderr, "usage: gpunode-bench-copy [LAYERS]: of 50 MB each, 20 without a word\n");
    return 2;
  }
  log::set_sink([](const log::Record& record) {
    double seconds = 0;
    const std::size_t at = record.text.rfind(" nodes in ");
    if (at != std::string::npos &&
        std::sscanf(record.text.c_str() + at, " nodes in %lf s", &seconds) == 1)
      bench::copied_in = seconds;
  });
  const std::string folder =
      (std::filesystem::temp_directory_path() / "gpunode-bench-copy").string();
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const int status =
      bench::take(std::filesystem::read_symlink("/proc/self/exe").string(), folder, layers);
  std::filesystem::remove_all(folder);
  return status;
}
