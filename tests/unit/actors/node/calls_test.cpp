// Calls between nodes, from the asking side: who is asked again and who is not, and how each ends.
#include <set>
#include <thread>

#include "runtime/directory/directory_codec.hpp"
#include "tests/unit/actors/node/calls_fixture.hpp"

namespace gpunode::node {
namespace {

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

TEST_F(CallsTest, that_find_a_replica_full_go_to_another_where_they_say_so) {
  const ReplyHeader full{false, {ErrorCode::resource_exhausted, "full"}, false, false};
  // Without a word the handler's error is the answer.
  const Answer plain = call_name("both");
  reply(*link_->next(), full);
  ASSERT_TRUE(is_told(plain));
  const Answer elsewhere =
      call({.name = "both", .request = SharedBytes::from(Bytes(1)), .elsewhere_if_refused = true});
  const auto first = link_->next();
  reply(*first, full);
  EXPECT_FALSE(is_told(elsewhere));
  const auto second = link_->next();
  EXPECT_NE(second->to, first->to);
  // And when all are full, the last one's word is.
  reply(*second, full);
  ASSERT_TRUE(is_told(elsewhere));
  EXPECT_TRUE(link_->silent());
}

TEST_F(CallsTest, that_a_replica_cannot_answer_now_go_to_another_where_they_say_so) {
  const ReplyHeader away{false, {ErrorCode::unavailable, "a part is missing"}, false, false};
  const Answer plain = call_name("both");
  reply(*link_->next(), away);
  ASSERT_TRUE(is_told(plain));
  const Answer elsewhere =
      call({.name = "both", .request = SharedBytes::from(Bytes(1)), .elsewhere_if_refused = true});
  const auto first = link_->next();
  reply(*first, away);
  const auto second = link_->next();
  EXPECT_NE(second->to, first->to);
  reply(*second, ReplyHeader{});
  EXPECT_TRUE(is_told(elsewhere));
  // Where none can, that is what is told, at once.
  const Answer nowhere =
      call({.name = "both", .request = SharedBytes::from(Bytes(1)), .elsewhere_if_refused = true});
  for (int replica = 0; replica < 2; ++replica) reply(*link_->next(), away);
  EXPECT_TRUE(is_told(nowhere));
  EXPECT_TRUE(link_->silent());
}

TEST_F(CallsTest, go_to_who_offers_in_reserve_where_no_other_is_left) {
  ClusterSnapshot known = *cluster_.read();
  known.entries = {{peers_[0], service_key("both"), {std::byte{1}}},
                   {peers_[1], service_key("both"), {}}};
  cluster_.write(known);
  const ReplyHeader full{false, {ErrorCode::resource_exhausted, "full"}, false, false};
  for (int i = 0; i < 20; ++i) {
    const Answer answer = call(
        {.name = "both", .request = SharedBytes::from(Bytes(1)), .elsewhere_if_refused = true});
    const auto first = link_->next();
    EXPECT_EQ(first->to, peers_[1]);
    reply(*first, full);
    const auto second = link_->next();
    EXPECT_EQ(second->to, peers_[0]);
    reply(*second, ReplyHeader{});
    EXPECT_TRUE(is_told(answer));
  }
  known.entries.pop_back();
  cluster_.write(known);
  const Answer alone = call_name("both");
  EXPECT_EQ(link_->next()->to, peers_[0]);
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

TEST_F(CallsTest, that_may_be_repeated_are_for_a_handler_that_was_lost_and_not_for_what_it_says) {
  auto said = call_name("both", true);
  reply(*link_->next(), {false, {ErrorCode::unavailable, "it says"}, false, false});
  ASSERT_TRUE(is_told(said));
  EXPECT_EQ(said.get().error().detail, "it says");
  auto lost = call_name("both", true);
  const auto first = link_->next();
  ASSERT_TRUE(first);
  reply(*first, {false, {ErrorCode::unavailable, "has ended"}, false, true});
  EXPECT_FALSE(is_told(lost));
  const auto second = link_->next();
  ASSERT_TRUE(second);
  EXPECT_NE(second->to, first->to);
}

TEST_F(CallsTest, whose_handler_ends_without_an_answer_are_told_that_it_was_lost) {
  publish("forgets", [](const NodeId&, SharedBytes, const CallReply&) {});
  hear(peers_[0], transport::Topic::call, 5, CallHeader{"forgets", 1000});
  const auto told = refusal_in(link_->next());
  ASSERT_TRUE(told);
  EXPECT_TRUE(told->lost && !told->ok && !told->not_run);
}

TEST_F(CallsTest, may_wait_for_a_place_less_long_than_for_an_answer) {
  auto answer = call({.name = "nobody's", .placed_within = std::chrono::seconds(3)});
  clock_.advance(std::chrono::milliseconds(2900));
  (void)calls_->on_tick();
  EXPECT_FALSE(is_told(answer));
  clock_.advance(std::chrono::milliseconds(100));
  (void)calls_->on_tick();
  ASSERT_TRUE(is_told(answer));
  EXPECT_EQ(answer.get().error().code, ErrorCode::unavailable);
}

TEST_F(CallsTest, tell_their_handler_how_long_they_are_waited_for) {
  std::vector<Time> deadlines;
  publish("name", [&](const NodeId&, SharedBytes, const CallReply& reply) {
    deadlines.push_back(reply.deadline());
    reply(SharedBytes{});
  });
  hear(peers_[0], transport::Topic::call, 5, CallHeader{"name", 700});
  ASSERT_EQ(deadlines.size(), 1u);
  EXPECT_EQ(deadlines[0], clock_.now() + std::chrono::milliseconds(700));
}

TEST_F(CallsTest, may_be_published_by_what_an_earlier_handler_held) {
  struct Publishes {
    std::function<void()> then;
    ~Publishes() { then(); }
  };
  bool ran = false;
  auto held = std::make_shared<Publishes>([&] {
    publish("other", [](const NodeId&, SharedBytes, CallReply reply) { reply(SharedBytes{}); });
    ran = true;
  });
  publish("name", [held](const NodeId&, SharedBytes, CallReply reply) { reply(SharedBytes{}); });
  held.reset();
  publish("name", nullptr);
  EXPECT_TRUE(ran);
}

TEST_F(CallsTest, are_published_under_as_many_names_as_others_can_be_told_of) {
  EXPECT_TRUE(check_published_name(std::string(kMaxNameBytes, 'n')));
  EXPECT_FALSE(check_published_name(std::string(kMaxNameBytes + 1, 'n')));
  EXPECT_LE(service_key(std::string(kMaxNameBytes, 'n')).size(), directory::kMaxKeyBytes);
  const auto listed = [&](int number) {
    return calls_->publish({std::to_string(number), [](const auto&...) {}, true, false});
  };
  int count = 0;
  while (count < 2000 && listed(count)) ++count;
  EXPECT_EQ(listed(count).error().code, ErrorCode::resource_exhausted);
  EXPECT_LT(static_cast<std::size_t>(count), directory::kMaxKeysPerOwner);
  EXPECT_TRUE(listed(0)) << "one that it has may be replaced";
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
  EXPECT_FALSE(is_told(answer)) << "news of another may be on its way";
  clock_.advance(std::chrono::milliseconds(60));
  calls_->on_tick();
  ASSERT_TRUE(is_told(answer));
  EXPECT_EQ(answer.get().error().code, ErrorCode::peer_lost);
  EXPECT_TRUE(link_->silent());
}

TEST_F(CallsTest, are_not_given_to_who_was_lost_a_moment_ago) {
  calls_->on_peer_gone(peers_[0]);
  for (int i = 0; i < 20; ++i) {
    const Answer answer = call_name("both");
    const auto sent = link_->next();
    ASSERT_EQ(sent->to, peers_[1]);
    reply(*sent, ReplyHeader{});
  }
  const Answer waiting = call_name("one");
  EXPECT_TRUE(link_->silent());
  calls_->on_peer_here(peers_[0]);
  clock_.advance(std::chrono::milliseconds(60));
  calls_->on_tick();
  EXPECT_EQ(link_->next()->to, peers_[0]);
}

TEST_F(CallsTest, end_with_a_node_that_is_dead_by_all_that_is_known) {
  auto answer = call_name("both");
  const auto sent = link_->next();
  ClusterSnapshot known = *cluster_.read();
  for (NodeInfo& node : known.nodes)
    if (node.id == sent->to) node.health = PeerHealth::dead;
  cluster_.write(known);
  calls_->on_tick();
  ASSERT_TRUE(is_told(answer));
  EXPECT_EQ(answer.get().error().code, ErrorCode::peer_lost);
}

TEST_F(CallsTest, are_sent_once_though_another_thread_looks_after_them) {
  std::atomic<bool> ends = false;
  std::thread looks([&] {
    while (!ends) calls_->on_tick();
  });
  std::vector<Answer> answers;
  for (int i = 0; i < 3000; ++i) answers.push_back(call_name("both"));
  ends = true;
  looks.join();
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 3000; ++i) EXPECT_TRUE(seen.insert(link_->next()->message.stream).second);
  EXPECT_TRUE(link_->silent());
}

TEST_F(CallsTest, that_have_run_are_not_run_elsewhere_as_their_answer_cannot_be_sent) {
  const Answer answer =
      call({.name = "both", .request = SharedBytes::from(Bytes(1)), .elsewhere_if_refused = true});
  reply(*link_->next(), {.ok = false,
                         .error = {ErrorCode::resource_exhausted, "the answer is too long"},
                         .unsent = true});
  EXPECT_TRUE(is_told(answer));
  EXPECT_TRUE(link_->silent());
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

TEST(PublishedName, that_the_runtime_uses_or_nobody_can_ask_for_is_refused) {
  for (const std::string name : {"", "job.fitness", "queue.accept", "node.x", "model/gpt"})
    EXPECT_FALSE(check_published_name(name)) << name;
  EXPECT_FALSE(check_published_name(std::string(kMaxNameBytes + 1, 'x')));
  EXPECT_TRUE(check_published_name(std::string(kMaxNameBytes, 'x')));
  EXPECT_TRUE(check_published_name("jobs"));
}

}  // namespace
}  // namespace gpunode::node
