// What the join port stands: strangers, floods, relays, and a disk that takes nothing more.
#include "tests/unit/runtime/security/join_world.hpp"

#include <gtest/gtest.h>

namespace gpunode::security {
namespace {

using namespace std::chrono_literals;

TEST(JoinLimits, counts_strangers_in_the_audit_log_and_does_not_write_each_down) {
  World world;
  const std::uint64_t before = world.founder.audit->entries();
  for (int round = 0; round < 100; ++round) {
    JoinToken forged = world.token();
    forged.secret = random_secret<32>();
    const Bytes frame = *encode_request({}, world.joiner.identity, forged);
    ASSERT_TRUE(world.ask(world.founder, frame, "10.1.0." + std::to_string(round)));
  }
  EXPECT_EQ(world.founder.audit->entries(), before);
  for (int minute = 0; minute < 3; ++minute) {
    world.founder.server->on_tick(world.clock.now(), world.clock.wall());
    world.clock.advance(1min);
  }
  EXPECT_EQ(world.founder.audit->entries(), before + 1);
}

TEST(JoinLimits, limits_what_one_member_may_relay) {
  World world;
  JoinToken forged = world.token();
  forged.secret = random_secret<32>();
  const Bytes frame = *encode_request({}, world.joiner.identity, forged);
  int refused = 0;
  for (std::uint64_t relay = 0; relay < 100; ++relay) {
    const auto actions = world.founder.server->on_relayed(world.clock.now(), world.clock.wall(),
                                                          world.member.identity.id(), relay, frame);
    for (const auto& action : actions)
      if (const auto* back = std::get_if<JoinServer::AnswerRelay>(&action)) {
        const auto answer = decode_answer(back->frame, world.member.identity, NodeId{}, Nonce{});
        refused += answer && answer->refusal == JoinRefusal::too_many;
      }
  }
  EXPECT_EQ(refused, 36);
}

TEST(JoinLimits, limits_what_one_address_may_ask) {
  World world;
  JoinHello hello;
  int banners = 0;
  for (int round = 0; round < 100; ++round) {
    auto answer = world.ask(world.founder, encode_hello(hello));
    ASSERT_TRUE(answer);
    banners += frame_kind(*answer) == JoinFrame::banner;
  }
  EXPECT_EQ(banners, 16);
  auto action = world.join(world.token(), world.founder);
  EXPECT_EQ(outcome(action), "too_many_joins");
  EXPECT_TRUE(world.ask(world.founder, encode_hello(hello), "10.0.0.10"));
}

TEST(JoinLimits, takes_a_network_of_the_sixth_version_for_one_party) {
  World world;
  int banners = 0;
  for (int round = 0; round < 100; ++round) {
    auto answer = world.ask(world.founder, encode_hello(JoinHello{}),
                            "2001:db8:0:7::" + std::to_string(round + 1));
    banners += answer && frame_kind(*answer) == JoinFrame::banner;
  }
  EXPECT_EQ(banners, 16);
}

// A stranger needs no token to have requests passed on that nobody can open.
TEST(JoinLimits, who_has_a_token_gets_in_beside_what_others_have_relayed) {
  World world;
  JoinToken forged = world.token();
  forged.secret = random_secret<32>();
  const Bytes frame = *encode_request({}, world.joiner.identity, forged);
  for (std::uint64_t second = 0; second < 60; ++second, world.clock.advance(1s))
    for (std::uint64_t stranger = 0; stranger < 10; ++stranger)
      (void)world.ask(world.member, frame, "10.1.0." + std::to_string(stranger));
  EXPECT_EQ(outcome(world.join(world.token(), world.member)), "joined");
}

TEST(JoinLimits, a_member_that_joins_again_and_again_waits) {
  World world;
  const JoinToken token = world.token();
  const auto before = world.founder.audit->entries();
  int joined = 0;
  for (int round = 0; round < 200; ++round, world.clock.advance(1s)) {
    JoinClient client = world.client(*JoinToken::parse(token.text()));
    joined += outcome(world.run(client, world.founder)) == "joined";
  }
  EXPECT_GE(joined, 4);
  EXPECT_LE(joined, 1 + 4 + 20) << "one in ten seconds, but for the first";
  EXPECT_LE(world.founder.audit->entries(), before + 30);
}

TEST(JoinLimits, many_with_a_token_get_in_from_one_address_at_once) {
  for (const bool relayed : {false, true}) {
    SCOPED_TRACE(relayed);
    World world;
    const std::string token =
        world.founder.tokens
            ->create({std::chrono::minutes(15), 40, {"tcp://10.0.0.1:7600"}}, world.cluster,
                     world.founder.identity, world.clock.wall())
            ->text();
    for (int number = 0; number < 30; ++number) {
      world.joiner.identity = Identity::create();
      JoinClient client = world.client(std::move(*JoinToken::parse(token)));
      const JoinClient::Action end = world.run(client, relayed ? world.member : world.founder);
      EXPECT_TRUE(std::holds_alternative<JoinClient::Joined>(end)) << number;
    }
  }
}

// Each new node is work for every node of the cluster.
TEST(JoinLimits, by_one_token_so_many_new_nodes_join_at_once_and_then_one_a_second) {
  World world;
  const auto token_text = [&] {
    return world.founder.tokens
        ->create({std::chrono::minutes(15), 400, {"tcp://10.0.0.1:7600"}}, world.cluster,
                 world.founder.identity, world.clock.wall())
        ->text();
  };
  const std::string token = token_text(), other = token_text();
  const auto joins = [&](const std::string& text) {
    JoinClient client = world.client(std::move(*JoinToken::parse(text)));
    return outcome(world.run(client, world.founder));
  };
  const auto joins_anew = [&](const std::string& text) {
    world.joiner.identity = Identity::create();
    return joins(text);
  };
  int joined = 0;
  for (int number = 0; number < JoinServer::kJoinsAtOnce; ++number)
    joined += joins_anew(token) == "joined";
  EXPECT_EQ(joined, JoinServer::kJoinsAtOnce);
  EXPECT_EQ(joins_anew(token), "too_many_joins");
  EXPECT_EQ(joins_anew(other), "joined");
  EXPECT_EQ(joins(other), "joined") << "who was let in is";
  world.clock.advance(1s);
  EXPECT_EQ(joins_anew(token), "joined");
  EXPECT_EQ(joins_anew(token), "too_many_joins");
}

TEST(JoinLimits, bounds_what_is_in_progress) {
  World world;
  std::size_t relays = 0;
  for (int round = 0; round < 200; ++round) {
    Bytes frame = *encode_request({}, world.joiner.identity, world.token());
    auto actions = world.member.server->on_frame(world.clock.now(), world.clock.wall(), 7,
                                                 std::to_string(round), frame);
    relays += std::holds_alternative<JoinServer::Relay>(actions.at(0));
  }
  EXPECT_EQ(relays, JoinServer::kMaxPending);
  EXPECT_EQ(world.member.server->pending(), JoinServer::kMaxPending);
}

TEST(JoinLimits, promises_nothing_that_the_disk_did_not_take) {
  World world;
  JoinToken token = world.token();
  std::string text = token.text();
  world.founder.files.disk_full_after(0);
  auto action = world.join(std::move(token), world.founder);
  EXPECT_EQ(outcome(action), "refused");
  EXPECT_NE(sentence(action).find("disk_full"), std::string::npos);
  EXPECT_GT(world.founder.files.fired(), 0u);
  world.founder.files.heal();
  EXPECT_EQ(outcome(world.join(std::move(*JoinToken::parse(text)), world.founder)), "joined");
}

TEST(JoinLimits, keeps_what_it_admitted_over_a_power_loss) {
  World world;
  std::string text = world.token().text();
  ASSERT_EQ(outcome(world.join(std::move(*JoinToken::parse(text)), world.founder)), "joined");
  NodeId admitted = world.joiner.identity.id();
  world.founder.disk.crash();
  world.founder.start(world.cluster, "first");
  EXPECT_NE(world.founder.admissions->snapshot()->find(admitted), nullptr);
  world.joiner.identity = Identity::create();
  EXPECT_EQ(outcome(world.join(std::move(*JoinToken::parse(text)), world.founder)),
            "token_used_up");
}

}  // namespace
}  // namespace gpunode::security
