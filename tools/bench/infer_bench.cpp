// gpunode-bench-infer: what a request for a row costs on top of the model itself, in three ways, each
// against a named baseline of the same run: a call to a model of the same process against the bare
// function, a call to one of another process against a bare round trip of libzmq with CURVE, and
// KServe's infer over HTTP against an echo by cpp-httplib. All take turns, so that whatever else the
// machine does hits them alike; HTTP on one core and on two.
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>
#include <vector>

#include "actors/checkpoint/stored_model.hpp"
#include "actors/inference/infer_codec.hpp"
#include "actors/inference/tensors.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/model_code.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "tools/bench/bench_node.hpp"
#include "tools/bench/peers/http_echo.hpp"
#include "tools/bench/peers/zmq_echo.hpp"
#include "tools/gpunode/http_asker.hpp"

namespace gpunode::bench {
namespace {

using nlohmann::json;
using SteadyClock = std::chrono::steady_clock;

constexpr auto kTimeout = std::chrono::seconds(20);
constexpr int kTurns = 20, kRounds = 4'000;
constexpr std::size_t kFeatures = 16, kClasses = 4;
constexpr double kMostAddedUs = 20, kMostOfBare = 1.5;  // the bars

std::unique_ptr<Node> start(const std::string& folder, const std::string& name,
                            const std::string& join, const std::string& token) {
  NodeConfig config = config_of(folder, name);
  config.join = join;
  config.token = token;
  if (join.empty()) config.http = "127.0.0.1:0";
  return start_node(std::move(config));
}

checkpoint::StoredModel made_model() {
  checkpoint::StoredModel stored;
  stored.model = std::move(*model::make_model("mlp", {{"features", std::to_string(kFeatures)},
                                                      {"classes", std::to_string(kClasses)},
                                                      {"hidden", "64"}}));
  stored.weights.resize(stored.model->parameter_count());
  stored.model->initialise(1, stored.weights);
  return stored;
}

// What the second process does: answers, until the first one is gone.
int answer(const std::string& folder) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto node = start(folder, "answers", "", "");
  command(*node, "serve", {{"path", folder + "/model"}, {"name", "far"}});
  const EchoPlace bare = serve_echo();
  std::cout << node->join_endpoints().at(0) << '\n'
            << command(*node, "token.create", {{"roles", "all"}}).value("token", "") << '\n'
            << bare.endpoint << '\n'
            << bare.key << '\n'
            << node->http_endpoint() << '\n'
            << serve_http_echo() << '\n'
            << ::getpid() << std::endl;
  for (;;) ::pause();
}

// Where a way's two sides run, as the scheduler's own choice is now the one and now the other: a round trip
// between two cores of a virtual machine takes three times as long as one within a core.
enum class Cores { any, one, two };

constexpr const char* text_of(Cores cores) {
  return cores == Cores::one ? ", one core" : cores == Cores::two ? ", two cores" : "";
}

// This thread and all of the other process.
class Placement {
 public:
  explicit Placement(pid_t other) : other_(other) {
    ::sched_getaffinity(0, sizeof all_, &all_);
    for (int core = 0; core < CPU_SETSIZE && cores_.size() < 2; ++core)
      if (CPU_ISSET(core, &all_)) cores_.push_back(core);
  }
  bool has_two() const { return cores_.size() == 2; }
  void put(Cores cores) const {
    if (cores == Cores::any) return put(all_, all_);
    put(only(cores_.front()), only(cores == Cores::one ? cores_.front() : cores_.back()));
  }

 private:
  static cpu_set_t only(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    return set;
  }
  void put(const cpu_set_t& own, const cpu_set_t& others) const {
    ::sched_setaffinity(0, sizeof own, &own);
    for (const auto& thread :
         std::filesystem::directory_iterator("/proc/" + std::to_string(other_) + "/task"))
      ::sched_setaffinity(std::stoi(thread.path().filename().string()), sizeof others, &others);
  }

  const pid_t other_;
  cpu_set_t all_{};
  std::vector<int> cores_;
};

struct Way {
  std::string name;
  std::function<bool()> round;
  Cores cores = Cores::any;
  std::vector<double> microseconds = {};

