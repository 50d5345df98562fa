// How the weights of products lie where a model only answers: as they were trained, rounded to
// bfloat16, or quantised, when 32 neighbours of a row (a group) share a scale, itself a bfloat16:
//   int8   code * scale, codes from -127 to 127: 8.5 bits a weight
//   int4   code * scale, codes from -8 to 7: 4.5 bits a weight
// What a weight stands for is a float32, exactly; a product with it is one with that number. So a
// packed matrix gives the bits that its unpacked one gives.
// A row (K) is packed for itself, byte behind byte: in int8 and int4 chunk after chunk of 512 weights,
// of each its groups' scales, then their codes; of an int4 group byte i has weight i in its lower half
// and weight i + 16 in its upper one, each plus 8. Numbers are little-endian.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "runtime/base/bytes.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::ops {

enum class WeightFormat : std::uint8_t { fp32, bf16, int8, int4 };
inline constexpr WeightFormat kWeightFormats[] = {WeightFormat::fp32, WeightFormat::bf16,
                                                  WeightFormat::int8, WeightFormat::int4};
std::string_view to_string(WeightFormat format);
// "fp32", "bf16", "int8" or "int4". Fails with: invalid_argument.
Result<WeightFormat> weight_format_of(std::string_view name);

inline constexpr std::int64_t kWeightGroup = 32, kWeightChunk = 512;

constexpr bool is_quantised(WeightFormat format) {
  return format == WeightFormat::int8 || format == WeightFormat::int4;
}
// Whether it can have rows of K.
constexpr bool takes_rows_of(WeightFormat format, std::int64_t inner) {
  return !is_quantised(format) || inner % kWeightGroup == 0;
}
// Bytes of a group: its scale and its codes.
constexpr std::size_t weight_group_bytes(WeightFormat format) {
  return format == WeightFormat::int8 ? 2 + 32 : 2 + 16;
}
// Bytes of a row of K.
constexpr std::size_t weight_row_bytes(WeightFormat format, std::int64_t inner) {
  const auto count = static_cast<std::size_t>(inner);
  if (is_quantised(format)) return count / kWeightGroup * weight_group_bytes(format);
  return count * (format == WeightFormat::bf16 ? 2 : 4);
}

// rows (R, K) in the format that it can have them in: `out` has R rows' bytes. Fails with:
// invalid_argument (a number that is not finite, which no scale fits).
Result<void> pack_weights(WeightFormat format, std::span<const float> rows, std::int64_t inner,
                          MutableByteView out);
// row (K), of one packed row.
void unpack_weights(WeightFormat format, ByteView packed, std::span<float> row);

}  // namespace gpunode::ops
