// What a build without nvcc has in place of the CUDA backend; toolkit/ holds the other one.
#include "kernels/cuda/cuda_backend.hpp"

#ifndef GPUNODE_HAS_CUDA
namespace gpunode::cuda {
namespace {

Error no_cuda() {
  return {ErrorCode::unsupported,
          "this gpunode was built without CUDA and computes on the CPU; to use a GPU, build with "
          "-DGPUNODE_CUDA=ON and nvcc 12 or newer"};
}

}  // namespace

Result<int> device_count() {
  return no_cuda();
}

Result<std::unique_ptr<ops::Backend>> open_backend(int, Products) {
  return no_cuda();
}

Result<std::string> pci_bus_id(int) {
  return no_cuda();
}

}  // namespace gpunode::cuda
#endif
