// Hyperbolic tangent: y = tanh(x), by exp and polynomials of our own; dx = dy * (1 - y^2).
#pragma once

#include "kernels/ops/operation.hpp"

namespace gpunode::ops {

struct TanhArgs {
  tensor::ConstTensor x;  // any shape
  tensor::Tensor y;       // as x; may be x
};

struct TanhBackwardArgs {
  tensor::ConstTensor dy, y;  // as x; y is all that the derivative needs
  tensor::Tensor dx;          // overwritten; may be dy
};

}  // namespace gpunode::ops
