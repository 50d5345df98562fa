// Memory of one GPU for a device group: plain cudaMalloc, as pool allocations have no such handles.
#pragma once

#include <memory>

#include "kernels/cuda/nccl_group.hpp"
#include "kernels/cuda/toolkit/cuda_context.hpp"

namespace gpunode::cuda {

std::shared_ptr<GroupMemory> open_group_memory(std::shared_ptr<Context> context);

}  // namespace gpunode::cuda
