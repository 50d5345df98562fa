// The gated unit of Llama's inner network: x holds two halves a row, a gate and what it lets pass.
//   y = silu(gate) * up,   silu(g) = g / (1 + exp(-g))
// Source: Shazeer, "GLU Variants Improve Transformer", 2020.
#pragma once

#include "kernels/ops/operation.hpp"

namespace gpunode::ops {

struct SwigluArgs {
  tensor::ConstTensor x;  // (R, 2*F): F of the gate, then F of up
  tensor::Tensor y;       // (R, F)
};

struct SwigluBackwardArgs {
  tensor::ConstTensor dy;  // (R, F)
  tensor::ConstTensor x;   // (R, 2*F)
  tensor::Tensor dx;       // (R, 2*F): overwritten; may be x
};

}  // namespace gpunode::ops
