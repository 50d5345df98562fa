// The operations of a GPU; contracts in kernels/ops.
#pragma once

#include "kernels/ops/backend.hpp"

namespace gpunode::cuda {

// By cuBLASLt, which the stream's context must have.
ops::Operation<ops::MatmulArgs> matmul;

// All, by kernels of our own (kernel_table.hpp has the list).
void enter_kernels(ops::Operations& table);

}  // namespace gpunode::cuda
