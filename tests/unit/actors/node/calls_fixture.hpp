// Calls of a node between two peers, at a link that only notes what is sent.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>

#include "actors/node/call_codec.hpp"
#include "actors/node/calls.hpp"
#include "runtime/transport/detail/limits.hpp"

namespace gpunode::node {

using transport::Lane;
inline constexpr std::chrono::seconds kHangLimit{30};

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
    return note({to, lane, std::move(message)});
  }
  Result<Lane> send_soon(const NodeId& to, transport::Message message) override {
    const Lane lane = transport::detail::lane_of_length(message);
    if (auto sent = note({to, lane, std::move(message), true}); !sent) return sent.error();
    return lane;
  }
  Result<void> note(Sent sent) {
    if (sent.message.payload.size() > transport::kMaxBulkPayloadBytes)
      return {ErrorCode::invalid_argument, "over the limit"};
    std::lock_guard lock(mutex_);
    sent_.push_back(std::move(sent));
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

inline bool is_told(const Answer& answer) {
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
    ASSERT_TRUE(calls_->publish({name, std::move(handler), false, pooled}));
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
  std::shared_ptr<PeerLimits> limits_ =
      std::make_shared<PeerLimits>(PeerLimits::Options{&clock_, &metrics_, &all_may_});
  std::shared_ptr<Calls> calls_ =
      std::make_shared<Calls>(CallsOptions{NodeId{}, link_, &cluster_, &clock_, [](SetEntry) {}, 1,
                                           &metrics_, threads_, &all_may_, limits_});
};

}  // namespace gpunode::node
