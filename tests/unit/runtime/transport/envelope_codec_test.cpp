#include "runtime/transport/detail/envelope_codec.hpp"

#include <gtest/gtest.h>

#include "runtime/base/rng.hpp"

namespace gpunode::transport::detail {
namespace {

Envelope ticket() {
  Envelope envelope;
  envelope.kind = Kind::bulk_ticket;
  envelope.topic = 5;
  envelope.stream = 0x1122334455667788;
  envelope.session = 7;
  envelope.seq = 9;
  envelope.boot = 3;
  envelope.greeting = 11;
  envelope.payload_bytes = 1 << 20;
  envelope.plain = true;
  envelope.key_share.fill(std::byte{0x5a});
  envelope.nonce.fill(std::byte{0xa5});
  envelope.ticket = "one-time";
  return envelope;
}

TEST(EnvelopeCodec, EveryFieldComesBackFromAnyAddress) {
  Bytes encoded = encode_envelope(ticket());
  for (std::size_t shift = 0; shift < 8; ++shift) {
    Bytes moved(shift);
    moved.insert(moved.end(), encoded.begin(), encoded.end());
    auto decoded = decode_envelope(ByteView(moved).subspan(shift));
    ASSERT_TRUE(decoded);
    Envelope expected = ticket();
    EXPECT_EQ(decoded->kind, expected.kind);
    EXPECT_EQ(decoded->topic, expected.topic);
    EXPECT_EQ(decoded->stream, expected.stream);
    EXPECT_EQ(decoded->session, expected.session);
    EXPECT_EQ(decoded->seq, expected.seq);
    EXPECT_EQ(decoded->boot, expected.boot);
    EXPECT_EQ(decoded->greeting, expected.greeting);
    EXPECT_EQ(decoded->payload_bytes, expected.payload_bytes);
    EXPECT_EQ(decoded->plain, expected.plain);
    EXPECT_EQ(decoded->key_share, expected.key_share);
    EXPECT_EQ(decoded->nonce, expected.nonce);
    EXPECT_EQ(decoded->ticket, expected.ticket);
  }
}

TEST(EnvelopeCodec, OnlyVerifiedBytesNameAVersion) {
  Bytes encoded = encode_envelope(ticket());
  EXPECT_EQ(envelope_major(encoded), kProtocolMajor);
  for (std::size_t size = 0; size < encoded.size(); ++size) {
    EXPECT_EQ(envelope_major(ByteView(encoded).first(size)), 0) << size;
  }
}

TEST(EnvelopeCodec, EveryTruncationIsRefused) {
  Bytes encoded = encode_envelope(ticket());
  for (std::size_t size = 0; size < encoded.size(); ++size) {
    EXPECT_FALSE(decode_envelope(ByteView(encoded).first(size))) << size;
  }
}

TEST(EnvelopeCodec, NoFlippedBitReadsOutside) {
  Bytes encoded = encode_envelope(ticket());
  std::size_t refused = 0;
  for (std::size_t bit = 0; bit < encoded.size() * 8; ++bit) {
    Bytes flipped = encoded;
    flipped[bit / 8] ^= std::byte(1u << (bit % 8));
    refused += !decode_envelope(flipped);
  }
  EXPECT_GT(refused, 0u);
}

TEST(EnvelopeCodec, NoiseAndOversizeAreRefused) {
  Rng rng(1);
  for (int i = 0; i < 2'000; ++i) {
    Bytes noise(rng.below(300));
    for (std::byte& byte : noise) byte = std::byte(rng.next());
    EXPECT_FALSE(decode_envelope(noise));
  }
  Bytes large = encode_envelope(ticket());
  large.resize(kMaxEnvelopeBytes + 1);
  EXPECT_FALSE(decode_envelope(large));
}

TEST(EnvelopeCodec, AKindOfALaterVersionIsRefused) {
  Envelope envelope;
  envelope.kind = static_cast<Kind>(200);
  EXPECT_FALSE(decode_envelope(encode_envelope(envelope)));
  envelope.kind = Kind::none;
  EXPECT_FALSE(decode_envelope(encode_envelope(envelope)));
}

}  // namespace
}  // namespace gpunode::transport::detail
