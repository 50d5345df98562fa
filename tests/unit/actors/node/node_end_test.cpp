// How a node ends while others use it: every question gets its one answer, from whichever thread it
// came, and no handler of the embedder's can hold the end up.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <filesystem>
#include <future>
#include <thread>

#include "actors/node/node_parts.hpp"
#include "tests/support/memory_link.hpp"

namespace gpunode::node {
namespace {

using nlohmann::json;
using transport::MemoryNetwork;
namespace fs = std::filesystem;

// The machine's clock; in a hurry, every look at it takes a second.
class HastyClock final : public Clock {
 public:
  Time now() const override {
    if (hurry) offset_ += 1;
    return clock_.now() + std::chrono::seconds(offset_.load());
  }
  std::chrono::system_clock::time_point wall() const override { return clock_.wall(); }
  std::atomic<bool> hurry{false};

 private:
  SystemClock clock_;
  mutable std::atomic<int> offset_{0};
};

class NodeEnd : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "gpunode-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    auto node = start();
    ASSERT_TRUE(node) << node.error().message();
    node_ = std::move(*node);
  }
  void TearDown() override {
    node_.reset();
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }

  Result<std::unique_ptr<Node>> start() {
    NodeConfig config;
    config.state_directory = (root_ / "node").string();
    config.name = "node";
    config.listen = "127.0.0.1:0";
    config.threads = 1;
    NodeParts parts;
    // A node that is left behind may still look at its clock.
    static HastyClock& clock = *new HastyClock;
    clock_ = &clock;
    clock.hurry = false;
    parts.clock = clock_;
    parts.open_link = [this](const NodeId& id, Boot boot, transport::LinkEvents events) {
      return std::shared_ptr<transport::Link>(network_.open(id, boot, std::move(events)));
    };
    return start_node(config, parts);
  }

  MemoryNetwork network_;
  HastyClock* clock_ = nullptr;
  fs::path root_;
  std::unique_ptr<Node> node_;
};

TEST_F(NodeEnd, a_start_without_descriptors_enough_says_so_and_leaves_none_open) {
  node_.reset();
  const std::size_t open = [] {
    const fs::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  for (const std::size_t more : {0u, 5u, 40u}) {
    const rlimit few{open + more, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    const auto node = start();
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    ASSERT_FALSE(node);
    EXPECT_EQ(node.error().code, ErrorCode::resource_exhausted);
    EXPECT_NE(node.error().message().find("ulimit -n"), std::string::npos);
  }
  EXPECT_TRUE(start());
}

TEST_F(NodeEnd, a_stopped_node_answers_every_call_and_command_at_once) {
  node_->stop();
  auto answer = node_->call("anything", "", std::chrono::hours(1));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::cancelled);
  for (const char* command :
       {"jobs", "train", "models", "token.create", "nodes", "metrics", "devices"}) {
    json told = json::parse(node_->command(command, "{}"));
    EXPECT_EQ(told["error"].value("code", ""), "cancelled") << told.dump();
  }
  const auto late =
      node_->publish("late", [](std::string_view) -> Result<std::string> { return std::string(); });
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::cancelled);
}

TEST_F(NodeEnd, the_state_directory_of_a_stopped_node_is_free_for_another) {
  const auto early = start();
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, ErrorCode::wrong_state);
  node_->stop();
  const auto next = start();
  ASSERT_TRUE(next) << next.error().message();
  EXPECT_EQ((*next)->id(), node_->id());
}

TEST_F(NodeEnd, questions_from_many_threads_are_answered_while_the_node_stops) {
  std::atomic<bool> stopped{false};
  std::atomic<int> answered{0}, cancelled{0};
  std::vector<std::thread> askers;
  for (int i = 0; i < 4; ++i)
    askers.emplace_back([&, i] {
      std::string name = "echo" + std::to_string(i);
      for (bool last = false; !last;) {
        last = stopped;
        const auto published = node_->publish(
            name, [](std::string_view text) -> Result<std::string> { return std::string(text); });
        EXPECT_TRUE(published || published.error().code == ErrorCode::cancelled);
        json jobs = json::parse(node_->command(i % 2 ? "jobs" : "models", "{}"));
        bool ok = jobs.value("ok", false);
        EXPECT_TRUE(ok || jobs["error"].value("code", "") == "cancelled") << jobs.dump();
        auto answer = node_->call(name, "hello", std::chrono::seconds(20));
        if (answer)
          EXPECT_EQ(*answer, "hello");
        else
          EXPECT_EQ(answer.error().code, ErrorCode::cancelled) << answer.error().message();
        ++(answer ? answered : cancelled);
      }
    });
  while (answered < 40) std::this_thread::yield();
  node_->stop();
  stopped = true;
  for (std::thread& asker : askers) asker.join();
  EXPECT_GE(cancelled, 4) << "each thread asked once more after the end";
}

TEST_F(NodeEnd, what_a_handler_throws_is_its_callers_error) {
  ASSERT_TRUE(node_->publish("fall", [](std::string_view) -> Result<std::string> {
    throw std::runtime_error("over a cliff");
  }));
  auto answer = node_->call("fall", "", std::chrono::seconds(60));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::internal);
  EXPECT_NE(answer.error().detail.find("over a cliff"), std::string::npos);
}

TEST_F(NodeEnd, a_timeout_beyond_all_clocks_is_no_overflow) {
  ASSERT_TRUE(node_->publish(
      "echo", [](std::string_view text) -> Result<std::string> { return std::string(text); }));
  auto answer = node_->call("echo", "x", std::chrono::milliseconds::max());
  EXPECT_TRUE(answer);
  auto late = node_->call("nobody", "x", std::chrono::milliseconds::min());
  EXPECT_FALSE(late);
}

TEST_F(NodeEnd, comes_though_a_handler_does_not_return) {
  auto entered = std::make_shared<std::promise<void>>();
  auto left = std::make_shared<std::promise<void>>();
  std::promise<void> release;
  auto released = release.get_future().share();
  ASSERT_TRUE(
      node_->publish("slow", [entered, left, released](std::string_view) -> Result<std::string> {
        entered->set_value();
        released.wait();
        left->set_value();
        return std::string("late");
      }));
  auto asking = std::async(std::launch::async,
                           [&] { return node_->call("slow", "", std::chrono::seconds(600)); });
  entered->get_future().wait();
  clock_->hurry = true;
  node_->stop();
  auto answer = asking.get();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::cancelled);
  node_.reset();  // the handler still runs, and answers nobody
  auto again = start();
  ASSERT_TRUE(again) << "nothing of the node was left behind: " << again.error().message();
  release.set_value();
  left->get_future().wait();
}

TEST_F(NodeEnd, may_be_asked_for_by_a_handler_and_keeps_nothing) {
  for (const Node::Run run : {Node::Run::on_handler_thread, Node::Run::at_once}) {
    ASSERT_TRUE(node_->publish(
        "end",
        [this](std::string_view) -> Result<std::string> {
          node_->stop();
          return std::string();
        },
        run));
    const auto asked = node_->call("end", "", std::chrono::seconds(60));
    ASSERT_FALSE(asked) << "it has ended before it could answer";
    EXPECT_EQ(asked.error().code, ErrorCode::cancelled);
    node_->wait();
    node_.reset();
    auto again = start();
    ASSERT_TRUE(again) << again.error().message();
    node_ = std::move(*again);
  }
}

TEST_F(NodeEnd, refuses_a_handler_under_a_name_of_its_own) {
  const auto refused = node_->publish(
      "job.fitness", [](std::string_view) -> Result<std::string> { return std::string(); });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace gpunode::node
