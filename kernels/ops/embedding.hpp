// Rows of two or three tables, chosen by token, position and (for BERT) kind of segment:
//   x[b, t] = token_table[token[b, t]] [+ position_table[position[b, t]]] [+ segment_table[segment[b, t]]]
#pragma once

#include "kernels/ops/operation.hpp"
#include "kernels/ops/weight_format.hpp"

namespace gpunode::ops {

struct EmbeddingArgs {
  tensor::TokenTensor tokens;              // (B, T), each in [0, V)
  tensor::ConstTensor token_table;         // (V, C)
  tensor::ConstTensor position_table;      // (L, C); absent if null
  tensor::Tensor x;                        // (B, T, C)
  tensor::TokenTensor segments = {};       // (B, T), each in [0, S); absent if null
  tensor::ConstTensor segment_table = {};  // (S, C); absent where segments is
  tensor::TokenTensor positions = {};      // (B, T), each in [0, L); absent: t, L >= T
  // Not empty: the token table as pack_weights() has it in `weights`; its own numbers are not read.
  ByteView packed_table = {};
  WeightFormat weights = WeightFormat::fp32;
};

struct EmbeddingBackwardArgs {
  tensor::TokenTensor tokens;          // (B, T)
  tensor::ConstTensor dx;              // (B, T, C)
  tensor::Tensor dtoken_table;         // (V, C): added to, in the order of (b, t)
  tensor::Tensor dposition_table;      // (L, C): overwritten; sums over b in order; absent if null
  tensor::TokenTensor segments = {};   // (B, T); absent if null
  tensor::Tensor dsegment_table = {};  // (S, C): overwritten; sums in the order of (b, t)
};

}  // namespace gpunode::ops
