#include "runtime/directory/directory_codec.hpp"

#include <gtest/gtest.h>

#include "runtime/base/rng.hpp"
#include "tests/unit/runtime/directory/signing.hpp"

namespace gpunode::directory {
namespace {

Message full_message() {
  Message message;
  message.kind = MessageKind::deltas;
  message.root[5] = std::byte{5};
  message.positions = {{test_id(1), 2, 3}, {test_id(4), 5, 6}};
  Delta delta{test_id(1), 2, 3, 9, {}, Bytes(64, std::byte{1}), 4, 8, {}};
  delta.items = {{"a", to_bytes(as_bytes("x")), 5, false}, {"b", {}, 8, true}};
  message.deltas = {delta};
  return message;
}

TEST(DirectoryCodec, AMessageComesBackAsItWent) {
  const auto back = decode(encode(full_message()));
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(back->kind, MessageKind::deltas);
  EXPECT_EQ(back->root, full_message().root);
  ASSERT_EQ(back->positions.size(), 2u);
  EXPECT_EQ(back->positions[1].owner, test_id(4));
  EXPECT_EQ(back->positions[1].version, 6u);
  ASSERT_EQ(back->deltas.size(), 1u);
  EXPECT_EQ(back->deltas[0].items, full_message().deltas[0].items);
  EXPECT_EQ(back->deltas[0].since, 4u);
  EXPECT_EQ(back->deltas[0].upto, 8u);
  EXPECT_EQ(back->deltas[0].signature, Bytes(64, std::byte{1}));
}

TEST(DirectoryCodec, ItemsOutOfOrderOrOutOfTheirRangeAreRefused) {
  Message message = full_message();
  std::swap(message.deltas[0].items[0], message.deltas[0].items[1]);
  EXPECT_FALSE(decode(encode(message)));
  message = full_message();
  message.deltas[0].items[0].version = 4;
  EXPECT_FALSE(decode(encode(message)));
  message = full_message();
  message.deltas[0].upto = 10;
  EXPECT_FALSE(decode(encode(message)));
}

TEST(DirectoryCodec, HostileSizesAreRefused) {
  Message message = full_message();
  message.deltas[0].items[0].value.resize(kMaxValueBytes + 1);
  EXPECT_FALSE(decode(encode(message)));
  message = full_message();
  message.deltas[0].items[0].key.assign(kMaxKeyBytes + 1, 'k');
  EXPECT_FALSE(decode(encode(message)));
  message = full_message();
  message.deltas.assign(kMaxDeltas + 1, message.deltas[0]);
  EXPECT_FALSE(decode(encode(message)));
  message = full_message();
  message.positions.assign(kMaxPositions + 1, message.positions[0]);
  EXPECT_FALSE(decode(encode(message)));
  EXPECT_FALSE(decode(Bytes(kMaxWireBytes + 1)));
  EXPECT_FALSE(decode({}));
}

TEST(DirectoryCodec, FlippedBitsAndTruncationsNeverDoMoreThanChangeFields) {
  const Bytes bytes = encode(full_message());
  Rng rng(1);
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    Bytes changed = bytes;
    changed.resize(rng.chance(0.3) ? rng.below(changed.size()) + 1 : changed.size());
    for (int flips = 0; flips < 3; ++flips)
      changed[rng.below(changed.size())] ^= static_cast<std::byte>(1u << rng.below(8));
    const auto back = decode(changed);
    refused += !back;
    if (!back) continue;
    for (const Delta& delta : back->deltas)
      for (const Item& item : delta.items) {
        EXPECT_LE(item.key.size(), kMaxKeyBytes);
        EXPECT_GT(item.version, delta.since);
        EXPECT_LE(item.version, delta.upto);
      }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace gpunode::directory
