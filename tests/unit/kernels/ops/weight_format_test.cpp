// Weights in other formats: what they stand for is as near as the format allows, and where it is in the
// bytes is what the format says, as files and devices read it.
#include "kernels/ops/weight_format.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "runtime/base/rng.hpp"

namespace gpunode::ops {
namespace {

using Row = std::vector<float>;

Row random_row(std::uint64_t seed, std::size_t count, float range) {
  Row row(count);
  for (std::size_t i = 0; i < count; ++i)
    row[i] = range * (static_cast<float>(mix(seed, i) >> 40) * 0x1p-23f - 1.0f);
  return row;
}

Bytes packed(WeightFormat format, const Row& row) {
  Bytes bytes(weight_row_bytes(format, static_cast<std::int64_t>(row.size())));
  EXPECT_TRUE(pack_weights(format, row, static_cast<std::int64_t>(row.size()), bytes));
  return bytes;
}
Row unpacked(WeightFormat format, const Bytes& bytes, std::size_t count) {
  Row row(count);
  unpack_weights(format, bytes, row);
  return row;
}
Row through(WeightFormat format, const Row& row) {
  return unpacked(format, packed(format, row), row.size());
}

float largest(const float* group) {
  float most = 0;
  for (std::size_t i = 0; i < kWeightGroup; ++i) most = std::max(most, std::fabs(group[i]));
  return most;
}

TEST(WeightFormat, has_a_name_each) {
  for (const WeightFormat format : kWeightFormats)
    EXPECT_EQ(*weight_format_of(to_string(format)), format);
  EXPECT_NE(weight_format_of("fp16").error().message().find("int8"), std::string::npos);
}

TEST(WeightFormat, takes_as_many_bytes_as_it_says) {
  EXPECT_EQ(weight_row_bytes(WeightFormat::fp32, 96), 384u);
  EXPECT_EQ(weight_row_bytes(WeightFormat::bf16, 97), 194u);
  EXPECT_EQ(weight_row_bytes(WeightFormat::int8, 96), 102u);
  EXPECT_EQ(weight_row_bytes(WeightFormat::int4, 96), 54u);
  EXPECT_TRUE(takes_rows_of(WeightFormat::bf16, 97));
  EXPECT_FALSE(takes_rows_of(WeightFormat::int8, 97));
  EXPECT_FALSE(takes_rows_of(WeightFormat::int4, 48));
}

TEST(WeightFormat, fp32_is_what_it_was) {
  const Row row = random_row(1, 77, 3);
  EXPECT_EQ(through(WeightFormat::fp32, row), row);
}

TEST(WeightFormat, bf16_is_the_nearest_one) {
  const Row row = random_row(2, 1000, 5);
  const Row got = through(WeightFormat::bf16, row);
  for (std::size_t i = 0; i < row.size(); ++i)
    EXPECT_LE(std::fabs(got[i] - row[i]), std::fabs(row[i]) / 256) << row[i];
  EXPECT_EQ(through(WeightFormat::bf16, got), got);
  EXPECT_EQ(through(WeightFormat::bf16, {1.00390625f})[0], 1.0f);  // a tie goes to the even one
  EXPECT_EQ(through(WeightFormat::bf16, {1.01171875f})[0], 1.015625f);
  EXPECT_TRUE(std::isnan(through(WeightFormat::bf16, {std::nanf("")})[0]));
  EXPECT_EQ(through(WeightFormat::bf16, {INFINITY})[0], INFINITY);
}

TEST(WeightFormat, int8_is_off_by_half_a_code_at_most) {
  for (const float range : {1e-30f, 0.02f, 1.0f, 1e30f}) {
    const Row row = random_row(3, 1120, range);
    const Row got = through(WeightFormat::int8, row);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const float most = largest(row.data() + i / kWeightGroup * kWeightGroup);
      EXPECT_LE(std::fabs(got[i] - row[i]), most / 127 * 0.51f + most / 500) << i;
    }
  }
}

TEST(WeightFormat, int4_is_no_further_off_than_the_plain_scale_leaves_it) {
  const Row row = random_row(4, 1120, 0.05f);
  const Row got = through(WeightFormat::int4, row);
  double sum = 0, plain = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const float* group = row.data() + i / kWeightGroup * kWeightGroup;
    float extreme = 0;
    for (std::size_t at = 0; at < kWeightGroup; ++at)
      if (std::fabs(group[at]) > std::fabs(extreme)) extreme = group[at];
    const float scale = extreme / -8;
    const float code = std::min(std::max(std::nearbyint(row[i] / scale), -8.0f), 7.0f);
    plain += std::pow(double{row[i]} - double{code * scale}, 2);
    sum += std::pow(double{row[i]} - double{got[i]}, 2);
  }
  EXPECT_LT(sum, 0.97 * plain);
}

