#include "runtime/snapshot/manifest_codec.hpp"

#include <gtest/gtest.h>

#include "tests/unit/runtime/snapshot/state_fixture.hpp"

namespace gpunode::snapshot {
namespace {

using testing::meta_of;

Manifest sample() {
  Manifest manifest;
  manifest.meta = meta_of(100);
  ShardRecord weights{"weight-000.safetensors",
                      TensorPart::weight,
                      (2u << 20) + 5,
                      storage::sha256_of(as_bytes("w")),
                      {{1, 2}, {3, 4}, {5, 6}}};
  ShardRecord moments{"first_moment-000.safetensors",
                      TensorPart::first_moment,
                      1u << 20,
                      storage::sha256_of(as_bytes("m")),
                      {{7, 8}}};
  manifest.shards = {weights, moments};
  manifest.parameters = {{"a", ElementType::f32, {2, 3}, {0, 1, -1}},
                         {"b", ElementType::f32, {}, {0, -1, -1}}};
  return manifest;
}

// With a right checksum, so that what lies behind it is tested.
Bytes sealed(Bytes table) {
  storage::Sha256 hash = storage::sha256_of(table);
  table.insert(table.end(), hash.value.begin(), hash.value.end());
  return table;
}

TEST(ManifestCodec, reads_what_it_writes_bit_for_bit) {
  Manifest manifest = sample();
  Bytes bytes = encode_manifest(manifest);
  Result<Manifest> read = decode_manifest(bytes);
  ASSERT_TRUE(read.has_value()) << read.error().message();
  EXPECT_EQ(*read, manifest);
  EXPECT_EQ(encode_manifest(*read), bytes);
  EXPECT_EQ(read->size_bytes(), (3u << 20) + 5);
}

TEST(ManifestCodec, an_empty_manifest_is_one) {
  Manifest manifest;
  Result<Manifest> read = decode_manifest(encode_manifest(manifest));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(*read, manifest);
}

TEST(ManifestCodec, every_flipped_bit_and_every_truncation_is_corrupted) {
  Bytes bytes = encode_manifest(sample());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    Bytes mutant = bytes;
    mutant[i] ^= std::byte{4};
    EXPECT_EQ(decode_manifest(mutant).error().code, ErrorCode::corrupted);
    EXPECT_EQ(decode_manifest(ByteView(bytes).first(i)).error().code, ErrorCode::corrupted);
  }
}

TEST(ManifestCodec, hostile_tables_under_a_right_checksum_are_survived) {
  Bytes bytes = encode_manifest(sample());
  Bytes table(bytes.begin(), bytes.end() - 32);
  for (std::size_t left = 0; left < table.size(); ++left)
    (void)decode_manifest(sealed(Bytes(table.begin(), table.begin() + left)));
  Rng rng(2);
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    Bytes mutant = table;
    for (std::uint64_t n = 1 + rng.below(4); n > 0; --n)
      mutant[rng.below(mutant.size())] = static_cast<std::byte>(rng.next());
    Result<Manifest> read = decode_manifest(sealed(mutant));
    if (!read) {
      ++refused;
      continue;
    }
    for (const ShardRecord& shard : read->shards)
      EXPECT_EQ(shard.file.find('/'), std::string::npos);
  }
  EXPECT_GT(refused, 2000);
}

TEST(ManifestCodec, contradictions_are_refused) {
  auto refused = [](auto change) {
    Manifest manifest = sample();
    change(manifest);
    Result<Manifest> read = decode_manifest(encode_manifest(manifest));
    return !read && read.error().code == ErrorCode::corrupted;
  };
  EXPECT_FALSE(refused([](Manifest&) {}));
  EXPECT_TRUE(refused([](Manifest& m) { m.shards[0].file = "../../etc/passwd"; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.shards[0].file = "../x.safetensors"; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.shards[0].file = ".safetensors"; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.shards[1].file = m.shards[0].file; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.shards[0].blocks.pop_back(); }));
  EXPECT_TRUE(refused([](Manifest& m) { m.shards[0].blocks.push_back({}); }));
  EXPECT_TRUE(refused([](Manifest& m) { m.shards[0].size_bytes = ~0ull; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.shards[0].part = static_cast<TensorPart>(9); }));
  EXPECT_TRUE(refused([](Manifest& m) { m.parameters[0].shards[0] = 2; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.parameters[0].shards[0] = -1; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.parameters[0].shards[0] = -2; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.parameters[0].shards[0] = 1; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.parameters[0].shards[2] = 1; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.parameters[1].name = m.parameters[0].name; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.parameters[1].name.clear(); }));
  EXPECT_TRUE(refused([](Manifest& m) { m.parameters[1].shape = {~0ull, 2}; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.parameters[1].shape.assign(17, 1); }));
  EXPECT_TRUE(refused([](Manifest& m) { m.parameters[1].type = static_cast<ElementType>(99); }));
}

TEST(CheckpointKey, has_one_name_and_parses_no_other) {
  JobId job{1, 2};
  CheckpointKey key{job, {1, 0xabc}, 250};
  EXPECT_EQ(key.text(), "1-0000000000000abc-250");
  EXPECT_EQ(CheckpointKey::parse(job, "1-0000000000000abc-250"), key);
  const std::string mark = "0000000000000abc";
  for (const std::string& name :
       {std::string(), std::string("1"), "1-" + mark, "1-" + mark + "-", "1-" + mark + "-250-",
        "01-" + mark + "-250", "1-" + mark + "-250x", "-1-" + mark + "-250", "1--" + mark + "-250",
        ".tmp-1-" + mark + "-250", "1-" + mark + "-99999999999999999999", "+1-" + mark + "-2",
        std::string("1-abc-250"), std::string("1-0000000000000ABC-250"), "1-0" + mark + "-250",
        "4294967296-" + mark + "-250"})
    EXPECT_FALSE(CheckpointKey::parse(job, name).has_value()) << name;
}

TEST(CheckpointKey, one_of_a_later_history_is_newer_whatever_its_step) {
  JobId job{1, 2};
  EXPECT_LT((CheckpointKey{job, {1, 5}, 900}), (CheckpointKey{job, {1, 6}, 100}));
  EXPECT_LT((CheckpointKey{job, {1, 9}, 900}), (CheckpointKey{job, {2, 0}, 100}));
}

}  // namespace
}  // namespace gpunode::snapshot
