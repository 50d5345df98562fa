#include "runtime/membership/membership_codec.hpp"

#include <gtest/gtest.h>

#include "runtime/base/rng.hpp"
#include "tests/unit/runtime/membership/records.hpp"

namespace gpunode::membership {
namespace {

Message full_message() {
  Message message;
  message.kind = MessageKind::sync;
  message.sequence = 42;
  message.target = test_id(3);
  message.reply_wanted = true;
  message.rumors.push_back({PeerHealth::alive, test_id(1), {1, 0}, {}, {}, test_record(1)});
  message.rumors.push_back(
      {PeerHealth::suspect, test_id(2), {5, 6}, {test_id(1), test_id(4)}, {test_id(4)}, {}});
  return message;
}

TEST(MembershipCodec, AMessageComesBackAsItWent) {
  const auto back = decode(encode(full_message()));
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(back->kind, MessageKind::sync);
  EXPECT_EQ(back->sequence, 42u);
  EXPECT_EQ(back->target, test_id(3));
  EXPECT_TRUE(back->reply_wanted);
  ASSERT_EQ(back->rumors.size(), 2u);
  EXPECT_EQ(back->rumors[0].record, test_record(1));
  EXPECT_EQ(back->rumors[1].state, PeerHealth::suspect);
  EXPECT_EQ(back->rumors[1].incarnation, (Incarnation{5, 6}));
  EXPECT_EQ(back->rumors[1].observers, (std::vector{test_id(1), test_id(4)}));
  EXPECT_EQ(back->rumors[1].refused_by, std::vector{test_id(4)});
}

TEST(MembershipCodec, ARecordAloneComesBackAsItWent) {
  const auto back = decode_record(encode_record(test_record(7, 3, 9)));
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(*back, test_record(7, 3, 9));
}

TEST(MembershipCodec, BytesAtAnyAddressAreRead) {
  const Bytes bytes = encode(full_message());
  for (std::size_t shift = 0; shift < 8; ++shift) {
    Bytes moved(shift);
    moved.insert(moved.end(), bytes.begin(), bytes.end());
    EXPECT_TRUE(decode(ByteView(moved).subspan(shift)));
  }
}

TEST(MembershipCodec, EveryTruncationIsRefused) {
  const Bytes bytes = encode(full_message());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
    // Trailing padding may be missing without harm; what is accepted must be whole.
    if (const auto back = decode(cut)) {
      EXPECT_EQ(back->rumors.size(), 2u) << length;
    }
  }
  EXPECT_FALSE(decode({}));
  EXPECT_FALSE(decode(ByteView(bytes).first(bytes.size() / 2)));
}

TEST(MembershipCodec, FlippedBitsNeverDoMoreThanChangeFields) {
  const Bytes bytes = encode(full_message());
  Rng rng(1);
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    Bytes changed = bytes;
    for (int flips = 0; flips < 3; ++flips)
      changed[rng.below(changed.size())] ^= static_cast<std::byte>(1u << rng.below(8));
    const auto back = decode(changed);
    refused += !back;
    if (back) {
      EXPECT_LE(back->rumors.size(), kMaxRumors);
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(MembershipCodec, HostileCountsAreRefused) {
  Message message;
  message.rumors.assign(kMaxRumors + 1, {PeerHealth::dead, test_id(1), {1, 0}, {}, {}, {}});
  EXPECT_FALSE(decode(encode(message)));

  message = full_message();
  message.rumors[1].observers.assign(kMaxObservers + 1, test_id(1));
  EXPECT_FALSE(decode(encode(message)));

  message = full_message();
  message.rumors[0].record->control_endpoints.assign(kMaxEndpoints + 1, "tcp://a:1");
  EXPECT_FALSE(decode(encode(message)));

  message = full_message();
  message.rumors[0].record->name.assign(kMaxNameBytes + 1, 'x');
  EXPECT_FALSE(decode(encode(message)));

  EXPECT_FALSE(decode(Bytes(kMaxWireBytes + 1)));
}

TEST(MembershipCodec, ARecordUnderAnotherSubjectIsRefused) {
  Message message = full_message();
  message.rumors[0].subject = test_id(5);
  EXPECT_FALSE(decode(encode(message)));
}

}  // namespace
}  // namespace gpunode::membership
