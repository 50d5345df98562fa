// The join frames against garbage from either side, and the table of failures.
#include "runtime/security/join_protocol.hpp"

#include "runtime/base/rng.hpp"
#include "runtime/security/join_client.hpp"
#include "runtime/security/join_server.hpp"
#include "tests/support/memory_file_system.hpp"
#include "tests/unit/runtime/security/now.hpp"

#include <gtest/gtest.h>

#include <set>

namespace gpunode::security {
namespace {

using namespace std::chrono_literals;

struct Fixture {
  Identity issuer = Identity::create(), joiner = Identity::create();
  testing::MemoryFileSystem files;
  ClusterIdentity cluster{{random_array<16>()}, issuer.id()};
  Admissions admissions{cluster};
  std::optional<TokenBook> book;
  JoinToken token;

  Fixture() {
    EXPECT_TRUE(files.create_folder("/state"));
    book.emplace(std::move(*TokenBook::open(files, "/state")));
    EXPECT_TRUE(admissions.found(issuer, "first", kNow));
    token = std::move(*book->create({15min, 1, {"tcp://a:1"}}, cluster, issuer, kNow));
  }
  JoinRequest request() const {
    JoinRequest request;
    request.nonce = random_array<32>();
    request.record = {"name", {"tcp://10.0.0.2:7601"}, true, {"zone=a"}};
    return request;
  }
  JoinServer server() {
    return JoinServer(
        {issuer, admissions, *book, nullptr, "first", [](const NodeId&) { return true; }, nullptr});
  }
};

// Calls `visit` with every truncation and many damaged forms of a frame.
void damage(const Bytes& frame, int rounds, const std::function<void(ByteView)>& visit) {
  for (std::size_t size = 0; size < frame.size(); ++size) visit(ByteView(frame).first(size));
  Rng rng(11);
  for (int round = 0; round < rounds; ++round) {
    Bytes bad = frame;
    for (std::uint64_t flips = 1 + rng.below(3); flips > 0; --flips) {
      bad[rng.below(bad.size())] ^= static_cast<std::byte>(1 << rng.below(8));
    }
    if (rng.chance(0.2)) bad.resize(bad.size() + rng.below(40));
    if (bad != frame) visit(bad);
  }
}

TEST(JoinFrames, carry_hello_and_banner) {
  JoinHello hello{1, 3, Identity::create().id()};
  auto heard = decode_hello(encode_hello(hello));
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->issuer, hello.issuer);
  EXPECT_EQ(heard->version_max, 3);
  JoinBanner banner;
  banner.clock = kNow + 7ms;
  banner.name = "first";
  banner.nonce = random_array<32>();
  banner.issuer = IssuerState::away;
  auto seen = decode_banner(encode_banner(banner));
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->clock, kNow + 7ms);
  EXPECT_EQ(seen->name, "first");
  EXPECT_EQ(seen->nonce, banner.nonce);
  EXPECT_EQ(seen->issuer, IssuerState::away);
}

TEST(JoinFrames, let_a_newer_banner_be_longer) {
  Bytes frame = encode_banner({});
  frame.resize(frame.size() + 20);
  EXPECT_TRUE(decode_banner(frame));
}

TEST(JoinFrames, carry_a_request_that_proves_the_token) {
  Fixture fixture;
  JoinRequest sent = fixture.request();
  auto frame = encode_request(sent, fixture.joiner, fixture.token);
  ASSERT_TRUE(frame);
  EXPECT_EQ(*request_issuer(*frame), fixture.issuer.id());
  auto opened = open_request(*frame, fixture.issuer);
  ASSERT_TRUE(opened);
  auto key = fixture.token.proof_key();
  CurveKey curve = fixture.issuer.curve_key();
  EXPECT_TRUE(proves_token(*opened, key, fixture.cluster, curve));
  EXPECT_FALSE(proves_token(*opened, random_secret<32>(), fixture.cluster, curve));
  ClusterIdentity other{{random_array<16>()}, fixture.cluster.founder};
  EXPECT_FALSE(proves_token(*opened, key, other, curve));
  EXPECT_FALSE(proves_token(*opened, key, fixture.cluster, fixture.joiner.curve_key()));
  auto request = believe_request(*opened);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->record.advertised, sent.record.advertised);
  EXPECT_EQ(request->record.labels, sent.record.labels);
  EXPECT_TRUE(request->record.must_be_reachable);
  EXPECT_EQ(request->nonce, sent.nonce);
  EXPECT_EQ(request->sign_key, fixture.joiner.sign_key());
}

