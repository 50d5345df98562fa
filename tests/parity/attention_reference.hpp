// Attention and its gradient in float64, as plain loops over whole rows of probabilities: what the
// CUDA kernels are measured against. Shapes as in kernels/cuda/toolkit/launch.hpp.
#pragma once

#include <vector>

#include "tests/parity/op_table.hpp"

namespace gpunode::parity {

struct AttentionProblem {
  int samples, positions, heads, key_heads, depth;
  bool causal;
  std::vector<int> lengths;  // (B), or empty

  int length(int sample) const {
    return lengths.empty() ? positions : lengths[static_cast<std::size_t>(sample)];
  }
  std::size_t rows() const { return static_cast<std::size_t>(samples) * positions; }
  std::size_t joined_size() const { return rows() * (heads + 2 * key_heads) * depth; }
  std::size_t out_size() const { return rows() * heads * depth; }
  std::string name() const;
};

struct AttentionAnswer {
  Vector64 out;         // (B, T, H*D)
  Vector64 statistics;  // (B, H, T, 2)
  Vector64 dqkv;        // (B, T, (H + 2*K)*D), for the sum of out * dout
};
AttentionAnswer reference_answer(const AttentionProblem& problem, const Vector64& qkv,
                                 const Vector64& dout);

}  // namespace gpunode::parity