TEST(WeightFormat, zeros_stay_zeros_and_what_is_too_small_becomes_one) {
  for (const WeightFormat format : kWeightFormats)
    EXPECT_EQ(through(format, Row(64)), Row(64)) << to_string(format);
  const Row tiny(64, std::numeric_limits<float>::denorm_min());
  for (const WeightFormat format : {WeightFormat::int8, WeightFormat::int4})
    for (const float value : through(format, tiny)) EXPECT_LE(std::fabs(value), 1e-40f);
}

TEST(WeightFormat, the_largest_numbers_stay_finite) {
  Row row = random_row(5, 64, 1);
  row[3] = std::numeric_limits<float>::max();
  row[40] = std::numeric_limits<float>::lowest();
  for (const WeightFormat format : {WeightFormat::int8, WeightFormat::int4})
    for (const float value : through(format, row)) EXPECT_TRUE(std::isfinite(value));
}

TEST(WeightFormat, no_scale_fits_what_is_not_finite) {
  for (const float odd : {std::nanf(""), INFINITY, -INFINITY}) {
    Row row(64, 1.0f);
    row[63] = odd;
    Bytes bytes(weight_row_bytes(WeightFormat::int8, 64));
    const auto done = pack_weights(WeightFormat::int8, row, 64, bytes);
    EXPECT_EQ(done.error().code, ErrorCode::invalid_argument);
  }
}

// Two groups and a chunk's end: 512 weights, then 64.
TEST(WeightFormat, lies_as_it_is_told) {
  Row row(576, 0.0f);
  row[0] = 127.0f;
  row[1] = -3.0f;
  row[33] = 254.0f;  // of the second group
  row[512] = 63.5f;  // of the second chunk
  row[545] = -127.0f;
  const Bytes int8 = packed(WeightFormat::int8, row);
  const auto half = [](const Bytes& bytes, std::size_t at) {
    std::uint16_t bits;
    std::memcpy(&bits, bytes.data() + at, sizeof bits);
    return bits;
  };
  EXPECT_EQ(half(int8, 0), 0x3f80);  // 1
  EXPECT_EQ(half(int8, 2), 0x4000);  // 2
  EXPECT_EQ(int8[32], std::byte{127});
  EXPECT_EQ(int8[33], static_cast<std::byte>(-3));
  EXPECT_EQ(int8[32 + 33], std::byte{127});
  constexpr std::size_t kSecond = 16 * 34;
  EXPECT_EQ(half(int8, kSecond), 0x3f00);  // 1/2
  EXPECT_EQ(half(int8, kSecond + 2), 0x3f80);
  EXPECT_EQ(int8[kSecond + 4], std::byte{127});
  EXPECT_EQ(int8[kSecond + 4 + 33], static_cast<std::byte>(-127));

  Row few(32, 0.0f);
  few[0] = -8.0f;
  few[1] = 7.0f;
  few[16] = 1.0f;
  const Bytes int4 = packed(WeightFormat::int4, few);
  EXPECT_EQ(half(int4, 0), 0x3f80);
  EXPECT_EQ(int4[2], std::byte{0x90});  // -8 + 8, and 1 + 8 above it
  EXPECT_EQ(int4[3], std::byte{0x8f});
  EXPECT_EQ(unpacked(WeightFormat::int4, int4, 32), few);
}

}  // namespace
}  // namespace gpunode::ops
