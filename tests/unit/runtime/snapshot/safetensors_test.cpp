#include "runtime/snapshot/safetensors.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/base/rng.hpp"

namespace gpunode::snapshot {
namespace {

Bytes file_of(std::string json, std::uint64_t data_bytes) {
  Bytes bytes(8);
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(json.size() >> (8 * i));
  ByteView text = as_bytes(json);
  bytes.insert(bytes.end(), text.begin(), text.end());
  bytes.resize(bytes.size() + data_bytes);
  return bytes;
}

std::string refusal(const std::string& json, std::uint64_t data_bytes) {
  Bytes bytes = file_of(json, data_bytes);
  Result<SafetensorsHeader> header = decode_safetensors_header(bytes, bytes.size());
  if (header) return "accepted";
  EXPECT_EQ(header.error().code, ErrorCode::corrupted);
  return header.error().detail;
}

// The bytes that the reference implementation writes for the same tensors.
TEST(Safetensors, golden_bytes) {
  SafetensorsHeader header =
      plan_safetensors({{"b", ElementType::f32, {2, 1}, 0, 0}, {"a", ElementType::f32, {3}, 0, 0}},
                       {{"kind", "gpt \"x\"\n"}});
  Bytes bytes = encode_safetensors_header(header);
  std::string expected = R"({"__metadata__":{"kind":"gpt \"x\"\n"},)"
                         R"("a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},)"
                         R"("b":{"dtype":"F32","shape":[2,1],"data_offsets":[12,20]}})";
  while (expected.size() % 8 != 0) expected += ' ';
  EXPECT_EQ(as_text(ByteView(bytes).subspan(8)), expected);
  EXPECT_EQ(bytes[0], static_cast<std::byte>(expected.size()));
  EXPECT_EQ(bytes.size(), header.data_offset);
  EXPECT_EQ(header.file_bytes(), header.data_offset + 20);
  EXPECT_EQ(header.data_offset % 8, 0u);
}

TEST(Safetensors, order_and_metadata_do_not_depend_on_the_order_given) {
  std::vector<TensorEntry> tensors{{"z", ElementType::f32, {3}, 0, 0},
                                   {"a", ElementType::f16, {2}, 0, 0},
                                   {"m", ElementType::f64, {1}, 0, 0},
                                   {"b", ElementType::f32, {0, 9}, 0, 0}};
  Bytes first = encode_safetensors_header(plan_safetensors(tensors, {}));
  std::reverse(tensors.begin(), tensors.end());
  SafetensorsHeader header = plan_safetensors(tensors, {});
  EXPECT_EQ(encode_safetensors_header(header), first);
  EXPECT_EQ(header.tensors[0].name, "m");
  EXPECT_EQ(header.tensors[1].name, "b");
  EXPECT_EQ(header.tensors[3].name, "a");
}

TEST(Safetensors, reads_what_it_writes) {
  SafetensorsHeader header = plan_safetensors({{"weight \"q\" \\", ElementType::f32, {4, 2}, 0, 0},
                                               {"empty", ElementType::u8, {0}, 0, 0},
                                               {"one", ElementType::i64, {}, 0, 0}},
                                              {{"k\t", "v\x01"}, {"", ""}});
  Bytes bytes = encode_safetensors_header(header);
  Result<SafetensorsHeader> read = decode_safetensors_header(bytes, header.file_bytes());
  ASSERT_TRUE(read.has_value()) << read.error().message();
  EXPECT_EQ(read->metadata, header.metadata);
  EXPECT_EQ(read->data_offset, header.data_offset);
  ASSERT_EQ(read->tensors.size(), 3u);
  for (const TensorEntry& tensor : header.tensors) EXPECT_EQ(*read->find(tensor.name), tensor);
  EXPECT_EQ(read->find("none"), nullptr);
}

