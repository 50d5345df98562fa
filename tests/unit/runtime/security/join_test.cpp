// The join protocol end to end, without sockets: every way in, and every way not to get in.
#include "tests/unit/runtime/security/join_world.hpp"

#include <gtest/gtest.h>

namespace gpunode::security {
namespace {

using namespace std::chrono_literals;

TEST(Join, admits_through_the_issuer) {
  World world;
  auto action = world.join(world.token(), world.founder);
  ASSERT_EQ(outcome(action), "joined") << sentence(action);
  const auto& joined = std::get<JoinClient::Joined>(action);
  EXPECT_EQ(joined.cluster, world.cluster);
  EXPECT_EQ(joined.answer.admission.node, world.joiner.identity.id());
  EXPECT_EQ(joined.answer.admission.name, "third");
  EXPECT_EQ(joined.answer.admission.rights, kRightsDefault);
  EXPECT_EQ(joined.answer.credentials.admissions.size(), 2u) << "its issuer's, and its own";
  EXPECT_EQ(as_text(joined.answer.members), "members");
  EXPECT_FALSE(joined.answer.reachable);
  ASSERT_EQ(world.told.size(), 1u);
  const auto list = world.founder.admissions->snapshot();
  EXPECT_TRUE(list->is_member(world.joiner.identity.id(), world.clock.wall()));
  ASSERT_TRUE(list->owner_of(world.joiner.identity.curve_key()));
  EXPECT_EQ(*list->owner_of(world.joiner.identity.curve_key()), world.joiner.identity.id());
  EXPECT_EQ(world.founder.audit->entries(), 1u);
}

TEST(Join, admits_through_a_member_that_relays) {
  World world;
  auto action = world.join(world.token(), world.member);
  ASSERT_EQ(outcome(action), "joined") << sentence(action);
  EXPECT_EQ(world.member.server->pending(), 0u);
  EXPECT_EQ(world.founder.server->pending(), 0u);
}

TEST(Join, lets_a_token_be_used_as_often_as_it_may) {
  World world;
  auto book = world.founder.tokens->create({15min, 2, {"tcp://a:1"}}, world.cluster,
                                           world.founder.identity, world.clock.wall());
  ASSERT_TRUE(book);
  std::string text = book->text();
  auto attempt = [&] {
    world.joiner.identity = Identity::create();
    return world.join(std::move(*JoinToken::parse(text)), world.founder);
  };
  EXPECT_EQ(outcome(attempt()), "joined");
  EXPECT_EQ(outcome(attempt()), "joined");
  auto third = attempt();
  EXPECT_EQ(outcome(third), "token_used_up");
  EXPECT_NE(sentence(third).find("--uses"), std::string::npos);
}

TEST(Join, answers_the_same_node_again_when_its_answer_was_lost) {
  World world;
  std::string text = world.token().text();
  auto first = world.join(std::move(*JoinToken::parse(text)), world.founder);
  auto again = world.join(std::move(*JoinToken::parse(text)), world.founder);
  ASSERT_EQ(outcome(first), "joined");
  ASSERT_EQ(outcome(again), "joined");
  EXPECT_EQ(std::get<JoinClient::Joined>(first).answer.admission,
            std::get<JoinClient::Joined>(again).answer.admission);
}

TEST(Join, gives_a_replayed_frame_to_nobody_else) {
  World world;
  JoinClient client = world.client(world.token());
  client.on_start();
  auto hello = client.on_dialled();
  auto banner = world.ask(world.founder, std::get<JoinClient::Ask>(hello).frame);
  Bytes request = std::get<JoinClient::Ask>(client.on_answer(world.clock.wall(), *banner)).frame;
  ASSERT_TRUE(world.ask(world.founder, request));
  auto replayed = world.ask(world.founder, request, "10.6.6.6");
  ASSERT_TRUE(replayed);
  Identity thief = Identity::create();
  EXPECT_FALSE(decode_answer(*replayed, thief, world.founder.identity.id(), Nonce{}));
  world.clock.advance(2min);
  auto later = world.ask(world.founder, request, "10.6.6.6");
  ASSERT_TRUE(later);
  EXPECT_EQ(outcome(client.on_answer(world.clock.wall(), *later)), "connection_lost");
  EXPECT_EQ(world.founder.admissions->snapshot()->size(), 3u);
}

TEST(Join, names_a_token_that_expired_while_the_joiner_waited) {
  World world;
  JoinToken token = world.token();
  JoinClient client = world.client(std::move(token));
  client.on_start();
  world.clock.advance(15min - 10s);
  auto banner = world.ask(world.founder, std::get<JoinClient::Ask>(client.on_dialled()).frame);
  auto ask = client.on_answer(world.clock.wall(), *banner);
  world.clock.advance(20s);
  auto answer = world.ask(world.founder, std::get<JoinClient::Ask>(ask).frame);
  EXPECT_EQ(outcome(client.on_answer(world.clock.wall(), *answer)), "token_expired");
  EXPECT_EQ(world.founder.admissions->snapshot()->size(), 2u);
}

TEST(Join, names_an_expired_token_before_it_is_sent) {
  World world;
  JoinToken token = world.token();
  world.clock.advance(15min);
  auto action = world.join(std::move(token), world.founder);
  EXPECT_EQ(outcome(action), "token_expired");
  EXPECT_NE(sentence(action).find("2023-11-14 22:28:20 UTC"), std::string::npos);
}

TEST(Join, names_a_wrong_token) {
  World world;
  JoinToken forged = world.token();
  forged.secret = random_secret<32>();
  EXPECT_EQ(outcome(world.join(std::move(forged), world.founder)), "wrong_token");
  JoinToken unknown = world.token();
  unknown.id = random_array<16>();
  EXPECT_EQ(outcome(world.join(std::move(unknown), world.member)), "wrong_token");
  JoinToken other_key = world.token();
  other_key.issuer_curve = Identity::create().curve_key();
  EXPECT_EQ(outcome(world.join(std::move(other_key), world.founder)), "wrong_token");
  EXPECT_TRUE(world.told.empty());
}

TEST(Join, names_another_cluster) {
  World world, other;
  auto action = world.join(other.token(), world.founder);
  EXPECT_EQ(outcome(action), "other_cluster");
  EXPECT_NE(sentence(action).find("first"), std::string::npos);
}

TEST(Join, names_both_clocks_when_they_differ) {
  for (auto skew : {6min, -6min}) {
    World world;
    JoinClient client = world.client(world.token());
    client.on_start();
    auto banner = world.ask(world.founder, std::get<JoinClient::Ask>(client.on_dialled()).frame);
    auto action = client.on_answer(world.clock.wall() + skew, *banner);
    EXPECT_EQ(outcome(action), "clock_skew");
    EXPECT_NE(sentence(action).find("22:13:20 UTC"), std::string::npos) << sentence(action);
    EXPECT_NE(sentence(action).find(skew > 0min ? "22:19:20 UTC" : "22:07:20 UTC"),
              std::string::npos);
  }
}

TEST(Join, names_an_issuer_that_was_put_out) {
  World world;
  const auto token = world.member.tokens->create(
      {std::chrono::minutes(15), 1, {"tcp://10.0.0.1:7600"}, kRightsDefault}, world.cluster,
      world.member.identity, world.clock.wall());
  ASSERT_TRUE(token);
  ASSERT_TRUE(world.founder.admissions->revoke(
      world.founder.identity, {.node = world.member.identity.id()}, world.clock.wall()));
  const auto action = world.join(*JoinToken::parse(token->text()), world.founder);
  EXPECT_EQ(outcome(action), "wrong_token");
  EXPECT_NE(sentence(action).find("was put out"), std::string::npos) << sentence(action);
}

TEST(Join, names_an_issuer_that_is_away_or_dies_on_the_way) {
  World world;
  world.member.up.clear();
  auto action = world.join(world.token(), world.member);
  EXPECT_EQ(outcome(action), "issuer_away");
  EXPECT_NE(sentence(action).find("Make a token on any node that is up"), std::string::npos);

  world.member.up.insert(world.founder.identity.id());
  JoinClient client = world.client(world.token());
  client.on_start();
  auto banner = world.ask(world.member, std::get<JoinClient::Ask>(client.on_dialled()).frame);
  auto ask = client.on_answer(world.clock.wall(), *banner);
  auto actions = world.member.server->on_frame(world.clock.now(), world.clock.wall(), 7, kAddress,
                                               std::get<JoinClient::Ask>(ask).frame);
  ASSERT_EQ(actions.size(), 1u);
  ASSERT_TRUE(std::holds_alternative<JoinServer::Relay>(actions[0]));
  EXPECT_TRUE(world.member.server->on_tick(world.clock.now() + 7s, world.clock.wall()).empty());
  auto late = world.settle(
      world.member, world.member.server->on_tick(world.clock.now() + 8s, world.clock.wall()));
  ASSERT_TRUE(late);
  EXPECT_EQ(outcome(client.on_answer(world.clock.wall(), *late)), "issuer_away");
  EXPECT_EQ(world.member.server->pending(), 0u);
}

TEST(Join, names_an_advertised_address_that_cannot_be_reached) {
  World world;
  world.dial_back_works = false;
  world.record.advertised = {"tcp://10.0.0.9:7601"};
  world.record.must_be_reachable = true;
  JoinToken token = world.token();
  std::string text = token.text();
  auto action = world.join(std::move(token), world.member);
  EXPECT_EQ(outcome(action), "address_not_reachable");
  EXPECT_NE(sentence(action).find("tcp://10.0.0.9:7601"), std::string::npos);
  world.dial_back_works = true;
  auto again = world.join(std::move(*JoinToken::parse(text)), world.founder);
  ASSERT_EQ(outcome(again), "joined") << "the failed attempt did not use up the token";
  EXPECT_TRUE(std::get<JoinClient::Joined>(again).answer.reachable);
}

TEST(Join, admits_a_node_that_only_dials_when_it_does_not_insist) {
  World world;
  world.dial_back_works = false;
  world.record.advertised = {"tcp://192.168.0.2:7601"};
  auto action = world.join(world.token(), world.founder);
  ASSERT_EQ(outcome(action), "joined");
  EXPECT_FALSE(std::get<JoinClient::Joined>(action).answer.reachable);
}

TEST(Join, takes_a_dial_back_that_never_ends_for_a_failed_one) {
  World world;
  world.record.advertised = {"tcp://10.0.0.9:7601"};
  world.record.must_be_reachable = true;
  JoinClient client = world.client(world.token());
  client.on_start();
  auto banner = world.ask(world.founder, std::get<JoinClient::Ask>(client.on_dialled()).frame);
  auto ask = client.on_answer(world.clock.wall(), *banner);
  auto actions = world.founder.server->on_frame(world.clock.now(), world.clock.wall(), 7, kAddress,
                                                std::get<JoinClient::Ask>(ask).frame);
  ASSERT_TRUE(std::holds_alternative<JoinServer::DialBack>(actions.at(0)));
  auto late = world.settle(
      world.founder, world.founder.server->on_tick(world.clock.now() + 5s, world.clock.wall()));
  ASSERT_TRUE(late);
  EXPECT_EQ(outcome(client.on_answer(world.clock.wall(), *late)), "address_not_reachable");
}

TEST(Join, lets_one_of_two_nodes_in_that_race_with_one_token) {
  World world;
  world.record.advertised = {"tcp://10.0.0.9:7601"};
  std::string text = world.token().text();
  std::vector<std::uint64_t> checks;
  std::vector<Identity> identities;
  identities.push_back(Identity::create());
  identities.push_back(Identity::create());
  for (Identity& identity : identities) {
    auto client =
        JoinClient::create(identity, std::move(*JoinToken::parse(text)), world.record, {});
    ASSERT_TRUE(client);
    client->on_start();
    auto banner = world.ask(world.founder, std::get<JoinClient::Ask>(client->on_dialled()).frame);
    auto ask = client->on_answer(world.clock.wall(), *banner);
    auto actions = world.founder.server->on_frame(world.clock.now(), world.clock.wall(), 7,
                                                  kAddress, std::get<JoinClient::Ask>(ask).frame);
    checks.push_back(std::get<JoinServer::DialBack>(actions.at(0)).check);
  }
  for (std::uint64_t check : checks) {
    world.settle(world.founder,
                 world.founder.server->on_dial_back(world.clock.wall(), check, "tcp://x:1"));
  }
  EXPECT_EQ(world.told.size(), 1u);
  EXPECT_EQ(world.founder.admissions->snapshot()->size(), 3u);
}

TEST(Join, tells_the_failures_of_dialling_apart) {
  World world;
  auto report = [&](ErrorCode code) {
    JoinClient client = world.client(world.token());
    client.on_start();
    return outcome(client.on_dial_failed({code, "why"}));
  };
  EXPECT_EQ(report(ErrorCode::not_found), "name_not_resolved");
  EXPECT_EQ(report(ErrorCode::unavailable), "port_shut");
  EXPECT_EQ(report(ErrorCode::timeout), "no_answer");
  EXPECT_EQ(report(ErrorCode::protocol_mismatch), "not_a_gpunode");
}

TEST(Join, takes_silence_and_noise_for_another_service) {
  World world;
  JoinClient silent = world.client(world.token());
  silent.on_start();
  silent.on_dialled();
  EXPECT_EQ(outcome(silent.on_no_answer({ErrorCode::timeout, "no answer"})), "not_a_gpunode");
  JoinClient noisy = world.client(world.token());
  noisy.on_start();
  noisy.on_dialled();
  EXPECT_EQ(outcome(noisy.on_answer(world.clock.wall(), as_bytes("SSH-2.0-OpenSSH_9.2"))),
            "not_a_gpunode");
}

TEST(Join, says_when_the_connection_ends_before_the_answer) {
  World world;
  JoinClient client = world.client(world.token());
  client.on_start();
  auto banner = world.ask(world.founder, std::get<JoinClient::Ask>(client.on_dialled()).frame);
  client.on_answer(world.clock.wall(), *banner);
  EXPECT_EQ(outcome(client.on_no_answer({ErrorCode::peer_lost, "reset"})), "connection_lost");
}

TEST(Join, tries_the_next_address_and_reports_what_got_furthest) {
  World world;
  JoinClient client = world.client(world.token(), {"tcp://a:1", "tcp://b:2", "tcp://c:3"});
  EXPECT_EQ(std::get<JoinClient::Dial>(client.on_start()).endpoint, "tcp://a:1");
  auto second = client.on_dial_failed({ErrorCode::not_found, ""});
  EXPECT_EQ(std::get<JoinClient::Dial>(second).endpoint, "tcp://b:2");
  auto third = client.on_dial_failed({ErrorCode::protocol_mismatch, ""});
  EXPECT_EQ(std::get<JoinClient::Dial>(third).endpoint, "tcp://c:3");
  auto last = client.on_dial_failed({ErrorCode::unavailable, ""});
  EXPECT_EQ(outcome(last), "not_a_gpunode");
  EXPECT_EQ(std::get<JoinClient::Failed>(last).report.endpoint, "tcp://b:2");
}

TEST(Join, names_both_versions_when_they_do_not_meet) {
  World world;
  JoinBanner banner;
  banner.version_min = 4;
  banner.version_max = 6;
  JoinClient client = world.client(world.token());
  client.on_start();
  client.on_dialled();
  auto action = client.on_answer(world.clock.wall(), encode_banner(banner));
  EXPECT_EQ(outcome(action), "protocol_mismatch");
  EXPECT_NE(sentence(action).find("4 to 6, this node speaks 1"), std::string::npos);
}

TEST(Join, refuses_an_answer_of_anyone_but_the_issuer) {
  World world;
  JoinClient client = world.client(world.token());
  client.on_start();
  auto banner = world.ask(world.founder, std::get<JoinClient::Ask>(client.on_dialled()).frame);
  auto ask = client.on_answer(world.clock.wall(), *banner);
  auto opened = open_request(std::get<JoinClient::Ask>(ask).frame, world.founder.identity);
  ASSERT_TRUE(opened);
  JoinAnswer forged;
  forged.credentials = world.founder.admissions->all();
  Bytes frame = encode_answer(forged, opened->request, world.member.identity);
  auto action = client.on_answer(world.clock.wall(), frame);
  EXPECT_EQ(outcome(action), "refused");
  EXPECT_NE(sentence(action).find("not from the node that issued"), std::string::npos);
}

TEST(Join, refuses_an_admission_that_does_not_lead_to_the_founder) {
  World world;
  JoinClient client = world.client(world.token());
  client.on_start();
  auto banner = world.ask(world.founder, std::get<JoinClient::Ask>(client.on_dialled()).frame);
  auto ask = client.on_answer(world.clock.wall(), *banner);
  auto opened = open_request(std::get<JoinClient::Ask>(ask).frame, world.founder.identity);
  ASSERT_TRUE(opened);
  JoinAnswer answer;
  answer.admission.cluster = world.cluster.id;
  answer.admission.node = world.joiner.identity.id();
  answer.admission.sign_key = world.joiner.identity.sign_key();
  answer.admission.issued = world.clock.wall();
  answer.admission.sign(world.member.identity);
  Bytes frame = encode_answer(answer, opened->request, world.founder.identity);
  EXPECT_NE(sentence(client.on_answer(world.clock.wall(), frame)).find("founder"),
            std::string::npos);
}

TEST(Join, gives_what_the_token_names) {
  World world;
  const Rights rights = kRightSubmit | kRightObserve;
  auto action = world.join(world.token(1, rights), world.founder);
  ASSERT_EQ(outcome(action), "joined") << sentence(action);
  EXPECT_EQ(std::get<JoinClient::Joined>(action).answer.admission.rights, rights);
  EXPECT_EQ(world.founder.admissions->snapshot()
                ->find(world.joiner.identity.id())
                ->rights(world.clock.wall()),
            rights);
}

TEST(Join, ends_with_a_token_that_was_revoked) {
  World world;
  JoinToken token = world.token();
  ASSERT_TRUE(world.founder.tokens->revoke(token.id));
  EXPECT_EQ(outcome(world.join(std::move(token), world.founder)), "wrong_token");
}

TEST(Join, refuses_by_name_who_was_put_out) {
  World world;
  ASSERT_EQ(outcome(world.join(world.token(), world.founder)), "joined");
  ASSERT_TRUE(world.founder.admissions->revoke(
      world.founder.identity, {world.joiner.identity.id(), "sold", false}, world.clock.wall()));
  auto action = world.join(world.token(), world.founder);
  EXPECT_EQ(outcome(action), "put_out");
  EXPECT_NE(sentence(action).find("new state directory"), std::string::npos);
}

// Finding 10 of the review: each refusal cost two fsyncs, and the log grew by it.

}  // namespace
}  // namespace gpunode::security
