// Causal self-attention of several heads, from the joined projection of query, key and value.
//   probabilities = softmax(q k^T / sqrt(C/H)) over the positions up to one's own
//   out = probabilities v
// The probabilities are kept for the backward pass, in rows padded to whole vectors of 16; entries
// beyond the diagonal are unspecified. Workspace: attention_workspace_bytes.
#pragma once

#include "kernels/ops/operation.hpp"

namespace gpunode::ops {

// Length of a row of probabilities for T positions.
inline constexpr std::int64_t padded_row(std::int64_t positions) {
  return (positions + 15) / 16 * 16;
}
// An upper bound of what one call takes from the workspace, T positions and D = C/H.
inline constexpr std::size_t attention_workspace_bytes(std::int64_t positions, std::int64_t depth) {
  const std::int64_t row = padded_row(positions), width = padded_row(depth);
  return static_cast<std::size_t>(row * row + 9 * row * width + 1024) * sizeof(float);
}

struct AttentionArgs {
  tensor::ConstTensor qkv;       // (B, T, 3*C): query, key, value, each H heads of C/H
  std::int64_t heads = 1;        // H, divides C
  tensor::Tensor probabilities;  // (B, H, T, padded_row(T))
  tensor::Tensor out;            // (B, T, C)
};

struct AttentionBackwardArgs {
  tensor::ConstTensor dout;           // (B, T, C)
  tensor::ConstTensor qkv;            // (B, T, 3*C)
  tensor::ConstTensor probabilities;  // (B, H, T, padded_row(T)), as the forward pass left them
  std::int64_t heads = 1;
  tensor::Tensor dqkv;  // (B, T, 3*C), overwritten
};

// New positions against a cache: what a session does when it reads more tokens.
// Workspace: padded_row(position + T) values.
struct AttentionCachedArgs {
  tensor::ConstTensor qkv;  // (T, 3*C): the new positions, the first of which is `position`
  std::int64_t heads = 1;
  std::int64_t position = 0;
  tensor::Tensor keys, values;  // (L, C): rows before `position` are read, the new ones written
  tensor::Tensor out;           // (T, C)
};

}  // namespace gpunode::ops
