// Causal self-attention of several heads, from the joined projection of query, key and value.
//   probabilities = softmax(q k^T / sqrt(C/H)) over the positions up to one's own
//   out = probabilities v
// The probabilities are kept for the backward pass; entries beyond the diagonal are unspecified.
#pragma once

#include "kernels/tensor/stream.hpp"
#include "kernels/tensor/tensor.hpp"
#include "kernels/tensor/workspace.hpp"

namespace gpunode::ops {

struct AttentionArgs {
  tensor::ConstTensor qkv;       // (B, T, 3*C): query, key, value, each H heads of C/H
  std::int64_t heads = 1;        // H, divides C
  tensor::Tensor probabilities;  // (B, H, T, T)
  tensor::Tensor out;            // (B, T, C)
};
using AttentionFn = Result<void> (*)(tensor::Stream&, tensor::Workspace&, const AttentionArgs&);

struct AttentionBackwardArgs {
  tensor::ConstTensor dout;           // (B, T, C)
  tensor::ConstTensor qkv;            // (B, T, 3*C)
  tensor::ConstTensor probabilities;  // (B, H, T, T), as the forward pass left them
  std::int64_t heads = 1;
  tensor::Tensor dqkv;  // (B, T, 3*C), overwritten
};
using AttentionBackwardFn = Result<void> (*)(tensor::Stream&, tensor::Workspace&,
                                             const AttentionBackwardArgs&);

// New positions against a cache: what a session does when it reads more tokens.
struct AttentionCachedArgs {
  tensor::ConstTensor qkv;  // (T, 3*C): the new positions, the first of which is `position`
  std::int64_t heads = 1;
  std::int64_t position = 0;
  tensor::Tensor keys, values;  // (L, C): rows before `position` are read, the new ones written
  tensor::Tensor out;           // (T, C)
};
using AttentionCachedFn = Result<void> (*)(tensor::Stream&, tensor::Workspace&,
                                           const AttentionCachedArgs&);

}  // namespace gpunode::ops
