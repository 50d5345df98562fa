// gpunode-bench-parts: a token of a model that is served whole, in two parts and in three, on as many nodes
// of one machine, in turns: what a part on another node costs. The parts compute one after the other, so
// that nothing of it is gained by more cores.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "actors/checkpoint/stored_model.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "tools/bench/bench_node.hpp"

namespace gpunode::bench {
namespace {

using nlohmann::json;
constexpr std::size_t kNodes = 3;
constexpr int kRounds = 7, kTokens = 60;
constexpr auto kWait = std::chrono::seconds(30);

struct Shape {
  const char* layers;
  const char* channels;
};
constexpr std::array kShapes{Shape{"6", "128"}, Shape{"12", "768"}};

void write_model(const std::string& path, const Shape& shape) {
  checkpoint::StoredModel stored;
  stored.model = std::move(*model::make_model("gpt", {{"layers", shape.layers},
                                                      {"heads", "4"},
                                                      {"channels", shape.channels},
                                                      {"context", "128"}}));
  stored.weights.resize(stored.model->parameter_count());
  stored.model->initialise(1, stored.weights);
  storage::PosixFileSystem files;
  if (auto done = checkpoint::save_model(files, stored, path); !done)
    give_up(done.error().message());
}

class Cluster {
 public:
  explicit Cluster(const std::string& folder) : folder_(folder) {
    nodes_.push_back(start_node(config_of(folder, "0")));
    const std::string token =
        command(*nodes_[0], "token.create", {{"roles", "all"}, {"uses", kNodes - 1}})
            .value("token", "");
    for (std::size_t at = 1; at < kNodes; ++at) {
      NodeConfig config = config_of(folder, std::to_string(at));
      config.join = nodes_[0]->join_endpoints().at(0);
      config.token = token;
      nodes_.push_back(start_node(std::move(config)));
    }
  }
  static std::string name_of(std::size_t parts) { return "in" + std::to_string(parts); }
  void serve(std::size_t parts) {
    for (std::size_t part = parts; part > 0; --part) {
      json order = {{"path", folder_ + "/model"}, {"name", name_of(parts)}};
      if (parts > 1) order["part"] = std::to_string(part) + "/" + std::to_string(parts);
      command(*nodes_[part - 1], "serve", order);
    }
    for (const auto until = std::chrono::steady_clock::now() + kWait;;) {
      const json told = json::parse(nodes_[0]->command("generate", order(parts, 1).dump()));
      if (told.value("ok", false)) return;
      if (std::chrono::steady_clock::now() > until) give_up(told.dump());
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  // Milliseconds a token.
  double token(std::size_t parts) {
    const json told = command(*nodes_[0], "generate", order(parts, kTokens));
    return told.value("seconds", 0.0) * 1e3 / told.value("tokens", 1);
  }

 private:
  static json order(std::size_t parts, int tokens) {
    return {
        {"model", name_of(parts)}, {"prompt", "a"}, {"max_tokens", tokens}, {"temperature", 0.0}};
  }
  std::string folder_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void measure(const std::string& folder, const Shape& shape) {
  write_model(folder + "/model", shape);
  Cluster cluster(folder);
  for (std::size_t parts = 1; parts <= kNodes; ++parts) cluster.serve(parts);
  std::array<std::vector<double>, kNodes> times;
  for (int round = 0; round <= kRounds; ++round)
    for (std::size_t parts = 1; parts <= kNodes; ++parts) {
      const double time = cluster.token(parts);
      if (round > 0) times[parts - 1].push_back(time);  // the first warms up
    }
  const double alone = median(times[0]);
  std::printf("%s layers of %s channels: %.3f ms a token", shape.layers, shape.channels, alone);
  for (std::size_t parts = 2; parts <= kNodes; ++parts) {
    const double time = median(times[parts - 1]);
    std::printf("; in %zu parts %.3f ms, %.3f ms a part more", parts, time,
                (time - alone) / static_cast<double>(parts - 1));
  }
  std::printf("\n");
}

}  // namespace
}  // namespace gpunode::bench

int main() {
  using namespace gpunode;
  const std::string folder =
      (std::filesystem::temp_directory_path() / "gpunode-bench-parts").string();
  for (const bench::Shape& shape : bench::kShapes) {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    bench::measure(folder, shape);
  }
  std::filesystem::remove_all(folder);
}