  double percentile(std::size_t percent) const {
    std::vector<double> sorted = microseconds;
    std::ranges::sort(sorted);
    return sorted.empty() ? 0 : sorted[(sorted.size() - 1) * percent / 100];
  }
};

void measure(std::vector<Way>& ways, const Placement& placement) {
  for (int turn = 0; turn <= kTurns; ++turn)
    for (Way& way : ways) {
      placement.put(way.cores);
      for (int i = 0; i < kRounds / kTurns; ++i) {
        const auto begin = SteadyClock::now();
        if (!way.round()) give_up(way.name + ": no answer");
        const std::chrono::duration<double, std::micro> took = SteadyClock::now() - begin;
        if (turn > 0) way.microseconds.push_back(took.count());  // the first one warms up
      }
    }
  placement.put(Cores::any);
  for (const Way& way : ways)
    std::printf("%-40s p50 %8.1f us, p99 %8.1f us\n", way.name.c_str(), way.percentile(50),
                way.percentile(99));
}

// The model's own work and nothing else.
class BareFunction {
 public:
  BareFunction() : stored_(made_model()), backend_(cpu::open_backend()) {
    auto program = model::make_program(*stored_.model, *backend_, 1);
    if (!program) give_up(program.error().message());
    program_ = std::move(*program);
    if (auto done = program_->load(stored_.weights); !done) give_up(done.error().message());
    sample_.resize(stored_.model->sample_bytes());
  }
  bool run(std::span<const float> row) {
    std::memcpy(sample_.data(), row.data(), row.size_bytes());
    const model::Sample sample{0, sample_};
    return program_->scores(0, {&sample, 1}, scores_).has_value();
  }

