// Calls between nodes, at a link that only notes what is sent: which lane and urgency a message
// gets, who is asked again and who is not, how each call ends, and what a node refuses.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>

#include "actors/node/call_codec.hpp"
#include "actors/node/calls.hpp"
#include "runtime/transport/link.hpp"

namespace gpunode::node {
namespace {

using transport::Lane;
using transport::Urgency;
constexpr std::chrono::seconds kHangLimit{30};

struct Sent {
  NodeId to;
  Lane lane;
  transport::Message message;
  bool soon = false;  // for somebody who waits
};

class NotingLink final : public transport::Link {
 public:
  void set_peer(transport::PeerAddress) override {}
  void drop_peer(const NodeId&) override {}
  Result<void> send(const NodeId& to, Lane lane, transport::Message message) override {
    if (message.payload.size() > transport::kMaxBulkPayloadBytes)
      return {ErrorCode::invalid_argument, "over the limit"};
    std::lock_guard lock(mutex_);
    sent_.push_back({to, lane, std::move(message)});
    changed_.notify_all();
    return {};
  }
  Result<Lane> send_soon(const NodeId& to, transport::Message message) override {
    const Lane lane = message.payload.size() > (16u << 10) ? Lane::bulk : Lane::control;
    if (auto sent = send(to, lane, std::move(message)); !sent) return sent.error();
    std::lock_guard lock(mutex_);
    sent_.back().soon = true;
    return lane;
  }
  transport::LinkCounters counters(Lane) const override { return {}; }
  void close() override {}

  std::optional<Sent> next() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kHangLimit, [this] { return !sent_.empty(); })) return {};
    Sent sent = std::move(sent_.front());
    sent_.pop_front();
    return sent;
  }
  bool silent() {
    std::lock_guard lock(mutex_);
    return sent_.empty();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Sent> sent_;
};

// Stands still until told, from any thread.
class SteppedClock final : public Clock {
 public:
  Time now() const override { return Time(Duration(now_)); }
  std::chrono::system_clock::time_point wall() const override { return {}; }
  void advance(Duration by) { now_ += by.count(); }

 private:
  std::atomic<Duration::rep> now_{0};
};

using Answer = std::future<Result<SharedBytes>>;

bool is_told(const Answer& answer) {
  return answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

class CallsTest : public ::testing::Test {
 protected:
  CallsTest() {
    ClusterSnapshot known;
    for (int i = 0; i < 2; ++i) {
      peers_[i].value[0] = std::byte(i + 1);
      NodeInfo info;
      info.id = peers_[i];
      known.nodes.push_back(info);
    }
    known.entries = {{peers_[0], service_key("both"), {}},
                     {peers_[0], service_key("one"), {}},
                     {peers_[1], service_key("both"), {}}};
    cluster_.write(known);
  }
  ~CallsTest() override { calls_->close(); }

  Answer call(CallRequest request) {
    auto answer = std::make_shared<std::promise<Result<SharedBytes>>>();
    request.timeout = std::chrono::hours(1);
    request.done = [answer](Result<SharedBytes> result) { answer->set_value(std::move(result)); };
    calls_->start(std::move(request));
    return answer->get_future();
  }
  Answer call_peer(std::size_t bytes) {
    return call({.to = peers_[0], .name = "name", .request = SharedBytes::from(Bytes(bytes))});
  }
  Answer call_name(const std::string& name, bool may_repeat = false) {
    return call({.name = name, .request = SharedBytes::from(Bytes(1)), .may_repeat = may_repeat});
  }
  void hear(const NodeId& from, transport::Topic topic, std::uint64_t call,
            const CallMessage& header) {
    transport::Message message{topic, call, encode(header), {}};
    calls_->on_message(from, message);
  }
  void reply(const Sent& to, ReplyHeader header) {
    hear(to.to, transport::Topic::reply, to.message.stream, header);
  }
  void publish(const std::string& name, CallHandler handler, bool pooled = false) {
    calls_->publish({name, std::move(handler), false, pooled});
  }
  // Asks the node for `bytes` of an answer, as a peer does.
  std::optional<Sent> answer_of(std::size_t bytes) {
    publish("give", [bytes](const NodeId&, SharedBytes, CallReply reply) {
      reply(SharedBytes::from(Bytes(bytes)));
    });
    hear(peers_[0], transport::Topic::call, 5, CallHeader{"give", 1000});
    return link_->next();
  }
  std::optional<ReplyHeader> refusal_in(const std::optional<Sent>& sent) {
    const auto message = sent ? decode_call(sent->message.body) : CallMessage{};
    if (!message || !std::holds_alternative<ReplyHeader>(*message)) return {};
    return std::get<ReplyHeader>(*message);
  }

  std::shared_ptr<NotingLink> link_ = std::make_shared<NotingLink>();
  ClusterState cluster_;
  SteppedClock clock_;
  telemetry::Registry metrics_;
  NodeId peers_[2];
  std::shared_ptr<CallThreads> threads_ =
      std::make_shared<CallThreads>(CallThreads::Limits{.threads = 2, .queue = 4});
  security::Authority all_may_{
      {}, [](const NodeId&) { return security::kAllRights; }, nullptr, nullptr};
  std::shared_ptr<Calls> calls_ = std::make_shared<Calls>(CallsOptions{
      NodeId{}, link_, &cluster_, &clock_, [](SetEntry) {}, 1, &metrics_, threads_, &all_may_});
};

constexpr std::size_t kLong = 300 * 1024;

TEST_F(CallsTest, and_their_answers_go_as_what_somebody_waits_for) {
  for (const std::size_t bytes : {std::size_t{10}, kLong}) {
    auto sent = answer_of(bytes);
    ASSERT_TRUE(sent);
    EXPECT_TRUE(sent->soon);
  }
  call_name("one");
  auto sent = link_->next();
  ASSERT_TRUE(sent);
  EXPECT_TRUE(sent->soon);
}

TEST_F(CallsTest, whose_answer_is_too_large_are_told_so) {
  auto sent = answer_of(transport::kMaxBulkPayloadBytes + 1);
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->lane, Lane::control);
  EXPECT_EQ(sent->message.payload.size(), 0u);
  const auto refusal = refusal_in(sent);
  ASSERT_TRUE(refusal && !refusal->ok);
  EXPECT_EQ(refusal->error.code, ErrorCode::resource_exhausted);
  EXPECT_NE(refusal->error.detail.find("16777217 bytes"), std::string::npos);
}

