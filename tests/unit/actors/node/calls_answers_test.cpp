// Calls between nodes, from the answering side: what runs, how much of it, and what is refused.
#include "tests/unit/actors/node/calls_fixture.hpp"

namespace gpunode::node {
namespace {

// Counts those that have begun, which answer once they are released.
CallHandler waiting_for(std::promise<void>& release, std::atomic<int>& entered) {
  return [&entered, released = release.get_future().share()](const NodeId&, SharedBytes,
                                                             CallReply reply) {
    ++entered;
    released.wait();
    reply(SharedBytes{});
  };
}

TEST_F(CallsTest, beyond_the_bound_of_the_handlers_are_refused_unrun) {
  std::promise<void> release;
  std::atomic<int> entered{0};
  publish("slow", waiting_for(release, entered), true);
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
  std::atomic<int> entered{0};
  publish("slow", waiting_for(release, entered), true);
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
  calls_ =
      std::make_shared<Calls>(CallsOptions{NodeId{}, link_, &cluster_, &clock_, [](SetEntry) {}, 1,
                                           &metrics_, threads, &all_may_, limits_});
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

TEST_F(CallsTest, beyond_what_waits_of_a_peer_are_refused_unrun_and_those_of_others_run) {
  std::vector<CallReply> unanswered;
  publish("hold", [&](const NodeId&, SharedBytes, CallReply reply) {
    unanswered.push_back(std::move(reply));
  });
  const std::size_t kPart = transport::kMaxBulkPayloadBytes;
  const auto ask = [&](const NodeId& from, std::uint64_t call) {
    transport::Message message{transport::Topic::call, call, encode(CallHeader{"hold", 1000}),
                               SharedBytes::from(Bytes(kPart))};
    calls_->on_message(from, message);
  };
  const std::size_t most = limit_of(Load::service).bytes / kPart + 1;
  std::uint64_t call = 0;
  while (link_->silent() && call < most + 1) ask(peers_[0], call++);
  const auto refused = link_->next();
  const auto refusal = refusal_in(refused);
  ASSERT_TRUE(refusal && refusal->not_run);
  EXPECT_EQ(refusal->error.code, ErrorCode::resource_exhausted);
  EXPECT_EQ(unanswered.size(), call - 1);
  ask(peers_[1], 100);
  EXPECT_EQ(unanswered.size(), call);
  unanswered.clear();  // and so they are answered
  while (link_->next()->message.stream != 100) continue;
  ask(peers_[0], 101);
  EXPECT_EQ(unanswered.size(), 1u);
}

TEST_F(CallsTest, of_who_does_not_read_its_answers_get_no_more_of_them) {
  const std::size_t kPart = transport::kMaxBulkPayloadBytes;
  publish("give", [kPart](const NodeId&, SharedBytes, CallReply reply) {
    reply(SharedBytes::from(Bytes(kPart)));
  });
  std::vector<Sent> unsent;
  const std::size_t most = limit_of(Load::service).bytes / kPart + 1;
  for (std::uint64_t call = 0; call <= most; ++call) {
    hear(peers_[0], transport::Topic::call, call, CallHeader{"give", 1000});
    unsent.push_back(*link_->next());
  }
  EXPECT_EQ(unsent.front().message.payload.size(), kPart);
  const auto refusal = refusal_in(unsent.back());
  ASSERT_TRUE(refusal && !refusal->ok);
  EXPECT_EQ(refusal->error.code, ErrorCode::resource_exhausted);
  hear(peers_[1], transport::Topic::call, 1, CallHeader{"give", 1000});
  EXPECT_EQ(link_->next()->message.payload.size(), kPart);
  unsent.clear();  // they have left
  hear(peers_[0], transport::Topic::call, 1, CallHeader{"give", 1000});
  EXPECT_EQ(link_->next()->message.payload.size(), kPart);
}

TEST_F(CallsTest, that_make_the_node_work_are_refused_beyond_their_rate) {
  int run = 0;
  publish("job.create", [&](const NodeId&, SharedBytes, CallReply reply) {
    ++run;
    reply(SharedBytes{});
  });
  const int burst = static_cast<int>(limit_of(Load::work).burst);
  for (int call = 0; call <= burst; ++call) {
    hear(peers_[0], transport::Topic::call, 1, CallHeader{"job.create", 1000});
    const auto answer = refusal_in(link_->next());
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->ok, run == call + 1) << call;
  }
  EXPECT_GE(run, burst - 1) << "each counts a little more than one, for its bytes";
  EXPECT_LE(run, burst);
  const int before = run;
  hear(peers_[1], transport::Topic::call, 1, CallHeader{"job.create", 1000});
  EXPECT_EQ(run, before + 1);
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

}  // namespace
}  // namespace gpunode::node
