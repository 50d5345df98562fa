#include "runtime/directory/keyspace.hpp"

#include <gtest/gtest.h>

#include "tests/unit/runtime/directory/signing.hpp"

namespace gpunode::directory {
namespace {

Keyspace filled(int count) {
  Keyspace keyspace;
  keyspace.epoch = 1;
  for (int i = 1; i <= count; ++i) {
    const auto version = static_cast<std::uint64_t>(i);
    keyspace.items["key" + std::to_string(i)] = {Bytes(100), version, false};
    keyspace.version = version;
  }
  return keyspace;
}

TEST(Keyspace, CutDeltasRebuildTheWhole) {
  const Keyspace whole = filled(100);
  const auto deltas = cut_deltas(test_id(1), whole, 0, 1024, 1000);
  EXPECT_GT(deltas.size(), 10u);
  Keyspace copy;
  for (const Delta& delta : deltas) {
    EXPECT_LE(wire_estimate(delta), 1024u);
    EXPECT_TRUE(add_delta(copy, delta));
  }
  EXPECT_EQ(copy.version, whole.version);
  EXPECT_EQ(root_of(copy, test_signing(0)), root_of(whole, test_signing(0)));
}

TEST(Keyspace, AGapIsNoticed) {
  const auto deltas = cut_deltas(test_id(1), filled(100), 0, 1024, 1000);
  Keyspace copy;
  EXPECT_TRUE(add_delta(copy, deltas[0]));
  EXPECT_FALSE(add_delta(copy, deltas[2]));
}

TEST(Keyspace, WhoLacksForgottenTombstonesGetsEverything) {
  Keyspace keyspace = filled(10);
  keyspace.items["key3"].tombstone = true;
  keyspace.items["key3"].version = keyspace.version = 11;
  EXPECT_EQ(cut_deltas(test_id(1), keyspace, 10, 64 * 1024, 8).at(0).since, 10u);
  keyspace.collect(11);
  EXPECT_EQ(keyspace.items.size(), 9u);
  const auto deltas = cut_deltas(test_id(1), keyspace, 10, 64 * 1024, 8);
  EXPECT_EQ(deltas.at(0).since, 0u);
  Keyspace old = filled(10);
  EXPECT_TRUE(add_delta(old, deltas[0]));
  EXPECT_EQ(old.live("key3"), nullptr);
  EXPECT_NE(old.live("key4"), nullptr);
}

TEST(Keyspace, TheRootSeesKeysValuesVersionsAndTombstones) {
  const auto signing = test_signing(0);
  const Keyspace base = filled(3);
  Keyspace value = base, version = base, tombstone = base, key = base;
  value.items["key1"].value[0] = std::byte{1};
  version.items["key1"].version = 9;
  tombstone.items["key1"].tombstone = true;
  key.items["other"] = key.items["key1"];
  key.items.erase("key1");
  for (const Keyspace& changed : {value, version, tombstone, key})
    EXPECT_NE(root_of(changed, signing), root_of(base, signing));
}

TEST(Keyspace, BoundsCountLiveKeysOnly) {
  Keyspace keyspace = filled(static_cast<int>(kMaxKeysPerOwner));
  EXPECT_TRUE(within_bounds(keyspace));
  keyspace.items["gone"] = {{}, 5000, true};
  EXPECT_TRUE(within_bounds(keyspace));
  keyspace.items["more"] = {{}, 5001, false};
  EXPECT_FALSE(within_bounds(keyspace));
}

}  // namespace
}  // namespace gpunode::directory
