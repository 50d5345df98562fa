// What all that calls oneDNN keeps to.
#pragma once

#include <string>

#include "kernels/ops/matmul.hpp"

namespace gpunode::cpu {

// oneDNN's result depends on its thread count, so each of our threads tells OpenMP once that it
// works alone; to be called before the library. The OpenMP runtime is looked up rather than linked:
// it is oneDNN's, whichever that was built with.
void work_alone();

// A product whose precision is bf16, of these extents.
Result<void> matmul_bf16(tensor::Stream& stream, tensor::Workspace& workspace,
                         const ops::MatmulArgs& args, const ops::MatmulExtents& extents);

}  // namespace gpunode::cpu
