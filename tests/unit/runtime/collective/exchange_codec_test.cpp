#include "runtime/collective/exchange_codec.hpp"

#include <gtest/gtest.h>

#include "runtime/base/rng.hpp"

namespace gpunode::collective {
namespace {

constexpr std::uint32_t kChunks = 100;
const ExchangeName kName{7, 1234567890123, {3, 4}, {11, 22}};

SharedBytes payload() {
  return SharedBytes::from(Bytes(64, std::byte{5}));
}

std::vector<ExchangeMessage> one_of_each() {
  DataFingerprint data_fingerprint{{1, 2}, 3};
  return {PartialChunk{99, {5, 4000}, data_fingerprint, payload()},
          ResultChunk{42, data_fingerprint, payload()}, Done{{8, 9}, data_fingerprint, {}},
          Need{{1, 5, 99}, {0, 2}, true}, Need{}};
}

bool same(const ExchangeMessage& a, const ExchangeMessage& b) {
  if (a.index() != b.index()) return false;
  if (auto* x = std::get_if<PartialChunk>(&a)) {
    auto& y = std::get<PartialChunk>(b);
    return x->chunk == y.chunk && x->node == y.node && x->data_fingerprint == y.data_fingerprint &&
           x->payload.view.data() == y.payload.view.data() && x->payload.size() == y.payload.size();
  }
  if (auto* x = std::get_if<ResultChunk>(&a)) {
    auto& y = std::get<ResultChunk>(b);
    return x->chunk == y.chunk && x->data_fingerprint == y.data_fingerprint &&
           x->payload.view.data() == y.payload.view.data() && x->payload.size() == y.payload.size();
  }
  if (auto* x = std::get_if<Done>(&a)) return *x == std::get<Done>(b);
  auto &x = std::get<Need>(a), &y = std::get<Need>(b);
  return x.partial_chunks == y.partial_chunks && x.result_chunks == y.result_chunks &&
         x.done == y.done;
}

TEST(ExchangeCodec, gives_back_what_it_was_given_without_copying_the_payload) {
  for (const ExchangeMessage& message : one_of_each()) {
    EncodedMessage frame = encode_exchange(kName, message);
    EXPECT_TRUE(is_exchange_body(frame.body));
    EXPECT_LT(frame.body.size(), 256u);
    auto decoded = decode_exchange(frame.body, frame.payload, kChunks);
    ASSERT_TRUE(decoded) << decoded.error().message();
    EXPECT_EQ(decoded->name, kName);
    EXPECT_TRUE(same(decoded->message, message)) << message.index();
  }
}

TEST(ExchangeCodec, reads_a_body_at_any_address) {
  EncodedMessage frame = encode_exchange(
      kName, Done{{8, 9}, {}, {{777, 5, 6, 7}, 8, 9, 10, {11, 12, 13, 14}, 15, true}});
  for (std::size_t shift = 0; shift < 8; ++shift) {
    Bytes moved(shift);
    moved.insert(moved.end(), frame.body.begin(), frame.body.end());
    auto decoded = decode_exchange(ByteView(moved).subspan(shift), {}, kChunks);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(std::get<Done>(decoded->message).times,
              (StepTimes{{777, 5, 6, 7}, 8, 9, 10, {11, 12, 13, 14}, 15, true}));
  }
}

TEST(ExchangeCodec, refuses_chunks_beyond_the_receivers_own) {
  for (ExchangeMessage message : std::vector<ExchangeMessage>{
           PartialChunk{kChunks, {}, {}, payload()}, ResultChunk{kChunks, {}, payload()},
           Need{{kChunks}, {}, false}, Need{{}, std::vector<std::uint32_t>(kChunks + 1), false}}) {
    EncodedMessage frame = encode_exchange(kName, message);
    auto decoded = decode_exchange(frame.body, frame.payload, kChunks);
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().code, ErrorCode::corrupted);
  }
}

TEST(ExchangeCodec, refuses_a_payload_where_none_belongs) {
  for (const ExchangeMessage& message : {ExchangeMessage(Done{}), ExchangeMessage(Need{})})
    EXPECT_FALSE(decode_exchange(encode_exchange(kName, message).body, payload(), kChunks));
}

TEST(ExchangeCodec, refuses_what_is_no_exchange_message) {
  EXPECT_FALSE(decode_exchange({}, {}, kChunks));
  EXPECT_FALSE(is_exchange_body({}));
  Bytes body = encode_exchange(kName, Done{}).body;
  body[4] = std::byte{'X'};
  EXPECT_FALSE(is_exchange_body(body));
  EXPECT_FALSE(decode_exchange(body, {}, kChunks));
  EXPECT_FALSE(decode_exchange(Bytes(2 << 20), {}, kChunks));
}

TEST(ExchangeCodec, survives_every_truncation) {
  for (const ExchangeMessage& message : one_of_each()) {
    EncodedMessage frame = encode_exchange(kName, message);
    for (std::size_t length = 0; length < frame.body.size(); ++length) {
      Bytes part(frame.body.begin(), frame.body.begin() + length);
      auto decoded = decode_exchange(part, frame.payload, kChunks);
      if (length + 8 < frame.body.size()) {
        EXPECT_FALSE(decoded) << length;
      }
    }
  }
}

TEST(ExchangeCodec, survives_flipped_bits_and_overwritten_bytes) {
  Rng rng(1);
  std::size_t refused = 0, taken = 0;
  for (int round = 0; round < 60'000; ++round) {
    auto messages = one_of_each();
    EncodedMessage frame = encode_exchange(kName, messages[rng.below(messages.size())]);
    Bytes body = frame.body;
    for (std::uint64_t changes = 1 + rng.below(4); changes > 0; --changes) {
      std::byte& place = body[rng.below(body.size())];
      place = rng.chance(0.5) ? place ^ std::byte(1u << rng.below(8)) : std::byte(rng.below(256));
    }
    auto decoded = decode_exchange(body, frame.payload, kChunks);
    if (!decoded) {
      ++refused;
      continue;
    }
    ++taken;
    if (auto* partial = std::get_if<PartialChunk>(&decoded->message)) {
      ASSERT_LT(partial->chunk, kChunks);
    }
    if (auto* need = std::get_if<Need>(&decoded->message)) {
      for (std::uint32_t chunk : need->partial_chunks) ASSERT_LT(chunk, kChunks);
    }
  }
  EXPECT_GT(refused, 1000u);
  EXPECT_GT(taken, 1000u);
}

}  // namespace
}  // namespace gpunode::collective
