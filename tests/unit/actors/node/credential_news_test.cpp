#include "actors/node/credential_news.hpp"

#include <optional>
#include <set>

#include "actors/node/relay_codec.hpp"
#include "runtime/transport/detail/limits.hpp"
#include "tests/unit/actors/node/calls_fixture.hpp"
#include "tests/unit/runtime/security/seniority_fixture.hpp"

namespace gpunode::node {
namespace {

using security::Credentials;

class CredentialNewsTest : public ::testing::Test {
 protected:
  CredentialNewsTest() {
    EXPECT_TRUE(list_.merge(cluster_.members()));
    EXPECT_TRUE(other_.merge(cluster_.members()));
  }
  // What was sent since, to whom: all credentials together, and the summary.
  struct Told {
    std::set<NodeId> to;
    Credentials credentials;
    std::size_t messages = 0;
    Bytes summary;
  };
  Told told() {
    Told all;
    while (!link_.silent()) {
      const std::optional<Sent> sent = link_.next();
      EXPECT_LE(sent->message.payload.size(), transport::kMaxControlPayloadBytes);
      all.to.insert(sent->to);
      const auto header = decode_relay(sent->message.body);
      if (header->kind == RelayKind::summary)
        all.summary = to_bytes(sent->message.payload.view);
      else
        all.credentials.add(*security::decode_credentials(sent->message.payload.view));
      ++all.messages;
    }
    return all;
  }

  security::Cluster cluster_;
  security::Admissions list_{cluster_.id}, other_{cluster_.id};
  NotingLink link_;
  CredentialNews news_{link_, list_};
  const NodeId peer_ = cluster_.third.id();
};

TEST_F(CredentialNewsTest, a_session_begins_with_all_that_is_known_where_that_is_little) {
  news_.on_session(peer_);
  const Told first = told();
  EXPECT_EQ(first.credentials, list_.all());
  EXPECT_EQ(first.summary, security::encode_summary(list_.summary()));
  EXPECT_EQ(first.to, std::set{peer_});
}

TEST_F(CredentialNewsTest, a_list_that_is_too_long_for_a_message_goes_in_several) {
  for (const security::Identity* by : {&cluster_.first, &cluster_.second, &cluster_.third})
    for (int number = 0; number < 3; ++number) {
      security::Revocation order = cluster_.order(*by, security::Identity::create());
      order.kept.resize(security::Revocation::kMaxKept);
      order.sign(*by);
      ASSERT_EQ(list_.merge({{}, {}, {order}})->added.size(), 1u);
    }
  news_.on_session(peer_);
  const Told first = told();
  EXPECT_GE(first.messages, 3u);
  EXPECT_EQ(first.credentials.size(), list_.size());
}

TEST_F(CredentialNewsTest, a_summary_is_answered_with_what_the_peer_knows_otherwise) {
  news_.on_summary(peer_, security::encode_summary(other_.summary()));
  news_.on_tick();
  EXPECT_EQ(told().messages, 0u) << "it knows the same";
  const security::Revocation order = cluster_.order(cluster_.founder, cluster_.plain);
  ASSERT_TRUE(list_.merge({{}, {}, {order}}));
  news_.on_summary(peer_, security::encode_summary(other_.summary()));
  EXPECT_EQ(told().messages, 0u) << "a hasty peer gets no more than a slow one";
  news_.on_tick();
  const Told page = told();
  EXPECT_EQ(page.messages, 1u);
  EXPECT_EQ(page.credentials.revocations, std::vector{order});
  news_.on_tick();
  EXPECT_EQ(told().messages, 0u);
}

TEST_F(CredentialNewsTest, news_goes_to_those_with_a_session_that_are_not_out) {
  news_.on_session(peer_);
  news_.on_session(cluster_.second.id());
  news_.on_session(cluster_.first.id());
  news_.on_reset(cluster_.second.id());
  told();
  const security::Revocation order =
      cluster_.order(cluster_.founder, cluster_.first, {cluster_.of_third});
  ASSERT_TRUE(list_.merge({{}, {}, {order}}));
  news_.spread({{}, {}, {order}});
  const Told spread = told();
  EXPECT_EQ(spread.to, std::set{peer_});
  EXPECT_EQ(spread.credentials.revocations, std::vector{order});
  news_.spread({});
  EXPECT_EQ(told().messages, 0u);
}

}  // namespace
}  // namespace gpunode::node
