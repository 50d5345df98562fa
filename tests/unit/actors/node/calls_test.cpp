// Calls between nodes, at a link that only notes what is sent: which lane and urgency a message
// gets, which calls a broken lane ends, and what the caller hears of an answer that cannot be sent.
#include <gtest/gtest.h>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>

#include "actors/node/call_actor.hpp"
#include "actors/node/call_codec.hpp"
#include "runtime/transport/link.hpp"

namespace gpunode::node {
namespace {

using transport::Lane;
using transport::Urgency;
constexpr std::chrono::seconds kHangLimit{30};

struct Sent {
  Lane lane;
  transport::Message message;
};

class NotingLink final : public transport::Link {
 public:
  void set_peer(transport::PeerAddress) override {}
  void drop_peer(const NodeId&) override {}
  Result<void> send(const NodeId&, Lane lane, transport::Message message) override {
    if (message.payload.size() > transport::kMaxBulkPayloadBytes)
      return {ErrorCode::invalid_argument, "over the limit"};
    std::lock_guard lock(mutex_);
    sent_.push_back({lane, std::move(message)});
    changed_.notify_all();
    return {};
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

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Sent> sent_;
};

class Calls : public ::testing::Test {
 protected:
  void SetUp() override {
    peer_.value[0] = std::byte{1};
    calls_ = spawn_calls(system_, {NodeId{}, link_, &cluster_, &clock_, {}, 1, &metrics_});
  }
  void TearDown() override { caf::anon_send(calls_, Shutdown{}); }

  std::future<Result<SharedBytes>> call(std::size_t bytes) {
    auto answer = std::make_shared<std::promise<Result<SharedBytes>>>();
    caf::anon_send(calls_, CallRequest{peer_, "name", SharedBytes::from(Bytes(bytes)),
                                       std::chrono::hours(1), [answer](Result<SharedBytes> result) {
                                         answer->set_value(std::move(result));
                                       }});
    return answer->get_future();
  }
  // Asks the node for `bytes` of an answer, as a peer does.
  std::optional<Sent> answer_of(std::size_t bytes) {
    caf::anon_send(calls_, Publish{"give",
                                   [bytes](const NodeId&, SharedBytes, CallReply reply) {
                                     reply(SharedBytes::from(Bytes(bytes)));
                                   },
                                   false});
    auto asked = std::make_shared<transport::Message>();
    asked->topic = transport::Topic::call;
    asked->stream = 5;
    asked->body = encode(CallHeader{"give", 1000});
    caf::anon_send(calls_, NetMessage{peer_, Lane::control, asked});
    return link_->next();
  }

  caf::actor_system_config config_;
  std::shared_ptr<NotingLink> link_ = std::make_shared<NotingLink>();
  ClusterState cluster_;
  SystemClock clock_;
  telemetry::Registry metrics_;
  NodeId peer_{};
  caf::actor_system system_{config_};
  caf::actor calls_;
};

constexpr std::size_t kLong = 300 * 1024;

TEST_F(Calls, on_bulk_go_before_the_chunks_of_a_step) {
  auto small = answer_of(10);
  ASSERT_TRUE(small);
  EXPECT_EQ(small->lane, Lane::control);
  auto large = answer_of(kLong);
  ASSERT_TRUE(large);
  EXPECT_EQ(large->lane, Lane::bulk);
  EXPECT_EQ(large->message.urgency, Urgency::high);
}

TEST_F(Calls, whose_answer_is_too_large_are_told_so) {
  auto sent = answer_of(transport::kMaxBulkPayloadBytes + 1);
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->lane, Lane::control);
  EXPECT_EQ(sent->message.payload.size(), 0u);
  auto reply = decode_call(sent->message.body);
  ASSERT_TRUE(reply);
  const auto* header = std::get_if<ReplyHeader>(&*reply);
  ASSERT_TRUE(header);
  EXPECT_FALSE(header->ok);
  EXPECT_EQ(header->error.code, ErrorCode::resource_exhausted);
  EXPECT_NE(header->error.detail.find("16777217 bytes"), std::string::npos);
}

TEST_F(Calls, on_control_outlive_the_bulk_lane) {
  auto on_control = call(10);
  ASSERT_TRUE(link_->next());
  auto on_bulk = call(kLong);
  ASSERT_TRUE(link_->next());
  caf::anon_send(calls_, LinkChanged{peer_, Lane::bulk, LinkState::reset});
  ASSERT_EQ(on_bulk.wait_for(kHangLimit), std::future_status::ready);
  auto lost = on_bulk.get();
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, ErrorCode::peer_lost);
  EXPECT_EQ(on_control.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  caf::anon_send(calls_, LinkChanged{peer_, Lane::control, LinkState::reset});
  ASSERT_EQ(on_control.wait_for(kHangLimit), std::future_status::ready);
  EXPECT_FALSE(on_control.get());
}

// Stands still until told, from any thread.
class SteppedClock final : public Clock {
 public:
  Time now() const override { return Time(Duration(now_)); }
  std::chrono::system_clock::time_point wall() const override { return {}; }
  void advance(Duration by) { now_ += by.count(); }

 private:
  std::atomic<Duration::rep> now_{0};
};

class StaleOffers : public Calls {
 protected:
  void SetUp() override {
    peer_.value[0] = std::byte{1};
    ClusterSnapshot known;
    NodeInfo info;
    info.id = peer_;
    known.nodes = {info};
    known.entries = {{peer_, service_key("name"), {}}};
    cluster_.write(known);
    calls_ = spawn_calls(system_, {NodeId{}, link_, &cluster_, &stepped_, {}, 1, &metrics_});
  }
  SteppedClock stepped_;
};

TEST_F(StaleOffers, are_not_asked_until_the_deadline) {
  auto answer = std::make_shared<std::promise<Result<SharedBytes>>>();
  auto told = answer->get_future();
  caf::anon_send(calls_, CallRequest{{},
                                     "name",
                                     SharedBytes::from(Bytes(1)),
                                     std::chrono::hours(1),
                                     [answer](Result<SharedBytes> result) {
                                       answer->set_value(std::move(result));
                                     }});
  const auto refused = link_->next();
  ASSERT_TRUE(refused);
  auto reply = std::make_shared<transport::Message>();
  reply->topic = transport::Topic::reply;
  reply->stream = refused->message.stream;
  reply->body = encode(ReplyHeader{false, {ErrorCode::not_found, "this node does not offer it"}});
  caf::anon_send(calls_, NetMessage{peer_, Lane::control, reply});
  EXPECT_EQ(told.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout)
      << "news of who offers it may be on its way";
  stepped_.advance(std::chrono::milliseconds(200));
  ASSERT_TRUE(link_->next()) << "it is asked again";
  caf::anon_send(calls_, NetMessage{peer_, Lane::control, reply});
  stepped_.advance(std::chrono::seconds(3));
  ASSERT_EQ(told.wait_for(kHangLimit), std::future_status::ready);
  const auto end = told.get();
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace gpunode::node
