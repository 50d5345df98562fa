// The small codecs of the node: calls, relays, lists of members, addresses.
#include <gtest/gtest.h>

#include "actors/node/call_codec.hpp"
#include "actors/node/endpoints.hpp"
#include "actors/node/member_list.hpp"
#include "actors/node/relay_codec.hpp"
#include "tests/support/damaged_bytes.hpp"

namespace gpunode::node {
namespace {

TEST(CallCodec, carries_calls_and_replies_and_survives_damage) {
  auto call = decode_call(encode(CallMessage(CallHeader{"model/x", 250})));
  ASSERT_TRUE(call);
  EXPECT_EQ(std::get<CallHeader>(*call).name, "model/x");
  EXPECT_EQ(std::get<CallHeader>(*call).timeout_ms, 250u);
  const auto cut = decode_call(
      encode(CallMessage(ReplyHeader{false, {ErrorCode::timeout, std::string(5000, 'x')}})));
  ASSERT_TRUE(cut);
  const std::string& told = std::get<ReplyHeader>(*cut).error.detail;
  EXPECT_EQ(told.size(), 4096u);
  EXPECT_TRUE(told.ends_with("x [cut]"));
  auto reply = decode_call(encode(CallMessage(ReplyHeader{false, {ErrorCode::timeout, "late"}})));
  ASSERT_TRUE(reply);
  EXPECT_EQ(std::get<ReplyHeader>(*reply).error.code, ErrorCode::timeout);
  EXPECT_EQ(std::get<ReplyHeader>(*reply).error.detail, "late");
  expect_robust(encode(CallMessage(CallHeader{"a", 1})),
                [](const Bytes& bytes) { return decode_call(bytes).has_value(); });
}

TEST(RelayCodec, carries_its_kind_and_survives_damage) {
  auto relay = decode_relay(encode(RelayMessage{RelayKind::relay_answer, 77}));
  ASSERT_TRUE(relay);
  EXPECT_EQ(relay->kind, RelayKind::relay_answer);
  EXPECT_EQ(relay->relay, 77u);
  const RelayMessage wish{RelayKind::dial_wish, 78, {"tcp://10.0.0.9:7601", "tcp://[::1]:1"}};
  auto dial = decode_relay(encode(wish));
  ASSERT_TRUE(dial);
  EXPECT_EQ(dial->endpoints, wish.endpoints);
  auto outcome = decode_relay(encode(RelayMessage{RelayKind::dial_outcome, 79, {}, true, "::1"}));
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->reached);
  EXPECT_EQ(outcome->seen_from, "::1");
  EXPECT_FALSE(decode_relay(
      encode(RelayMessage{RelayKind::dial_wish, 1, std::vector<std::string>(9, "tcp://a:1")})));
  EXPECT_FALSE(
      decode_relay(encode(RelayMessage{RelayKind::dial_wish, 1, {std::string(129, 'a')}})));
  expect_robust(encode(RelayMessage{RelayKind::credentials, 0}),
                [](const Bytes& bytes) { return decode_relay(bytes).has_value(); });
}

TEST(MemberList, drops_what_it_cannot_read) {
  EXPECT_TRUE(split_records({}).empty());
  EXPECT_TRUE(split_records(Bytes(3)).empty());
  EXPECT_TRUE(split_records(Bytes(100, std::byte{255})).empty());
  EXPECT_TRUE(split_records(join_records({Bytes(10), Bytes(5)})).empty());
}

TEST(HostPort, is_read_with_brackets_and_default_port_and_mistakes_are_explained) {
  auto plain = parse_host_port("10.0.0.5:7601", 1);
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->host, "10.0.0.5");
  EXPECT_EQ(plain->port, 7601);
  auto six = parse_host_port("[::1]:80", 1);
  ASSERT_TRUE(six);
  EXPECT_EQ(tcp_endpoint(*six), "tcp://[::1]:80");
  EXPECT_EQ(parse_host_port("box", 9)->port, 9);
  for (const char* bad : {"", ":80", "a:", "a:b", "a:70000", "::1", "[::1", "[::1]80"}) {
    auto place = parse_host_port(bad, 1);
    ASSERT_FALSE(place) << bad;
    EXPECT_NE(place.error().detail.find("host:port"), std::string::npos);
  }
}

}  // namespace
}  // namespace gpunode::node