TEST(Safetensors, hostile_headers_are_refused_with_a_reason) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(refusal(good, 8), "accepted");
  EXPECT_EQ(refusal("{}", 0), "accepted");
  EXPECT_NE(refusal(good, 7).find("beyond the end"), std::string::npos);
  EXPECT_NE(refusal(good, 9).find("after the last"), std::string::npos);
  auto entry = [](const std::string& dtype, const std::string& shape, const std::string& places) {
    return "{\"a\":{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + places +
           "}}";
  };
  EXPECT_NE(refusal(entry("\"Q9\"", "[2]", "[0,8]"), 8).find("not known"), std::string::npos);
  EXPECT_NE(refusal(entry("\"F32\"", "[3]", "[0,8]"), 8).find("do not match"), std::string::npos);
  EXPECT_NE(refusal(entry("\"F32\"", "[2]", "[4,12]"), 12).find("gap"), std::string::npos);
  EXPECT_NE(refusal(entry("\"F32\"", "[4294967296,4294967296]", "[0,0]"), 0).find("too large"),
            std::string::npos);
  EXPECT_NE(refusal(entry("\"F32\"", "[9223372036854775807,9223372036854775807,0]", "[0,8]"), 8),
            "accepted");
  for (const std::string& json : {
           entry("\"F32\"", "[2]", "[8,0]"),
           entry("\"F32\"", "[2]", "[0]"),
           entry("\"F32\"", "[2]", "[0,8,8]"),
           entry("\"F32\"", "[-2]", "[0,8]"),
           entry("\"F32\"", "[2.0]", "[0,8]"),
           entry("\"F32\"", "[[2]]", "[0,8]"),
           entry("\"F32\"", "\"2\"", "[0,8]"),
           entry("\"F32\"", "null", "[0,8]"),
           entry("\"F32\"", "[99999999999999999999]", "[0,8]"),
           entry("\"F32\"", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]", "[0,8]"),
           entry("4", "[2]", "[0,8]"),
           entry("[\"F32\"]", "[2]", "[0,8]"),
           std::string(R"({"a":{"dtype":"F32","shape":[2]}})"),
           std::string(R"({"a":{"dtype":"F32","dtype":"F32","data_offsets":[0,8]}})"),
           std::string(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":[1]}})"),
           std::string(R"({"a":"b"})"),
           std::string(R"({"a":[1]})"),
           std::string(R"({"__metadata__":{"a":{}}})"),
           std::string(R"({"__metadata__":{"a":1}})"),
           std::string(R"({"__metadata__":{"a":"1","a":"2"}})"),
           std::string(R"({"__metadata__":[]})"),
           std::string(R"([])"),
           std::string(R"( {})"),
           std::string(R"({}{})"),
           std::string(R"({"a)"),
           std::string("{\"\xff\":{}}"),
           std::string(),
       })
    EXPECT_NE(refusal(json, 8), "accepted") << json;
  std::string twice = good;
  twice.insert(twice.size() - 1, "," + good.substr(1, good.size() - 2));
  EXPECT_NE(refusal(twice, 8).find("stands twice"), std::string::npos);
}

TEST(Safetensors, overlapping_tensors_are_refused) {
  EXPECT_NE(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                    R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                    12)
                .find("overlap"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                    R"("b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                    8)
                .find("overlap"),
            std::string::npos);
}

TEST(Safetensors, deep_nesting_and_long_headers_are_refused_early) {
  EXPECT_NE(refusal(std::string(1'000'000, '['), 0), "accepted");
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100'000; ++i) deep += "{\"a\":";
  EXPECT_NE(refusal(deep, 0), "accepted");
  Bytes eight(8, std::byte{0xff});
  EXPECT_FALSE(safetensors_header_bytes(eight, ~0ull).has_value());
  EXPECT_FALSE(safetensors_header_bytes(Bytes(7), 7).has_value());
  eight.assign(8, std::byte{0});
  eight[0] = std::byte{1};
  EXPECT_FALSE(safetensors_header_bytes(eight, 8).has_value());
}

TEST(Safetensors, every_truncation_and_many_mutations_are_survived) {
  SafetensorsHeader header = plan_safetensors(
      {{"first", ElementType::f32, {4, 2}, 0, 0}, {"second", ElementType::f32, {3}, 0, 0}},
      {{"key", "value"}});
  Bytes bytes = encode_safetensors_header(header);
  std::uint64_t whole = header.file_bytes();
  for (std::size_t left = 0; left < bytes.size(); ++left)
    EXPECT_FALSE(decode_safetensors_header(ByteView(bytes).first(left), left).has_value());
  for (std::size_t left = 0; left < bytes.size(); ++left)
    EXPECT_FALSE(decode_safetensors_header(ByteView(bytes).first(left), whole).has_value());
  Rng rng(1);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    Bytes mutant = bytes;
    for (std::uint64_t n = 1 + rng.below(3); n > 0; --n)
      mutant[rng.below(mutant.size())] = static_cast<std::byte>(
          rng.chance(0.5) ? rng.next() : "{}[]\",:0123456789"[rng.below(17)]);
    Result<SafetensorsHeader> read = decode_safetensors_header(mutant, whole);
    if (!read) continue;
    ++accepted;
    EXPECT_LE(read->file_bytes(), whole);
  }
  EXPECT_LT(accepted, 15'000);
}

}  // namespace
}  // namespace gpunode::snapshot
