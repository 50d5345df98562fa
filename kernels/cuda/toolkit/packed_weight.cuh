// A weight of a packed row, of any format but fp32 (ops/weight_format.hpp): read where it lies, its scale
// out of the first cache.
#pragma once

#include "kernels/cuda/toolkit/elements.cuh"

namespace gpunode::cuda {

__device__ inline float half_at(const std::byte* place) {
  return __uint_as_float(static_cast<unsigned>(*reinterpret_cast<const std::uint16_t*>(place))
                         << 16);
}

// Of a row of `depth`.
__device__ inline float weight_at(ops::WeightFormat format, const std::byte* row, int at,
                                  int depth) {
  if (format == ops::WeightFormat::bf16) return half_at(row + 2 * std::int64_t{at});
  constexpr int kGroup = ops::kWeightGroup, kChunk = ops::kWeightChunk;
  const bool has_bytes = format == ops::WeightFormat::int8;
  const int begin = at / kChunk * kChunk, within = at - begin;
  const int groups = (depth - begin < kChunk ? depth - begin : kChunk) / kGroup;
  const std::byte* chunk = row + begin / kGroup * (has_bytes ? 34 : 18);
  const float scale = half_at(chunk + 2 * (within / kGroup));
  const std::byte* codes = chunk + 2 * groups;
  if (has_bytes) return static_cast<float>(static_cast<signed char>(codes[within])) * scale;
  const int place = within % kGroup, half = kGroup / 2;
  const int both = static_cast<int>(codes[within / kGroup * half + place % half]);
  return static_cast<float>((place < half ? both & 15 : both >> 4) - 8) * scale;
}

}  // namespace gpunode::cuda
