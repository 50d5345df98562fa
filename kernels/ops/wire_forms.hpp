// Floats as fewer bytes, for gradients on slow links: bf16 (half), int8 with a scale for each block
// (about a quarter) and the largest values alone. What is lost is the caller's to make up for; that
// something was not finite is never lost. Equal floats give equal bytes on every device, and any
// bytes of the right number may be unpacked, a stranger's too. Bytes need no alignment and are
// little-endian.
#pragma once

#include <cstddef>

#include "kernels/ops/operation.hpp"
#include "runtime/base/bytes.hpp"

namespace gpunode::ops {

struct PackArgs {
  tensor::ConstTensor in;  // (n)
  MutableByteView out;     // as many bytes as the form has for n floats
};

struct UnpackArgs {
  ByteView in;
  tensor::Tensor out;  // (n), overwritten
};

// Packs in + carried and tells what the way there loses, in one pass over memory.
struct PackCarryingArgs {
  tensor::ConstTensor in;  // (n)
  const float* carried;    // (n) or null: nothing
  float* lost;             // (n): what unpacking would lack is added; not of a block that is NaN
  float* arrives;          // (n) or null: what unpacking would give; may be in.data
  MutableByteView out;
};

// bf16: the upper half of a float32, rounded to the nearest, ties to even; a NaN stays one.
constexpr std::size_t bf16_bytes(std::size_t count) {
  return count * 2;
}

// int8: blocks of 256 values, each a float32 scale (largest magnitude / 127) and the values over it
// as whole numbers of -127 to 127, rounded to the nearest. A block whose values are all below
// 2^-100 in magnitude is zero; one that holds an infinity or a NaN is NaN as a whole.
constexpr std::size_t kInt8Block = 256;
constexpr std::size_t int8_bytes(std::size_t count) {
  return count + (count + kInt8Block - 1) / kInt8Block * sizeof(float);
}

// The `kept` values of largest magnitude as (place, value) pairs of 4 + 4 bytes, by place; NaN and
// infinities count as the largest. Among magnitudes (31 bits) that agree in their upper 16 the first
// places win. Unpacking leaves zero at all other places, and skips a place beyond the end.
constexpr std::size_t top_bytes(std::size_t kept) {
  return kept * 8;
}

}  // namespace gpunode::ops
