#include "kernels/ops/weight_format.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "runtime/base/check.hpp"

namespace gpunode::ops {
namespace {

constexpr std::size_t kGroup = kWeightGroup, kChunk = kWeightChunk;
using Group = std::span<const float, kGroup>;
using Codes = std::array<float, kGroup>;  // whole numbers

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits | 0x400000u) >> 16);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
float from_bf16(std::uint16_t half) {
  return std::bit_cast<float>(std::uint32_t{half} << 16);
}
float read_bf16(const std::byte* at) {
  std::uint16_t half;
  std::memcpy(&half, at, sizeof half);
  return from_bf16(half);
}

float largest_of(Group group) {
  float largest = 0;
  for (const float value : group) largest = std::max(largest, std::fabs(value));
  return largest;
}

// Four lanes, which every machine has: it tries thirteen scales a group of int4.
using Lanes = float __attribute__((vector_size(16)));
constexpr std::size_t kLanes = 4;
Lanes lanes_at(const float* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

// The codes by which the scale gives the group best; the sum of squares that is left.
float codes_of(Group group, float scale, float least, float most, Codes& codes) {
  constexpr float kWhole =
      0x1.8p23f;  // added and taken away, it rounds to the nearest, ties to even
  const float inverse = scale == 0 ? 0 : 1 / scale;
  const float factor = std::isfinite(inverse) ? inverse : 0;
  Lanes left = {};
  for (std::size_t i = 0; i < kGroup; i += kLanes) {
    const Lanes values = lanes_at(group.data() + i);
    Lanes code = values * factor;
    code = code < least ? Lanes{} + least : code;
    code = code > most ? Lanes{} + most : code;
    code = (code + kWhole) - kWhole;
    std::memcpy(&codes[i], &code, sizeof code);
    const Lanes off = values - code * scale;
    left += off * off;
  }
  return (left[0] + left[2]) + (left[1] + left[3]);
}

// The nearest bfloat16, whose product with the extreme code is still finite.
std::uint16_t scale_near(float value, float code) {
  const std::uint16_t scale = to_bf16(value);
  return std::isfinite(from_bf16(scale) * code) ? scale : static_cast<std::uint16_t>(scale - 1);
}

std::uint16_t quantise_int8(Group group, Codes& codes) {
  const std::uint16_t scale = scale_near(largest_of(group) / 127, 127);
  (void)codes_of(group, from_bf16(scale), -127, 127, codes);
  return scale;
}

// There is one code more below zero than above, so the largest weight takes the lowest one: its sign is
// the scale's. Scales near the one that just reaches it may leave less of the others.
std::uint16_t quantise_int4(Group group, Codes& codes) {
  constexpr int kTried = 6;  // to both sides
  const float largest =
      *std::ranges::max_element(group, {}, [](float value) { return std::fabs(value); });
  std::uint16_t best = scale_near(largest / -8, -8);
  float least = codes_of(group, from_bf16(best), -8, 7, codes);
  for (int step = -kTried; step <= kTried; ++step) {
    const std::uint16_t scale = scale_near(largest / (-8 + 0.15f * static_cast<float>(step)), -8);
    Codes tried;
    const float left = codes_of(group, from_bf16(scale), -8, 7, tried);
    if (left >= least) continue;
    least = left;
    best = scale;
    codes = tried;
  }
  return best;
}

void write_codes(WeightFormat format, const Codes& codes, std::byte* out) {
  const auto whole = [&](std::size_t i) { return static_cast<int>(codes[i]); };
  if (format == WeightFormat::int8)
    for (std::size_t i = 0; i < kGroup; ++i) out[i] = static_cast<std::byte>(whole(i));
  else
    for (std::size_t i = 0; i < kGroup / 2; ++i)
      out[i] = static_cast<std::byte>((whole(i) + 8) | (whole(i + kGroup / 2) + 8) << 4);
}

float code_at(WeightFormat format, const std::byte* codes, std::size_t i) {
  if (format == WeightFormat::int8) return static_cast<float>(static_cast<std::int8_t>(codes[i]));
  const auto both = static_cast<int>(codes[i % (kGroup / 2)]);
  return static_cast<float>((i < kGroup / 2 ? both & 15 : both >> 4) - 8);
}

// Calls each(first weight, scale's place, codes' place) for the groups of a packed row.
template <class Byte, class Each>
void for_groups(WeightFormat format, std::size_t inner, Byte* row, const Each& each) {
  const std::size_t code_bytes = weight_group_bytes(format) - 2;
  for (std::size_t begin = 0; begin < inner; begin += kChunk) {
    const std::size_t groups = std::min(kChunk, inner - begin) / kGroup;
    for (std::size_t group = 0; group < groups; ++group)
      each(begin + group * kGroup, row + 2 * group, row + 2 * groups + group * code_bytes);
    row += groups * weight_group_bytes(format);
  }
}

void quantise_row(WeightFormat format, std::span<const float> row, std::byte* out) {
  for_groups(format, row.size(), out, [&](std::size_t first, std::byte* scale, std::byte* to) {
    const Group group = row.subspan(first).first<kGroup>();
    Codes codes;
    const std::uint16_t half =
        format == WeightFormat::int8 ? quantise_int8(group, codes) : quantise_int4(group, codes);
    std::memcpy(scale, &half, sizeof half);
    write_codes(format, codes, to);
  });
}

}  // namespace

