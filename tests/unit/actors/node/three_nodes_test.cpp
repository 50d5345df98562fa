// Three whole nodes in one process over MemoryLink: they join by token, train a small job together,
// lose a node on the way, and end with the bits of a lone node.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <thread>

#include "actors/node/node_parts.hpp"
#include "runtime/base/rng.hpp"
#include "tests/support/memory_link.hpp"

namespace gpunode::node {
namespace {

using nlohmann::json;
using transport::MemoryNetwork;
namespace fs = std::filesystem;

class Cluster : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "gpunode-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    std::ofstream text(root_ / "text");
    Rng rng(7);
    for (int i = 0; i < 20'000; ++i) text << "abcdefgh \n"[rng.below(10)];
  }
  void TearDown() override {
    nodes_.clear();
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }

  Node& start(const std::string& name, MemoryNetwork& network, const std::string& join_address = "",
              const std::string& token = "") {
    NodeConfig config;
    config.state_directory = (root_ / name).string();
    config.name = name;
    config.listen = "127.0.0.1:0";
    config.threads = 1;
    config.data_sets = {{"text", {(root_ / "text").string()}}};
    config.join = join_address;
    config.token = token;
    NodeParts parts;
    parts.open_link = [&network](const NodeId& id, Boot boot, transport::LinkEvents events) {
      return std::shared_ptr<transport::Link>(network.open(id, boot, std::move(events)));
    };
    auto node = start_node(config, parts);
    EXPECT_TRUE(node) << node.error().message();
    nodes_.push_back(std::move(*node));
    return *nodes_.back();
  }

  static json ask(Node& node, const std::string& name, const json& arguments = json::object()) {
    return json::parse(node.command(name, arguments.dump()));
  }

  std::string job_file(int nodes, int steps) const {
    return "name = \"tiny\"\nnodes = " + std::to_string(nodes) + R"(
[data]
set = "text"
[model]
kind = "gpt"
layers = 1
heads = 2
channels = 16
context = 16
[train]
steps = )" +
           std::to_string(steps) +
           R"(
batch = 8
slices = 4
warmup_steps = 5
[checkpoint]
every = 250
)";
  }

  json train(Node& node, int nodes, int steps = 60) {
    return ask(node, "train",
               {{"job_file", job_file(nodes, steps)}, {"directory", root_.string()}});
  }

  // Polls, bounded by a hang limit, until the condition holds.
  template <class Condition>
  bool eventually(Condition condition, int seconds = 60) {
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (std::chrono::steady_clock::now() < end) {
      if (condition()) return true;
      std::this_thread::yield();
    }
    return false;
  }

  bool finished(Node& node) {
    return eventually([&] {
      json progress = ask(node, "job.progress", {{"job", "tiny"}});
      return progress.value("phase", "") == "finished" || progress.value("phase", "") == "failed";
    });
  }

  fs::path root_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

TEST_F(Cluster, of_three_trains_to_the_bits_of_a_lone_node_though_one_node_vanishes) {
  constexpr int steps = 1500;  // enough that the last of three comes in, also on a busy machine
  MemoryNetwork alone_network;
  Node& alone = start("alone", alone_network);
  ASSERT_TRUE(train(alone, 1, steps).value("ok", false));
  ASSERT_TRUE(finished(alone));
  json expected = ask(alone, "job.show", {{"job", "tiny"}});
  ASSERT_EQ(expected.value("phase", ""), "finished") << expected.dump(1);

  MemoryNetwork network;
  Node& alpha = start("alpha", network);
  ASSERT_FALSE(alpha.join_endpoints().empty());
  std::string address = alpha.join_endpoints()[0].substr(6);
  for (const char* name : {"beta", "gamma"}) {
    json token = ask(alpha, "token.create", {{"uses", 1}, {"roles", "all"}});
    ASSERT_TRUE(token.value("ok", false)) << token.dump();
    start(name, network, address, token["token"]);
  }
  ASSERT_TRUE(eventually([&] {
    int alive = 0;
    json nodes = ask(alpha, "nodes")["nodes"];
    for (const json& node : nodes) alive += node["health"] == "alive" ? 1 : 0;
    return alive == 3;
  }));
  json answer = train(alpha, 3, steps);
  ASSERT_TRUE(answer.value("ok", false)) << answer.dump(1);
  EXPECT_EQ(answer["candidates"].size(), 3u);
  ASSERT_TRUE(eventually([&] {
    json progress = ask(alpha, "job.progress", {{"job", "tiny"}});
    json computed = ask(alpha, "job.show", {{"job", "tiny"}})["computed"];
    return progress.value("step", 0) >= 10 && computed.size() == 3;
  }));
  nodes_.back()->stop();
  ASSERT_TRUE(finished(alpha));
  json shown = ask(alpha, "job.show", {{"job", "tiny"}});
  ASSERT_EQ(shown.value("phase", ""), "finished") << shown.dump(1);
  EXPECT_EQ(shown["state_digest"], expected["state_digest"]) << shown.dump(1);
  EXPECT_EQ(shown["data_fingerprint"], expected["data_fingerprint"]);
  EXPECT_TRUE(shown["proof"].value("equal_to_data", false)) << shown["proof"].dump();
  EXPECT_TRUE(shown["proof"].value("each_sample_once_an_epoch", false));
}

TEST_F(Cluster, answers_calls_of_every_node_and_serves_a_trained_model) {
  MemoryNetwork network;
  Node& alpha = start("alpha", network);
  json token = ask(alpha, "token.create", {{"roles", "all"}});
  Node& beta = start("beta", network, alpha.join_endpoints()[0].substr(6), token["token"]);
  ASSERT_TRUE(alpha.publish("shout", [](std::string_view text) -> Result<std::string> {
    return std::string(text) + "!";
  }));
  auto answer = beta.call("shout", "hello", std::chrono::seconds(20));
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(*answer, "hello!");
  auto nobody = beta.call("whisper", "hello", std::chrono::milliseconds(300));
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, ErrorCode::unavailable);

  ASSERT_TRUE(train(alpha, 1).value("ok", false));
  ASSERT_TRUE(finished(alpha));
  json served = ask(alpha, "serve", {{"job", "tiny"}, {"name", "letters"}});
  ASSERT_TRUE(served.value("ok", false)) << served.dump();
  json text = ask(beta, "generate",
                  {{"model", "letters"}, {"prompt", "abc"}, {"max_tokens", 12}, {"seed", 3}});
  ASSERT_TRUE(text.value("ok", false)) << text.dump();
  EXPECT_EQ(text["tokens"], 12);
  EXPECT_EQ(text["digest"], served["digest"]);
}

}  // namespace
}  // namespace gpunode::node
