// Finding 16 of the review: who holds a token could have the issuer dial whatever it liked.
#include <gtest/gtest.h>

#include "tests/unit/runtime/security/join_world.hpp"

namespace gpunode::security {
namespace {

using Texts = std::vector<std::string>;

JoinAnswer answer_of(const JoinClient::Action& action) {
  return std::get<JoinClient::Joined>(action).answer;
}

TEST(JoinDialBack, goes_to_the_address_that_the_joiner_comes_from) {
  World world;
  world.record.advertised = {"tcp://10.0.0.9:7601"};
  auto action = world.join(world.token(), world.founder);
  ASSERT_EQ(outcome(action), "joined") << sentence(action);
  EXPECT_TRUE(answer_of(action).reachable);
  EXPECT_EQ(world.dialled, Texts{"tcp://10.0.0.9:7601"});
}

TEST(JoinDialBack, goes_nowhere_else) {
  for (const char* other :
       {"tcp://10.0.0.8:22", "tcp://127.0.0.1:7601", "tcp://[::1]:80", "tcp://10.0.0.1:7601",
        "http://10.0.0.9:80", "tcp://10.0.0.9:", "tcp://10.0.0.9:123456", "nonsense"}) {
    for (Node World::*door : {&World::founder, &World::member}) {
      World world;
      world.record.advertised = {other};
      auto action = world.join(world.token(), world.*door);
      ASSERT_EQ(outcome(action), "joined") << sentence(action);
      EXPECT_FALSE(answer_of(action).reachable) << other;
      EXPECT_NE(answer_of(action).detail.find("seen from 10.0.0.9"), std::string::npos);
      EXPECT_EQ(world.dialled, Texts{}) << other;
    }
  }
}

TEST(JoinDialBack, tries_for_a_name_what_is_at_the_joiners_own_address) {
  World world;
  world.record.advertised = {"tcp://gpu9.example:7601"};
  EXPECT_EQ(outcome(world.join(world.token(), world.founder)), "joined");
  EXPECT_EQ(world.dialled, Texts{"tcp://10.0.0.9:7601"});
}

TEST(JoinDialBack, is_done_by_the_relay_as_it_sees_where_the_joiner_comes_from) {
  World world;
  world.record.advertised = {"tcp://10.0.0.9:7601"};
  auto action = world.join(world.token(), world.member);
  ASSERT_EQ(outcome(action), "joined") << sentence(action);
  EXPECT_TRUE(answer_of(action).reachable);
  EXPECT_EQ(world.dialled, Texts{"tcp://10.0.0.9:7601"});
  EXPECT_EQ(world.member.server->pending(), 0u);
  EXPECT_EQ(world.founder.server->pending(), 0u);
}

TEST(JoinDialBack, heeds_no_wish_but_of_the_issuer_of_a_request_that_is_relayed_and_one) {
  World world;
  Bytes frame = *encode_request({}, world.joiner.identity, world.token());
  auto relayed =
      world.member.server->on_frame(world.clock.now(), world.clock.wall(), 7, kAddress, frame);
  const std::uint64_t relay = std::get<JoinServer::Relay>(relayed.at(0)).relay;
  const auto wish = [&](const NodeId& issuer, std::uint64_t number) {
    return world.member.server->on_dial_wish(world.clock.now(), issuer, number,
                                             {"tcp://10.0.0.9:22"});
  };
  EXPECT_TRUE(wish(world.joiner.identity.id(), relay).empty()) << "another node's";
  EXPECT_TRUE(wish(world.founder.identity.id(), relay + 1).empty()) << "of no relay";
  EXPECT_EQ(wish(world.founder.identity.id(), relay).size(), 1u);
  EXPECT_TRUE(wish(world.founder.identity.id(), relay).empty()) << "a second one";
}

TEST(JoinDialBack, goes_where_the_owner_has_said_that_nodes_are) {
  World world;
  world.founder.allow = {"192.0.2.0/24"};
  world.founder.start(world.cluster, "first");
  world.record.advertised = {"tcp://192.0.2.7:7601", "tcp://198.51.100.7:7601"};
  auto action = world.join(world.token(), world.founder);
  EXPECT_EQ(outcome(action), "joined");
  EXPECT_EQ(world.dialled, Texts{"tcp://192.0.2.7:7601"});
}

TEST(JoinDialBack, takes_this_machines_own_addresses_for_one) {
  World world;
  world.record.advertised = {"tcp://10.0.0.1:7601"};
  JoinClient client = world.client(world.token());
  client.on_start();
  const auto ask = [&](const JoinClient::Action& action) {
    return world.ask(world.founder, std::get<JoinClient::Ask>(action).frame, "127.0.0.1");
  };
  auto banner = ask(client.on_dialled());
  auto answer = ask(client.on_answer(world.clock.wall(), *banner));
  auto action = client.on_answer(world.clock.wall(), *answer);
  ASSERT_EQ(outcome(action), "joined") << sentence(action);
  EXPECT_EQ(world.dialled, Texts{"tcp://10.0.0.1:7601"});
}

TEST(JoinDialBack, tells_who_insists_on_another_address_what_to_do) {
  World world;
  world.record.advertised = {"tcp://192.168.0.2:7601"};
  world.record.must_be_reachable = true;
  auto action = world.join(world.token(), world.founder);
  EXPECT_EQ(outcome(action), "address_not_reachable");
  for (const char* part : {"192.168.0.2:7601", "seen from 10.0.0.9", "NAT", "--allow"})
    EXPECT_NE(sentence(action).find(part), std::string::npos) << part << sentence(action);
  EXPECT_EQ(world.dialled, Texts{});
}

TEST(JoinDialBack, is_an_attempt_more_and_two_at_most) {
  World world;
  world.dial_back_works = false;
  world.record.must_be_reachable = true;
  world.record.advertised.clear();
  for (int port = 1; port <= 8; ++port)
    world.record.advertised.push_back("tcp://10.0.0.9:" + std::to_string(port));
  const std::string text = world.token().text();
  std::size_t tries = 0;
  for (int round = 0; round < 100; ++round) {
    JoinClient client = world.client(std::move(*JoinToken::parse(text)));
    world.run(client, world.founder);
    if (round == 0) {
      EXPECT_EQ(world.dialled.size(), 2u);
    }
    tries = world.dialled.size();
  }
  EXPECT_LE(tries, 8u) << "of the 16 attempts at once half are frames";
}

}  // namespace
}  // namespace gpunode::security
