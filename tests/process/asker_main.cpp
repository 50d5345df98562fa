// gpunode-asker: a member that asks a model many times at once and tells what came of it, for
// replicas_test.py. Its texts are asked as any node asks for them (schemas/generate.fbs).
// usage: gpunode-asker STATE JOIN MODEL REQUESTS CALLERS TIMEOUT_MS, with the token in GPUNODE_TOKEN.
// Ends when all are answered or a file named "stop" is in STATE; tells one JSON object.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "actors/inference/generate_codec.hpp"
#include "actors/node/node.hpp"

namespace gpunode {
namespace {

using nlohmann::json;
using SteadyClock = std::chrono::steady_clock;

// What came of all.
struct Outcomes {
  std::map<std::string, std::uint64_t> errors;   // by code
  std::map<std::string, std::string> reasons;    // of each code, one
  std::map<std::string, std::uint64_t> answers;  // by version, digest and text, as JSON
  std::uint64_t asked = 0, answered = 0;
  double longest = 0;  // seconds

  void add(const Outcomes& other) {
    for (const auto& [code, count] : other.errors) errors[code] += count;
    for (const auto& [code, reason] : other.reasons) reasons[code] = reason;
    for (const auto& [answer, count] : other.answers) answers[answer] += count;
    asked += other.asked;
    answered += other.answered;
    longest = std::max(longest, other.longest);
  }
};

struct Order {
  std::string model;
  std::chrono::milliseconds timeout{};
  std::filesystem::path stop;
  std::atomic<std::int64_t> left{0};
};

void ask_once(Node& node, const Order& order, Outcomes& outcomes) {
  const inference::GenerateRequest request{
      .prompt = "Once",
      .max_tokens = 4,
      .temperature = 0,
      .timeout_ms = static_cast<std::uint32_t>(order.timeout.count())};
  const Bytes bytes = inference::encode(request);
  const auto begin = SteadyClock::now();
  ++outcomes.asked;
  const auto told =
      node.call("model/" + order.model, as_text(bytes), order.timeout, Node::Retry::where_lost);
  ++outcomes.answered;
  const double seconds = std::chrono::duration<double>(SteadyClock::now() - begin).count();
  outcomes.longest = std::max(outcomes.longest, seconds);
  if (!told) {
    const std::string code(to_string(told.error().code));
    ++outcomes.errors[code];
    outcomes.reasons[code] = told.error().detail;
    return;
  }
  const auto message = inference::decode_generate(as_bytes(*told));
  const auto* answer = message ? std::get_if<inference::GenerateAnswer>(&*message) : nullptr;
  if (!answer) {
    ++outcomes.errors["no answer"];
    return;
  }
  ++outcomes.answers[json::array({answer->version, answer->model_digest,
                                  to_hex(as_bytes(answer->text)), answer->tokens})
                         .dump()];
}

int run(char** words) {
  NodeConfig config;
  config.state_directory = words[1];
  config.join = words[2];
  config.name = "asker";
  config.listen = "127.0.0.1:0";
  config.device = "cpu";
  config.threads = 1;
  if (const char* token = std::getenv("GPUNODE_TOKEN")) config.token = token;
  auto node = Node::start(std::move(config));
  if (!node) {
    std::fprintf(stderr, "%s\n", node.error().message().c_str());
    return 1;
  }
  Order order{.model = words[3],
              .timeout = std::chrono::milliseconds(std::atoi(words[6])),
              .stop = std::filesystem::path(words[1]) / "stop"};
  order.left = std::atoll(words[4]);
  Outcomes all;
  std::mutex mutex;
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < std::atoi(words[5]); ++i)
      callers.emplace_back([&] {
        Outcomes mine;
        while (order.left-- > 0 && (mine.asked % 64 != 0 || !std::filesystem::exists(order.stop)))
          ask_once(**node, order, mine);
        const std::lock_guard lock(mutex);
        all.add(mine);
      });
  }
  std::printf("%s\n", json{{"asked", all.asked},
                           {"answered", all.answered},
                           {"longest", all.longest},
                           {"errors", all.errors},
                           {"reasons", all.reasons},
                           {"answers", all.answers}}
                          .dump()
                          .c_str());
  return 0;
}

}  // namespace
}  // namespace gpunode

int main(int argc, char** argv) {
  if (argc == 7) return gpunode::run(argv);
  std::fprintf(stderr, "usage: %s STATE JOIN MODEL REQUESTS CALLERS TIMEOUT_MS\n", argv[0]);
  return 2;
}