 private:
  checkpoint::StoredModel stored_;
  std::unique_ptr<ops::Backend> backend_;
  std::unique_ptr<model::Program> program_;
  std::vector<std::uint8_t> sample_;
  std::vector<float> scores_ = std::vector<float>(kClasses);
};

bool call(Node& node, const std::string& name, const std::vector<float>& row) {
  const Bytes request = inference::encode_infer(inference::InferRequest{{inference::tensor_of(
      "features", inference::TensorKind::fp32, {1, static_cast<std::int64_t>(kFeatures)}, row)}});
  const auto bytes = node.call(name, as_text(request), kTimeout);
  if (!bytes) give_up(bytes.error().message());
  const auto told = inference::decode_infer(as_bytes(*bytes));
  return told && std::holds_alternative<inference::InferAnswer>(*told);
}

json input_of(json fields) {
  fields.update({{"name", "features"}, {"datatype", "FP32"}, {"shape", {1, kFeatures}}});
  return {{"inputs", {std::move(fields)}}};
}

// The ways over HTTP: infer as JSON and in binary, and the same bodies as they come back from the echo; each
// on one core, and on two where there are as many.
void add_http(std::vector<Way>& ways, const std::string& url, int echo_port, bool two_cores,
              const std::vector<float>& row) {
  const auto place = cli::parse_http_url(url);
  if (!place) give_up(place.error().message());
  auto asker = std::make_shared<cli::HttpAsker>(*place, kTimeout);
  auto echo = std::make_shared<cli::HttpAsker>(
      cli::HttpPlace{"127.0.0.1", std::to_string(echo_port)}, kTimeout);
  const std::string as_json = input_of({{"data", row}}).dump();
  json binary =
      input_of({{"parameters", {{"binary_data_size", std::as_bytes(std::span(row)).size()}}}});
  binary["parameters"] = {{"binary_data_output", true}};
  const std::string head = binary.dump();
  const std::string in_binary = head + std::string(as_text(std::as_bytes(std::span(row))));
  const auto add = [&](const std::string& name, const std::shared_ptr<cli::HttpAsker>& whom,
                       const std::string& path, const std::string& body,
                       const std::string& header) {
    const auto round = [=] {
      const auto told = whom->ask(path, body, {}, header);
      if (told && told->status != 200) give_up(told->body);
      return told.has_value();
    };
    ways.push_back({name + text_of(Cores::one), round, Cores::one});
    if (two_cores) ways.push_back({name + text_of(Cores::two), round, Cores::two});
  };
  const std::string json_length =
      "Inference-Header-Content-Length: " + std::to_string(head.size()) + "\r\n";
  const std::string path = "/v2/models/far/infer";
  add("over HTTP, JSON", asker, path, as_json, "");
  add("over HTTP, binary", asker, path, in_binary, json_length);
  if (echo_port == 0) return;
  add("cpp-httplib's echo, JSON", echo, "/echo", as_json, "");
  add("cpp-httplib's echo, binary", echo, "/echo", in_binary, json_length);
}

const Way& way_of(const std::vector<Way>& ways, const std::string& name) {
  return *std::ranges::find(ways, name, &Way::name);
}

// Whether all bars are kept.
bool tell(const std::vector<Way>& ways, bool with_echo, bool two_cores) {
  const auto p50 = [&](const std::string& name) { return way_of(ways, name).percentile(50); };
  const double function = p50("bare function");
  const double added = p50("call, this process") - function;
  bool kept = added <= kMostAddedUs;
  std::printf("\na call to a model of this process adds %.1f us (bar %.0f)\n", added, kMostAddedUs);
  const auto ratio = [&](const std::string& ours, const std::string& bare) {
    const double of_bare = (p50(ours) - function) / p50(bare);
    std::printf("%s, without the bare function: %.2f of %s (bar %.1f)\n", ours.c_str(), of_bare,
                bare.c_str(), kMostOfBare);
    kept = kept && of_bare <= kMostOfBare;
  };
  ratio("call, another process", "bare libzmq with CURVE");
  if (with_echo) {
    for (const Cores cores : {Cores::one, Cores::two})
      for (const std::string form : {"JSON", "binary"})
        if (cores == Cores::one || two_cores)
          ratio("over HTTP, " + form + text_of(cores),
                "cpp-httplib's echo, " + form + text_of(cores));
  } else {
    std::printf("HTTP is held against nothing: built without cpp-httplib (libcpp-httplib-dev)\n");
  }
  return kept;
}

int ask(const std::string& folder, bool require) {
  storage::PosixFileSystem files;
  if (auto done = checkpoint::save_model(files, made_model(), folder + "/model"); !done)
    give_up(done.error().message());
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  FILE* other = ::popen(("exec " + program + " answer " + folder).c_str(), "r");
  if (!other) return 1;
  std::string told[7];
  for (std::string& line : told)
    for (int byte = std::fgetc(other); byte != '\n' && byte != EOF; byte = std::fgetc(other))
      line.push_back(static_cast<char>(byte));
  if (told[6].empty()) give_up("the other process ended");
  auto node = start(folder, "asks", told[0].substr(told[0].find("//") == std::string::npos ? 0 : 6),
                    told[1]);
  command(*node, "serve", {{"path", folder + "/model"}, {"name", "near"}});
  BareFunction function;
  EchoCaller bare({told[2], told[3]});
  std::vector<float> row(kFeatures);
  for (std::size_t i = 0; i < kFeatures; ++i) row[i] = 0.1f * static_cast<float>(i) - 0.7f;
  const Bytes request = inference::encode_infer(inference::InferRequest{{inference::tensor_of(
      "features", inference::TensorKind::fp32, {1, static_cast<std::int64_t>(kFeatures)}, row)}});
  std::vector<Way> ways;
  ways.push_back({"bare function", [&] { return function.run(row); }});
  ways.push_back({"call, this process", [&] { return call(*node, "model/near", row); }});
  ways.push_back({"bare libzmq with CURVE", [&] { return bare.round(request.size()); }});
  ways.push_back({"call, another process", [&] { return call(*node, "model/far", row); }});
  const int echo_port = std::atoi(told[5].c_str());
  const pid_t answers = std::atoi(told[6].c_str());
  const Placement placement(answers);
  add_http(ways, told[4], echo_port, placement.has_two(), row);
  measure(ways, placement);
  const bool kept = tell(ways, echo_port != 0, placement.has_two());
  node->leave();
  ::kill(answers, SIGKILL);  // else it writes into the folder that is removed
  ::pclose(other);
  return kept || !require ? 0 : 1;
}

}  // namespace
}  // namespace gpunode::bench

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "answer") return gpunode::bench::answer(argv[2]);
  const bool require = argc == 2 && std::string(argv[1]) == "--require";
  if (argc > 1 && !require) {
    std::fprintf(stderr,
                 "usage: gpunode-bench-infer [--require]: then fails where a bar is missed\n");
    return 2;
  }
  char folder[] = "/tmp/gpunode-bench-XXXXXX";
  if (!mkdtemp(folder)) return 1;
  const int status = gpunode::bench::ask(folder, require);
  std::filesystem::remove_all(folder);
  return status;
}
