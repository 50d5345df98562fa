// The operations that have a CUDA twin; contracts in kernels/ops.
#pragma once

#include "kernels/ops/backend.hpp"

namespace gpunode::cuda {

ops::Operation<ops::MatmulArgs> matmul;
ops::Operation<ops::PackProductArgs> pack_product;

// Those that run kernels of our own (kernel_table.hpp has the list).
void enter_kernels(ops::Operations& table);

}  // namespace gpunode::cuda
