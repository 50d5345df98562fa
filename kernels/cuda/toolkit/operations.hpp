// The operations that have a CUDA twin; contracts in kernels/ops.
#pragma once

#include "kernels/ops/backend.hpp"

namespace gpunode::cuda {

Result<void> matmul(tensor::Stream& stream, tensor::Workspace& workspace,
                    const ops::MatmulArgs& args);
Result<void> layernorm(tensor::Stream& stream, tensor::Workspace&, const ops::LayernormArgs& args);
Result<void> layernorm_backward(tensor::Stream& stream, tensor::Workspace&,
                                const ops::LayernormBackwardArgs& args);
Result<void> adamw(tensor::Stream& stream, tensor::Workspace&, const ops::AdamwArgs& args);

}  // namespace gpunode::cuda