TEST_F(CallsTest, whose_request_is_too_large_are_told_so_before_anything_is_sent) {
  auto answer = call_peer(transport::kMaxBulkPayloadBytes + 1);
  ASSERT_TRUE(is_told(answer));
  const auto end = answer.get();
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(link_->silent());
}

TEST_F(CallsTest, on_control_outlive_the_bulk_lane) {
  auto on_control = call_peer(10);
  ASSERT_TRUE(link_->next());
  auto on_bulk = call_peer(kLong);
  ASSERT_TRUE(link_->next());
  calls_->on_peer_gone(peers_[0], true);
  ASSERT_TRUE(is_told(on_bulk));
  auto lost = on_bulk.get();
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, ErrorCode::peer_lost);
  EXPECT_FALSE(is_told(on_control));
  calls_->on_peer_gone(peers_[0]);
  ASSERT_TRUE(is_told(on_control));
  EXPECT_FALSE(on_control.get());
}

TEST_F(CallsTest, get_the_error_of_a_handler_as_it_is_and_are_not_asked_of_another) {
  for (const ErrorCode code : {ErrorCode::not_found, ErrorCode::unavailable}) {
    auto answer = call_name("both");
    const auto sent = link_->next();
    ASSERT_TRUE(sent);
    reply(*sent, {false, {code, "of the handler's own"}});
    ASSERT_TRUE(is_told(answer));
    const auto end = answer.get();
    ASSERT_FALSE(end);
    EXPECT_EQ(end.error().code, code);
    EXPECT_EQ(end.error().detail, "of the handler's own");
    EXPECT_TRUE(link_->silent());
  }
}

TEST_F(CallsTest, that_were_refused_unrun_are_asked_of_another) {
  auto answer = call_name("both");
  const auto first = link_->next();
  ASSERT_TRUE(first);
  reply(*first, {false, {ErrorCode::resource_exhausted, "full"}, true});
  const auto second = link_->next();
  ASSERT_TRUE(second);
  EXPECT_NE(second->to, first->to);
  reply(*second, {false, {ErrorCode::resource_exhausted, "full"}, true});
  ASSERT_TRUE(is_told(answer)) << "all are full";
  const auto end = answer.get();
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, ErrorCode::resource_exhausted);
}

