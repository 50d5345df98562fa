// Rotary positions: each pair (i, i + D/2) of a head's elements is turned, as a point in the plane,
// by the angle  position / theta^(2 i / D);  scores of queries and keys then depend on distances.
// The pairs are those of Hugging Face's Llama. Turning the other way is the backward pass.
// Source: Su and others, "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021.
#pragma once

#include <memory>
#include <vector>

#include "kernels/ops/operation.hpp"

namespace gpunode::ops {

struct RotaryArgs {
  tensor::ConstTensor angles;          // (L, D/2, 2): cosine and sine
  tensor::Tensor x;                    // (B, T, (H + 2*K) * D): in place, the first H + K heads
  std::int64_t heads = 0;              // H: of queries
  std::int64_t key_heads = 0;          // K: of keys, and of values, which stay as they are
  bool inverse = false;                // turn the other way
  tensor::TokenTensor positions = {};  // (B, T), each in [0, L); absent: t, L >= T
};

struct RotaryShape {
  std::int64_t length = 0;     // L
  std::int64_t head_size = 0;  // D, even
  double theta = 10000;
};

// The table (L, D/2, 2) from arithmetic of our own in float64, so that every machine and device has
// the same; kept while anyone holds it. Any thread.
std::shared_ptr<const std::vector<float>> rotary_angles(const RotaryShape& shape);

}  // namespace gpunode::ops
