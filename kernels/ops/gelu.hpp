// GELU: y = x * (chance that a standard normal number is below x), in two forms:
//   tanh  y = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), as GPT-2 has it
//   erf   y = x/2 * (1 + erf(x / sqrt(2))), exact, as BERT has it; our own erf is right to 1e-7
// Source: Hendrycks, Gimpel, "Gaussian Error Linear Units", 2016.
#pragma once

#include "kernels/ops/operation.hpp"

namespace gpunode::ops {

enum class GeluForm : std::uint8_t { tanh, erf };

struct GeluArgs {
  tensor::ConstTensor x;  // any shape
  tensor::Tensor y;       // as x
  GeluForm form = GeluForm::tanh;
};

struct GeluBackwardArgs {
  tensor::ConstTensor dy, x;  // as in the forward pass
  tensor::Tensor dx;          // overwritten; may be dy
  GeluForm form = GeluForm::tanh;
};

}  // namespace gpunode::ops