// Whether the issuer believes a joiner's request that `change` was done to on its way.
Result<JoinRequest> believed(const std::function<void(JoinRequest&)>& change) {
  Fixture fixture;
  auto opened = open_request(*encode_request(fixture.request(), fixture.joiner, fixture.token),
                             fixture.issuer);
  EXPECT_TRUE(opened);
  change(opened->request);
  return believe_request(*opened);
}

TEST(JoinFrames, refuse_a_request_with_another_nodes_signing_key) {
  EXPECT_FALSE(believed([](JoinRequest& one) { one.sign_key = Identity::create().sign_key(); }));
}

TEST(JoinFrames, refuse_a_request_with_another_nodes_link_key) {
  const auto answer =
      believed([](JoinRequest& one) { one.link_key = Identity::create().link_key(); });
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::unauthenticated);
}

TEST(JoinFrames, bound_what_a_joiner_says) {
  Fixture fixture;
  JoinRequest request = fixture.request();
  request.record.name = std::string(65, 'x');
  EXPECT_FALSE(encode_request(request, fixture.joiner, fixture.token));
  request.record.name = "x";
  request.record.labels.assign(17, "a");
  EXPECT_FALSE(encode_request(request, fixture.joiner, fixture.token));
  request.record.labels.assign(16, std::string(64, 'a'));
  request.record.advertised.assign(8, std::string(128, 'a'));
  auto largest = encode_request(request, fixture.joiner, fixture.token);
  ASSERT_TRUE(largest);
  EXPECT_LE(largest->size(), kMaxRequestBytes);
}

TEST(JoinFrames, survive_damage_on_both_sides) {
  Fixture fixture;
  JoinRequest request = fixture.request();
  Bytes hello = encode_hello({}), banner = encode_banner({});
  Bytes asked = *encode_request(request, fixture.joiner, fixture.token);
  request.sign_key = fixture.joiner.sign_key();
  request.curve_key = fixture.joiner.curve_key();
  JoinAnswer answer;
  answer.credentials = fixture.admissions.all();
  Bytes answered = encode_answer(answer, request, fixture.issuer);
  int believed = 0, admitted = 0;
  for (const Bytes& frame : {hello, banner, asked, answered}) {
    damage(frame, 1000, [&](ByteView bad) {
      (void)decode_hello(bad);
      (void)decode_banner(bad);
      (void)request_issuer(bad);
      believed += open_request(bad, fixture.issuer).has_value();
      auto decoded = decode_answer(bad, fixture.joiner, fixture.issuer.id(), request.nonce);
      admitted += decoded && decoded->refusal == JoinRefusal::none;
    });
  }
  EXPECT_EQ(believed, 0);
  EXPECT_EQ(admitted, 0);
}

TEST(JoinFrames, survive_damage_behind_the_seal) {
  Fixture fixture;
  JoinRequest request = fixture.request();
  auto opened =
      open_request(*encode_request(request, fixture.joiner, fixture.token), fixture.issuer);
  ASSERT_TRUE(opened);
  Rng rng(5);
  auto key = fixture.token.proof_key();
  for (int round = 0; round < 2000; ++round) {
    OpenedRequest bad = *opened;
    bad.proven[rng.below(bad.proven.size())] ^= static_cast<std::byte>(1 << rng.below(8));
    EXPECT_FALSE(proves_token(bad, key, fixture.cluster, fixture.issuer.curve_key()));
    OpenedRequest parsed = *opened;
    parsed.record[rng.below(parsed.record.size())] ^= static_cast<std::byte>(1 << rng.below(8));
    (void)believe_request(parsed);
  }
}

