// Known answers of HKDF and AES-GCM, and what a bulk session refuses.
#include "runtime/security/session_keys.hpp"

#include "runtime/security/bulk_tickets.hpp"
#include "runtime/security/crypto.hpp"
#include "runtime/security/detail/aes_gcm.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace gpunode::security {
namespace {

BulkKey test_key(std::uint8_t fill = 7) {
  Bytes bytes(32, static_cast<std::byte>(fill));
  return *BulkKey::from(bytes);
}

struct Pipe {
  BulkSealer sealer{test_key(), Time{}};
  BulkOpener opener{test_key()};

  struct Frame {
    std::uint64_t sequence;
    Bytes bytes;
  };
  Frame seal(std::string_view header, std::string_view payload) {
    Bytes out(payload.size() + kTagBytes);
    auto sequence = sealer.seal(as_bytes(header), as_bytes(payload), out);
    EXPECT_TRUE(sequence);
    return {sequence ? *sequence : 0, std::move(out)};
  }
  std::string open(Frame frame, std::string_view header) {
    auto opened = opener.open(frame.sequence, as_bytes(header), frame.bytes);
    return opened ? std::string(as_text(*opened)) : "refused";
  }
};

TEST(Hkdf, matches_case_1_of_rfc_5869) {
  Bytes secret(22, std::byte{0x0b});
  Bytes out(42);
  hkdf_sha256(secret, from_hex("000102030405060708090a0b0c"), from_hex("f0f1f2f3f4f5f6f7f8f9"),
              out);
  EXPECT_EQ(to_hex(out),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
}

TEST(Hkdf, matches_case_3_of_rfc_5869_without_salt_and_info) {
  Bytes secret(22, std::byte{0x0b});
  Bytes out(42);
  hkdf_sha256(secret, {}, {}, out);
  EXPECT_EQ(to_hex(out),
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
}

TEST(Hmac, matches_case_2_of_rfc_4231) {
  EXPECT_EQ(to_hex(hmac_sha256(as_bytes("Jefe"), as_bytes("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(AesGcm, matches_case_16_of_the_specification) {
  auto key = Secret<32>::from(
      from_hex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308"));
  Bytes plain = from_hex(
      "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6"
      "b525b16aedf5aa0de657ba637b39");
  Bytes header = from_hex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
  detail::AesGcm::Iv iv;
  std::ranges::copy(from_hex("cafebabefacedbaddecaf888"), iv.begin());
  Bytes out(plain.size() + kTagBytes);
  detail::AesGcm sealer(detail::AesGcm::Use::seal);
  sealer.set_key(*key);
  ASSERT_TRUE(sealer.seal(iv, header, plain, out));
  EXPECT_EQ(
      to_hex(out),
      "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b10"
      "56828838c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b");
  detail::AesGcm opener(detail::AesGcm::Use::open);
  opener.set_key(*key);
  ASSERT_TRUE(opener.open(iv, header, out));
  EXPECT_EQ(to_hex(ByteView(out).first(plain.size())), to_hex(plain));
}

TEST(EphemeralKey, gives_both_sides_the_same_secret) {
  EphemeralKey one = EphemeralKey::create(), two = EphemeralKey::create();
  auto first = one.agree(two.public_key()), second = two.agree(one.public_key());
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(constant_time_equal(first->view(), second->view()));
}

TEST(EphemeralKey, refuses_a_weak_point) {
  auto agreed = EphemeralKey::create().agree(EphemeralPublic{});
  ASSERT_FALSE(agreed);
  EXPECT_EQ(agreed.error().code, ErrorCode::unauthenticated);
}

TEST(BulkKey, depends_on_every_part_of_the_session) {
  Secret<32> agreed = test_key(3);
  SessionContext base;
  auto text = [&](const SessionContext& context, Direction direction, std::uint8_t lane) {
    return to_hex(derive_bulk_key(agreed, context, direction, lane).view());
  };
  auto from = Direction::dialler_to_listener;
  std::vector<std::string> keys{text(base, from, 0), text(base, from, 1),
                                text(base, Direction::listener_to_dialler, 0)};
  auto with = [&](auto change) {
    SessionContext other;
    change(other);
    keys.push_back(text(other, from, 0));
  };
  with([](auto& c) { c.dialler.value[0] = std::byte{1}; });
  with([](auto& c) { c.listener.value[0] = std::byte{1}; });
  with([](auto& c) { c.dialler_boot = 1; });
  with([](auto& c) { c.listener_boot = 1; });
  with([](auto& c) { c.connection_nonce[15] = std::byte{1}; });
  with([](auto& c) { c.dialler_key[0] = std::byte{1}; });
  with([](auto& c) { c.listener_key[0] = std::byte{1}; });
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end());
}

TEST(BulkSession, carries_a_payload_and_its_header) {
  Pipe pipe;
  auto frame = pipe.seal("head", "payload");
  EXPECT_EQ(as_text(frame.bytes).find("payload"), std::string_view::npos);
  EXPECT_EQ(pipe.open(frame, "head"), "payload");
  EXPECT_EQ(pipe.open(pipe.seal("only a header", ""), "only a header"), "");
}

TEST(BulkSession, seals_in_place) {
  Pipe pipe;
  Bytes buffer(5 + kTagBytes);
  std::memcpy(buffer.data(), "hello", 5);
  auto sequence = pipe.sealer.seal({}, ByteView(buffer).first(5), buffer);
  ASSERT_TRUE(sequence);
  auto opened = pipe.opener.open(*sequence, {}, buffer);
  ASSERT_TRUE(opened);
  EXPECT_EQ(as_text(*opened), "hello");
}

TEST(BulkSession, refuses_every_flipped_bit) {
  Pipe pipe;
  auto frame = pipe.seal("header", "some payload");
  for (std::size_t bit = 0; bit < frame.bytes.size() * 8; ++bit) {
    auto bad = frame;
    bad.bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_EQ(pipe.open(bad, "header"), "refused") << bit;
  }
  EXPECT_EQ(pipe.open(frame, "HEADER"), "refused");
  auto moved = frame;
  moved.sequence += 1;
  EXPECT_EQ(pipe.open(moved, "header"), "refused");
  EXPECT_EQ(pipe.open(frame, "header"), "some payload");
}

TEST(BulkSession, refuses_a_replay_but_not_another_order) {
  Pipe pipe;
  std::vector<Pipe::Frame> frames;
  for (int index = 0; index < 100; ++index) frames.push_back(pipe.seal("", std::to_string(index)));
  for (int index = 99; index >= 0; --index) {
    EXPECT_EQ(pipe.open(frames[static_cast<std::size_t>(index)], ""), std::to_string(index));
  }
  for (auto& frame : frames) EXPECT_EQ(pipe.open(frame, ""), "refused");
}

TEST(BulkSession, refuses_frames_older_than_the_window) {
  Pipe pipe;
  auto early = pipe.seal("", "early");
  Pipe::Frame last;
  for (std::size_t index = 0; index <= kReplayWindow; ++index) last = pipe.seal("", "late");
  EXPECT_EQ(pipe.open(last, ""), "late");
  EXPECT_EQ(pipe.open(early, ""), "refused");
}

TEST(BulkSession, remembers_gaps_over_many_window_lengths) {
  Pipe pipe;
  for (std::size_t index = 0; index < 3 * kReplayWindow; ++index) {
    auto first = pipe.seal("", "a"), second = pipe.seal("", "b");
    ASSERT_EQ(pipe.open(second, ""), "b");
    ASSERT_EQ(pipe.open(first, ""), "a");
    ASSERT_EQ(pipe.open(first, ""), "refused");
  }
}

TEST(BulkSession, changes_its_key_each_hour_and_the_opener_follows) {
  Pipe pipe;
  auto old = pipe.seal("", "old"), lost = pipe.seal("", "lost");
  EXPECT_EQ(pipe.open(old, ""), "old");
  EXPECT_FALSE(pipe.sealer.rekey_due(Time{kEpochTerm - Duration(1)}));
  ASSERT_TRUE(pipe.sealer.rekey_due(Time{kEpochTerm}));
  pipe.sealer.rekey(Time{kEpochTerm});
  EXPECT_FALSE(pipe.sealer.rekey_due(Time{kEpochTerm}));
  auto fresh = pipe.seal("", "fresh");
  EXPECT_EQ(fresh.sequence, kFramesAnEpoch);
  auto forged = fresh;
  forged.bytes[0] ^= std::byte{1};
  EXPECT_EQ(pipe.open(forged, ""), "refused");
  EXPECT_EQ(pipe.open(fresh, ""), "fresh");
  EXPECT_EQ(pipe.open(fresh, ""), "refused");
  EXPECT_EQ(pipe.open(lost, ""), "refused") << "the old epoch's key is forgotten";
}

TEST(BulkSession, uses_another_key_after_rekeying) {
  BulkSealer one(test_key(), Time{}), two(test_key(), Time{});
  Bytes before(16 + kTagBytes), after(16 + kTagBytes);
  Bytes plain(16);
  ASSERT_TRUE(one.seal({}, plain, before));
  two.rekey(Time{});
  ASSERT_TRUE(two.seal({}, plain, after));
  EXPECT_NE(before, after);
}

TEST(BulkSession, refuses_wrong_sizes) {
  Pipe pipe;
  Bytes small(kTagBytes - 1);
  EXPECT_FALSE(pipe.sealer.seal({}, as_bytes("x"), small));
  EXPECT_FALSE(pipe.opener.open(0, {}, small));
}

TEST(BulkTickets, work_once_and_only_in_time) {
  BulkTickets tickets;
  NodeId peer;
  peer.value[0] = std::byte{9};
  Time now{};
  auto first = tickets.issue({peer, 5}, now), second = tickets.issue({peer, 6}, now);
  ASSERT_TRUE(first && second);
  EXPECT_NE(*first, *second);
  EXPECT_FALSE(tickets.redeem("stranger", now));
  auto owner = tickets.redeem(*first, now);
  ASSERT_TRUE(owner);
  EXPECT_EQ(owner->peer, peer);
  EXPECT_EQ(owner->session, 5u);
  EXPECT_FALSE(tickets.redeem(*first, now));
  EXPECT_FALSE(tickets.redeem(*second, now + BulkTickets::kTerm));
}

TEST(BulkTickets, are_bounded_and_forget_a_peer) {
  BulkTickets tickets;
  NodeId peer;
  for (std::size_t index = 0; index < BulkTickets::kLimit; ++index) {
    ASSERT_TRUE(tickets.issue({peer, index}, Time{}));
  }
  EXPECT_FALSE(tickets.issue({peer, 0}, Time{}));
  const Time later = Time{} + BulkTickets::kTerm;
  auto ticket = tickets.issue({peer, 0}, later);
  ASSERT_TRUE(ticket);
  tickets.forget(peer);
  EXPECT_FALSE(tickets.redeem(*ticket, later));
}

}  // namespace
}  // namespace gpunode::security
