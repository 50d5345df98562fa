// The small codecs of the node: calls, relays, notes about jobs, lists of members, addresses.
#include <gtest/gtest.h>

#include "actors/node/call_codec.hpp"
#include "actors/node/endpoints.hpp"
#include "actors/node/job_note_codec.hpp"
#include "actors/node/member_list.hpp"
#include "actors/node/relay_codec.hpp"

namespace gpunode::node {
namespace {

// Every truncation is refused and no flipped bit does harm.
template <class Decode>
void expect_robust(const Bytes& good, Decode decode) {
  ASSERT_TRUE(decode(good));
  for (std::size_t size = 0; size < good.size(); ++size)
    (void)decode(Bytes(good.begin(), good.begin() + size));
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    Bytes flipped = good;
    flipped[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    (void)decode(flipped);
  }
  EXPECT_FALSE(decode({}));
  EXPECT_FALSE(decode(Bytes(1u << 20)));
}

TEST(CallCodec, carries_calls_and_replies_and_survives_damage) {
  auto call = decode_call(encode(CallMessage(CallHeader{"model/x", 250})));
  ASSERT_TRUE(call);
  EXPECT_EQ(std::get<CallHeader>(*call).name, "model/x");
  EXPECT_EQ(std::get<CallHeader>(*call).patience_ms, 250u);
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
  expect_robust(encode(RelayMessage{RelayKind::admissions, 0}),
                [](const Bytes& bytes) { return decode_relay(bytes).has_value(); });
}

TEST(JobNoteCodec, carries_fitness_and_hints_and_survives_damage) {
  Fitness fitness{Bytes(32, std::byte{1}), 10, 9, "f", "cpu", "0.1.0", "m"};
  auto back = decode_note(encode(JobNote(fitness)));
  ASSERT_TRUE(back);
  EXPECT_EQ(std::get<Fitness>(*back).data_digest, fitness.data_digest);
  EXPECT_EQ(std::get<Fitness>(*back).version, "0.1.0");
  EXPECT_EQ(std::get<Fitness>(*back).model_digest, "m");
  JobHint hint;
  hint.name = "job";
  hint.phase = "running";
  hint.labels = {"gpu"};
  hint.wanted = 3;
  auto again = decode_note(encode(JobNote(hint)));
  ASSERT_TRUE(again);
  EXPECT_EQ(std::get<JobHint>(*again).labels, hint.labels);
  EXPECT_EQ(std::get<JobHint>(*again).wanted, 3u);
  expect_robust(encode(JobNote(hint)),
                [](const Bytes& bytes) { return decode_note(bytes).has_value(); });
}

TEST(JobNoteCodec, carries_refusals_bounded_in_number_and_length_and_survives_damage) {
  NodeId node;
  node.value[3] = std::byte{7};
  JobRefusals refusals{{1, 2}, {{node, "its data differs"}}};
  auto back = decode_note(encode(JobNote(refusals)));
  ASSERT_TRUE(back);
  const auto& told = std::get<JobRefusals>(*back);
  EXPECT_EQ(told.job, (JobId{1, 2}));
  ASSERT_EQ(told.refused.size(), 1u);
  EXPECT_EQ(told.refused[0].node, node);
  EXPECT_EQ(told.refused[0].reason, "its data differs");
  expect_robust(encode(JobNote(refusals)),
                [](const Bytes& bytes) { return decode_note(bytes).has_value(); });
  refusals.refused.assign(1000, {node, std::string(5000, 'x')});
  auto cut = decode_note(encode(JobNote(refusals)));
  ASSERT_TRUE(cut) << cut.error().message();
  EXPECT_EQ(std::get<JobRefusals>(*cut).refused.size(), 32u);
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
