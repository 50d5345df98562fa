// Attention of several heads, from the joined projection of queries, keys and values.
//   probabilities = softmax(q k^T / sqrt(D)) over the positions that a query sees
//   out = probabilities v
// No T x T matrix is ever kept: blocks of scores are made, used and forgotten, the softmax is put
// together block by block, and the backward pass makes the probabilities again from two numbers a
// row, so memory and workspace grow with T. Causal: a position sees those up to its own; blocks
// beyond the diagonal cost nothing.
// Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al.,
// "FlashAttention: Fast and memory-efficient exact attention with IO-awareness", 2022; grouped
// queries: Ainslie et al., "GQA", 2023.
#pragma once

#include <algorithm>

#include "kernels/ops/operation.hpp"
#include "runtime/base/precision.hpp"

namespace gpunode::ops {

// A row of `count` values in whole vectors of 16.
inline constexpr std::int64_t padded_row(std::int64_t count) {
  return (count + 15) / 16 * 16;
}
// The CPU's blocks of scores: so many queries by so many keys.
inline constexpr std::int64_t kQueryBlock = 32;
inline constexpr std::int64_t kKeyBlock = 64;
// An upper bound of what one call takes from the workspace, in bytes, for T positions and heads of
// depth D: keys and values of one head and their gradients, and a few blocks; on a GPU, a value for
// each of the `rows` B*H*T.
inline constexpr std::size_t attention_workspace_bytes(std::int64_t positions, std::int64_t depth,
                                                       std::int64_t rows = 0) {
  const std::int64_t width = padded_row(depth), slack = 1024;
  const std::int64_t blocks = kQueryBlock * (5 * width + 2 * kKeyBlock + 64);
  const std::int64_t most = std::max(4 * positions * width + blocks, rows);
  return static_cast<std::size_t>(most + slack) * sizeof(float);
}

// What a device that multiplies in bf16 takes besides, in bytes: its operands in that form, of
// `values` elements in all.
inline constexpr std::size_t rounded_attention_bytes(std::int64_t values) {
  constexpr std::size_t kGaps = 4 * 256;
  return 2 * static_cast<std::size_t>(values) + kGaps;
}

struct AttentionArgs {
  tensor::ConstTensor qkv;      // (B, T, (H + 2*K)*D): queries of H heads, keys, values of K
  std::int64_t heads = 1;       // H
  std::int64_t kv_heads = 0;    // K, divides H: query head h reads key head h*K/H; 0: K = H
  bool causal = true;           // false: a position sees those after it, too
  tensor::TokenTensor lengths;  // (B), each in [0, T], or absent: how many first positions of a
                                // sample are real; what comes after is not read and gives zeros
  tensor::Tensor out;           // (B, T, H*D)
  tensor::Tensor statistics;  // (B, H, T, 2): a row's largest score, scaled; 1 / sum of e^(score -
                              // largest); zeros beyond a sample's length
  // bf16: a device may round the factors of its products, which are then off by about 1e-3 of the
  // largest one.
  Precision precision = Precision::fp32;
};

struct AttentionBackwardArgs {
  tensor::ConstTensor dout;        // (B, T, H*D)
  tensor::ConstTensor qkv;         // (B, T, (H + 2*K)*D)
  tensor::ConstTensor out;         // (B, T, H*D), as the forward pass left it
  tensor::ConstTensor statistics;  // (B, H, T, 2), as the forward pass left them
  std::int64_t heads = 1;          // these four as the forward pass had them
  std::int64_t kv_heads = 0;
  bool causal = true;
  tensor::TokenTensor lengths;
  tensor::Tensor dqkv;  // (B, T, (H + 2*K)*D), overwritten
  Precision precision = Precision::fp32;
};

// New positions of several texts against a cache in pages: what a decoder does when it reads more of
// them. Causal. A text's position p lies in row pages[text][p / page] * page + p % page of the cache.
// First the new positions' keys and values are written there, then each sees those of its text up to
// itself; its bits follow from these alone, not from what else is read in the same call. Rows of the
// same text have different positions; texts may share pages that none of the rows is written to.
// Workspace: padded_row(P*page) values.
// Source of the pages: Kwon et al., "Efficient Memory Management for Large Language Model Serving
// with PagedAttention", 2023.
struct AttentionPagedArgs {
  tensor::ConstTensor qkv;        // (R, (H + 2*K)*D)
  std::int64_t heads = 1;         // H
  std::int64_t kv_heads = 0;      // K, as above
  tensor::TokenTensor positions;  // (R), each in [0, P*page)
  tensor::TokenTensor texts;      // (R), each in [0, S)
  tensor::TokenTensor pages;      // (S, P), each in [0, L / page) as far as the text has positions
  std::int64_t page = 16;         // positions of a page
  tensor::Tensor keys, values;    // (L, K*D)
  tensor::Tensor out;             // (R, H*D)
};

}  // namespace gpunode::ops