TEST_F(CallsTest, whose_node_is_lost_fail_at_once_and_run_once) {
  auto answer = call_name("both");
  const auto sent = link_->next();
  ASSERT_TRUE(sent);
  calls_->on_peer_gone(sent->to);
  ASSERT_TRUE(is_told(answer));
  const auto end = answer.get();
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, ErrorCode::peer_lost);
  EXPECT_TRUE(link_->silent());
}

TEST_F(CallsTest, that_may_be_repeated_are_until_nobody_is_left) {
  auto answer = call_name("both", true);
  const auto first = link_->next();
  ASSERT_TRUE(first);
  calls_->on_peer_gone(first->to);
  const auto second = link_->next();
  ASSERT_TRUE(second);
  EXPECT_NE(second->to, first->to);
  EXPECT_FALSE(is_told(answer));
  calls_->on_peer_gone(second->to);
  ASSERT_TRUE(is_told(answer));
  EXPECT_FALSE(answer.get());
}

TEST_F(CallsTest, of_stale_offers_are_not_asked_until_the_deadline) {
  auto answer = call_name("one");
  const auto refused = link_->next();
  ASSERT_TRUE(refused);
  const ReplyHeader refusal{false, {ErrorCode::not_found, "this node does not offer it"}, true};
  reply(*refused, refusal);
  EXPECT_FALSE(is_told(answer)) << "news of who offers it may be on its way";
  clock_.advance(std::chrono::milliseconds(200));
  calls_->on_tick();
  const auto again = link_->next();
  ASSERT_TRUE(again) << "it is asked again";
  reply(*again, refusal);
  clock_.advance(std::chrono::seconds(3));
  calls_->on_tick();
  ASSERT_TRUE(is_told(answer));
  const auto end = answer.get();
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, ErrorCode::not_found);
}

TEST_F(CallsTest, beyond_the_bound_of_the_handlers_are_refused_unrun) {
  std::promise<void> release;
  auto released = release.get_future().share();
  std::atomic<int> entered{0};
  publish(
      "slow",
      [&entered, released](const NodeId&, SharedBytes, CallReply reply) {
        ++entered;
        released.wait();
        reply(SharedBytes{});
      },
      true);
  for (std::uint64_t asked = 0; asked < 2; ++asked)
    hear(peers_[0], transport::Topic::call, asked, CallHeader{"slow", 1000});
  while (entered < 2) std::this_thread::yield();
  for (std::uint64_t asked = 2; asked < 5; ++asked)
    hear(peers_[0], transport::Topic::call, asked, CallHeader{"slow", 1000});
  const auto over_its_half = link_->next();
  ASSERT_TRUE(over_its_half);
  EXPECT_EQ(over_its_half->message.stream, 4u);
  const auto refusal = refusal_in(over_its_half);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->error.code, ErrorCode::resource_exhausted);
  EXPECT_TRUE(refusal->not_run);
  EXPECT_TRUE(link_->silent()) << "told once";
  hear(peers_[1], transport::Topic::call, 9, CallHeader{"slow", 1000});
  EXPECT_TRUE(link_->silent()) << "another caller still has room";
  release.set_value();
  for (int answers = 0; answers < 5; ++answers) ASSERT_TRUE(link_->next());
  EXPECT_EQ(entered, 5);
}

TEST_F(CallsTest, that_nobody_waits_for_any_more_are_not_run) {
  std::promise<void> release;
  auto released = release.get_future().share();
  std::atomic<int> entered{0};
  publish(
      "slow",
      [&entered, released](const NodeId&, SharedBytes, CallReply reply) {
        ++entered;
        released.wait();
        reply(SharedBytes{});
      },
      true);
  for (std::uint64_t asked = 0; asked < 2; ++asked)
    hear(peers_[0], transport::Topic::call, asked, CallHeader{"slow", 1000});
  while (entered < 2) std::this_thread::yield();
  hear(peers_[0], transport::Topic::call, 7, CallHeader{"slow", 1000});
  hear(peers_[0], transport::Topic::call, 8, CallHeader{"slow", 3000});
  clock_.advance(std::chrono::seconds(2));
  release.set_value();
  for (int answers = 0; answers < 4; ++answers) {
    const auto sent = link_->next();
    ASSERT_TRUE(sent);
    const auto header = refusal_in(sent);
    ASSERT_TRUE(header);
    EXPECT_EQ(header->ok, sent->message.stream != 7) << sent->message.stream;
    EXPECT_EQ(header->not_run, sent->message.stream == 7);
  }
  EXPECT_EQ(entered, 3);
}