TEST(JoinServer, gives_garbage_no_answer_and_keeps_nothing_of_it) {
  Fixture fixture;
  JoinServer server = fixture.server();
  Rng rng(17);
  std::string magic = "gpnjoin";
  for (std::uint64_t round = 0; round < 5000; ++round) {
    Bytes frame(rng.below(200));
    for (auto& byte : frame) byte = static_cast<std::byte>(rng.next());
    if (rng.chance(0.7) && frame.size() > 8) {
      std::memcpy(frame.data(), magic.data(), 7);
      frame[7] = static_cast<std::byte>(rng.below(6));
    }
    for (const auto& action : server.on_frame(Time{}, kNow, round, std::to_string(round), frame)) {
      EXPECT_TRUE(std::holds_alternative<JoinServer::Send>(action) ||
                  std::holds_alternative<JoinServer::Relay>(action));
    }
    (void)server.on_relayed(Time{}, kNow, NodeId{}, round, frame);
    (void)server.on_relay_answer(NodeId{}, round, frame, round % 2 == 0);
    (void)server.on_dial_back(kNow, round, "x");
  }
  EXPECT_EQ(fixture.admissions.snapshot()->size(), 1u);
  Bytes request = *encode_request(fixture.request(), fixture.joiner, fixture.token);
  damage(request, 1000, [&](ByteView bad) {
    for (const auto& action : server.on_frame(Time{}, kNow, 1, to_hex(bad.first(0)), bad)) {
      EXPECT_FALSE(std::holds_alternative<JoinServer::DialBack>(action));
    }
  });
  EXPECT_EQ(fixture.admissions.snapshot()->size(), 1u);
}

TEST(JoinClient, survives_garbage_at_each_step) {
  Fixture fixture;
  JoinServer server = fixture.server();
  Rng rng(23);
  for (int round = 0; round < 2000; ++round) {
    auto client = JoinClient::create(
        fixture.joiner, std::move(*JoinToken::parse(fixture.token.text())), {}, {"tcp://a:1"});
    ASSERT_TRUE(client);
    client->on_start();
    client->on_dialled();
    JoinBanner banner;
    banner.cluster_hash = fixture.cluster.public_hash();
    banner.clock = kNow;
    banner.issuer = IssuerState::here;
    Bytes frame = encode_banner(banner);
    if (rng.chance(0.5)) frame[rng.below(frame.size())] ^= static_cast<std::byte>(rng.next());
    auto action = client->on_answer(kNow, frame);
    if (client->finished()) continue;
    Bytes noise(rng.below(300));
    for (auto& byte : noise) byte = static_cast<std::byte>(rng.next());
    std::string magic = "gpnjoin\4";
    if (noise.size() > 9) {
      std::memcpy(noise.data(), magic.data(), 8);
      noise[8] = static_cast<std::byte>(rng.below(3));
    }
    action = client->on_answer(kNow, noise);
    EXPECT_TRUE(std::holds_alternative<JoinClient::Failed>(action));
  }
}

TEST(JoinFailure, has_a_word_and_a_remedy_each) {
  std::set<std::string> words, remedies;
  constexpr auto kCount = static_cast<std::size_t>(JoinFailure::refused) + 1;
  for (std::size_t index = 0; index < kCount; ++index) {
    const auto failure = static_cast<JoinFailure>(index);
    words.emplace(to_string(failure));
    const JoinReport report{failure, "tcp://a:1", "it failed"};
    const std::string message = report.message();
    EXPECT_TRUE(message.starts_with("it failed. ") && message.ends_with('.')) << message;
    EXPECT_EQ(report.error().detail, message);
    remedies.insert(message);
  }
  EXPECT_EQ(words.size(), kCount);
  EXPECT_EQ(remedies.size(), kCount);
}

}  // namespace
}  // namespace gpunode::security
