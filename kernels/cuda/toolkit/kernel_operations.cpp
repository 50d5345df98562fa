// The operations that run our own kernels.
#include "kernels/cuda/toolkit/on_stream.hpp"
#include "kernels/cuda/toolkit/operations.hpp"

namespace gpunode::cuda {

void enter_kernels(ops::Operations& table) {
  enter_kernels<OnStream>(table);
}

}  // namespace gpunode::cuda
