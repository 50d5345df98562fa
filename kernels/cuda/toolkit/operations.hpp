// The operations that have a CUDA twin; contracts in kernels/ops.
#pragma once

#include "kernels/ops/backend.hpp"

namespace gpunode::cuda {

ops::Operation<ops::MatmulArgs> matmul;
ops::Operation<ops::LayernormArgs> layernorm;
ops::Operation<ops::LayernormBackwardArgs> layernorm_backward;
ops::Operation<ops::AdamwArgs> adamw;

}  // namespace gpunode::cuda
