// GELU in its tanh form: y = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))).
// Source: Hendrycks, Gimpel, "Gaussian Error Linear Units", 2016.
#pragma once

#include "kernels/ops/operation.hpp"

namespace gpunode::ops {

struct GeluArgs {
  tensor::ConstTensor x;  // any shape
  tensor::Tensor y;       // as x
};

struct GeluBackwardArgs {
  tensor::ConstTensor dy, x;  // as in the forward pass
  tensor::Tensor dx;          // overwritten; may be dy
};

}  // namespace gpunode::ops
