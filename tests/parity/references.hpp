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
// qkv (B, T, 3*C) -> (B, T, C)
struct AttentionShape {
  std::int64_t samples, length, channels, heads;
};
Vector64 reference_attention(const AttentionShape& shape, const Vector64& qkv);
Vector64 reference_losses(const Vector64& logits, const std::vector<std::int32_t>& targets);

// The derivative, at up to `limit` places spread over inputs[which], of the sum of weights *
// function (inputs), by central differences; NaN elsewhere.
using Function64 = std::function<Vector64(const std::vector<Vector64>&)>;
Vector64 differentiate(const Function64& function, std::vector<Vector64> inputs, std::size_t which,
                       const Vector64& weights, std::size_t limit = 200);

}  // namespace gpunode::parity