std::string_view to_string(WeightFormat format) {
  constexpr std::string_view kNames[] = {"fp32", "bf16", "int8", "int4"};
  return kNames[static_cast<std::size_t>(format)];
}

Result<WeightFormat> weight_format_of(std::string_view name) {
  for (const WeightFormat format : kWeightFormats)
    if (to_string(format) == name) return format;
  return {ErrorCode::invalid_argument,
          "weights are kept as fp32, bf16, int8 or int4, not '" + std::string(name) + "'"};
}

Result<void> pack_weights(WeightFormat format, std::span<const float> rows, std::int64_t inner,
                          MutableByteView out) {
  const auto K = static_cast<std::size_t>(inner);
  const std::size_t row_bytes = weight_row_bytes(format, inner);
  GPUNODE_CHECK(takes_rows_of(format, inner) && rows.size() % K == 0 &&
                    out.size() == rows.size() / K * row_bytes,
                "pack_weights: the room is not the rows'");
  if (format == WeightFormat::fp32) {
    std::memcpy(out.data(), rows.data(), rows.size_bytes());
    return {};
  }
  if (format == WeightFormat::bf16) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::uint16_t half = to_bf16(rows[i]);
      std::memcpy(out.data() + 2 * i, &half, sizeof half);
    }
    return {};
  }
  if (!std::ranges::all_of(rows, [](float value) { return std::isfinite(value); }))
    return {ErrorCode::invalid_argument, "a weight is no finite number, and " +
                                             std::string(to_string(format)) +
                                             " has none for it: keep the weights as fp32 or bf16"};
  std::byte* to = out.data();
  for (std::size_t row = 0; row < rows.size() / K; ++row, to += row_bytes)
    quantise_row(format, rows.subspan(row * K, K), to);
  return {};
}

void unpack_weights(WeightFormat format, ByteView packed, std::span<float> row) {
  const std::byte* from = packed.data();
  GPUNODE_CHECK(packed.size() == weight_row_bytes(format, static_cast<std::int64_t>(row.size())),
                "unpack_weights: the bytes are not the row's");
  if (format == WeightFormat::fp32) {
    std::memcpy(row.data(), from, row.size_bytes());
  } else if (format == WeightFormat::bf16) {
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = read_bf16(from + 2 * i);
  } else {
    for_groups(format, row.size(), from,
               [&](std::size_t first, const std::byte* scale, const std::byte* codes) {
                 for (std::size_t i = 0; i < kGroup; ++i)
                   row[first + i] = code_at(format, codes, i) * read_bf16(scale);
               });
  }
}

}  // namespace gpunode::ops