TEST_F(CallsTest, are_answered_ten_thousand_at_once_by_a_few_threads) {
  auto threads = std::make_shared<CallThreads>(CallThreads::Limits{});
  calls_ = std::make_shared<Calls>(CallsOptions{NodeId{}, link_, &cluster_, &clock_,
                                                [](SetEntry) {}, 1, &metrics_, threads, &all_may_});
  std::promise<void> release;
  auto released = release.get_future().share();
  std::atomic<int> at_once{0}, most{0};
  publish(
      "slow",
      [&, released](const NodeId&, SharedBytes request, CallReply reply) {
        const int now = ++at_once;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        released.wait();
        --at_once;
        reply(std::move(request));
      },
      true);
  constexpr std::uint64_t kCalls = 10'000;
  for (std::uint64_t asked = 0; asked < kCalls; ++asked)
    hear(peers_[0], transport::Topic::call, asked, CallHeader{"slow", 60'000});
  while (at_once < 8) std::this_thread::yield();
  release.set_value();
  for (std::uint64_t answers = 0; answers < kCalls; ++answers) {
    const auto header = refusal_in(link_->next());
    ASSERT_TRUE(header && header->ok) << answers;
  }
  EXPECT_EQ(most, 8);
}

TEST_F(CallsTest, of_one_caller_leave_room_in_bytes_for_others) {
  CallThreads threads({.threads = 1, .queue = 100, .queue_bytes = 1 << 20});
  std::promise<void> release;
  auto released = release.get_future().share();
  std::promise<void> entered;
  ASSERT_TRUE(threads.run(peers_[0], 0, [&entered, released] {
    entered.set_value();
    released.wait();
  }));
  entered.get_future().wait();
  ASSERT_TRUE(threads.run(peers_[0], 400 << 10, [] {}));
  EXPECT_FALSE(threads.run(peers_[0], 400 << 10, [] {}));
  EXPECT_TRUE(threads.run(peers_[1], 400 << 10, [] {}));
  release.set_value();
  SystemClock clock;
  threads.close(true);
  EXPECT_TRUE(threads.wait(clock, kHangLimit));
}

TEST_F(CallsTest, of_a_node_that_ends_are_answered_and_new_ones_refused) {
  std::promise<void> release;
  auto released = release.get_future().share();
  publish(
      "slow",
      [released](const NodeId&, SharedBytes, CallReply reply) {
        released.wait();
        reply(SharedBytes{});
      },
      true);
  for (std::uint64_t asked = 0; asked < 4; ++asked)
    hear(peers_[asked % 2], transport::Topic::call, asked, CallHeader{"slow", 1000});
  calls_->withdraw();
  threads_->close(true);
  hear(peers_[0], transport::Topic::call, 9, CallHeader{"slow", 1000});
  const auto refused = link_->next();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->message.stream, 9u);
  const auto refusal = refusal_in(refused);
  ASSERT_TRUE(refusal && refusal->not_run);
  release.set_value();
  SystemClock clock;
  EXPECT_TRUE(threads_->wait(clock, kHangLimit));
  for (int answers = 0; answers < 4; ++answers) ASSERT_TRUE(link_->next());
}

TEST_F(CallsTest, may_not_be_waited_for_on_a_thread_of_the_link) {
  std::optional<Result<SharedBytes>> inner;
  publish("nested", [&](const NodeId&, SharedBytes, CallReply reply) {
    inner = calls_->ask({.name = "both", .timeout = std::chrono::hours(1)});
    reply(SharedBytes{});
  });
  hear(peers_[0], transport::Topic::call, 1, CallHeader{"nested", 1000});
  ASSERT_TRUE(inner && !*inner);
  EXPECT_EQ(inner->error().code, ErrorCode::wrong_state);
}

TEST(PublishedName, that_the_runtime_uses_or_nobody_can_ask_for_is_refused) {
  for (const std::string name : {"", "job.fitness", "queue.accept", "node.x", "model/gpt"})
    EXPECT_FALSE(check_published_name(name)) << name;
  EXPECT_FALSE(check_published_name(std::string(kMaxNameBytes + 1, 'x')));
  EXPECT_TRUE(check_published_name(std::string(kMaxNameBytes, 'x')));
  EXPECT_TRUE(check_published_name("jobs"));
}

}  // namespace
}  // namespace gpunode::node
