// Rectifier: y = max(x, 0). Its derivative at 0 is 0; a NaN stays one.
#pragma once

#include "kernels/ops/operation.hpp"

namespace gpunode::ops {

struct ReluArgs {
  tensor::ConstTensor x;  // any shape
  tensor::Tensor y;       // as x; may be x
};

struct ReluBackwardArgs {
  tensor::ConstTensor dy, y;  // as x; y tells where x was positive, so that x need not be kept
  tensor::Tensor dx;          // overwritten; may be dy
};

}  // namespace gpunode::ops
