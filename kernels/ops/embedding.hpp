// Token and position embedding: x[b, t] = token_table[token[b, t]] + position_table[first + t].
#pragma once

#include "kernels/ops/operation.hpp"

namespace gpunode::ops {

struct EmbeddingArgs {
  tensor::TokenTensor tokens;          // (B, T), each in [0, V)
  tensor::ConstTensor token_table;     // (V, C)
  tensor::ConstTensor position_table;  // (L, C), L >= first + T
  std::int64_t first = 0;              // position of the first token of each row
  tensor::Tensor x;                    // (B, T, C)
};

struct EmbeddingBackwardArgs {
  tensor::TokenTensor tokens;      // (B, T)
  tensor::ConstTensor dx;          // (B, T, C)
  tensor::Tensor dtoken_table;     // (V, C): added to, in the order of (b, t)
  tensor::Tensor dposition_table;  // (L, C): overwritten; sums over b in order
};

}  // namespace gpunode::ops
