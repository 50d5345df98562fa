// In which numbers a job's matrix products are computed: one word in the job file, understood by the
// runtime, which carries it, and by the kernels, which obey it. Weights, moments, sums of gradients
// and everything between products are float32 in each of them.
#pragma once

#include <string_view>

#include "runtime/base/result.hpp"

namespace gpunode {

enum class Precision : std::uint8_t {
  fp32,
  bf16,  // factors rounded to bfloat16, sums in float32
  tf32,  // factors rounded to ten bits of fraction, sums in float32; NVIDIA GPUs from sm_80 on
};

inline constexpr std::size_t kPrecisions = 3;

constexpr std::string_view to_string(Precision precision) {
  if (precision == Precision::bf16) return "bf16";
  return precision == Precision::tf32 ? "tf32" : "fp32";
}

// Fails with: unsupported (a known one that no device of this version computes in), invalid_argument.
Result<Precision> parse_precision(std::string_view text);

}  // namespace gpunode
