// The definitions of the operations in float64, as plain loops; what the kernels are measured
// against.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tests/parity/op_table.hpp"

namespace gpunode::parity {

Vector64 reference_layernorm(const Vector64& x, const Vector64& weight, const Vector64& bias);
Vector64 reference_gelu(const Vector64& x);
struct AttentionShape {
  std::int64_t samples, length, heads, depth;  // B, T, H, D
  std::int64_t shared = 1;                     // query heads that read one head of keys: H/K
  bool causal = true;
  std::vector<std::int32_t> lengths = {};  // (B), or empty: all positions are real

  std::int64_t kv_heads() const { return heads / shared; }
  std::int64_t joined() const { return (heads + 2 * kv_heads()) * depth; }
  std::int64_t channels() const { return heads * depth; }
  tensor::Shape qkv() const { return {samples, length, joined()}; }
  tensor::Shape out() const { return {samples, length, channels()}; }
  tensor::Shape statistics() const { return {samples, heads, length, 2}; }
  tensor::TokenTensor length_tensor() const { return length_tensor(lengths.data()); }
  // With `place` where they are in a device's memory.
  tensor::TokenTensor length_tensor(const std::int32_t* place) const {
    return lengths.empty() ? tensor::TokenTensor{} : tensor::TokenTensor{place, {samples}};
  }
  std::string text() const;  // "2x65x4x32 shared 2 full lengths"
};
// qkv (B, T, (H + 2*K)*D) -> out (B, T, H*D), statistics (B, H, T, 2)
std::vector<Vector64> reference_attention(const AttentionShape& shape, const Vector64& qkv);
Vector64 reference_losses(const Vector64& logits, const std::vector<std::int32_t>& targets);

// The derivative, at up to `limit` places spread over inputs[which], of the sum of weights *
// function (inputs), by central differences; NaN elsewhere.
using Function64 = std::function<Vector64(const std::vector<Vector64>&)>;
Vector64 differentiate(const Function64& function, std::vector<Vector64> inputs, std::size_t which,
                       const Vector64& weights, std::size_t limit = 200);

}  // namespace gpunode::parity
