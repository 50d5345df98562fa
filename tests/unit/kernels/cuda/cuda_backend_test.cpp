#include "kernels/cuda/cuda_backend.hpp"

#include <gtest/gtest.h>

namespace gpunode::cuda {
namespace {

TEST(CudaBackend, OpensOrSaysWhyNot) {
  auto backend = open_backend();
  if (backend) {
    EXPECT_EQ((*backend)->device().kind, tensor::DeviceKind::cuda);
    return;
  }
  EXPECT_TRUE(backend.error().code == ErrorCode::no_device ||
              backend.error().code == ErrorCode::unsupported)
      << backend.error().message();
  EXPECT_GT(backend.error().detail.size(), 20u);
}

TEST(CudaBackend, RefusesAGpuThatIsNotThere) {
  auto backend = open_backend(12345);
  ASSERT_FALSE(backend);
  EXPECT_TRUE(backend.error().code == ErrorCode::no_device ||
              backend.error().code == ErrorCode::unsupported)
      << backend.error().message();
}

}  // namespace
}  // namespace gpunode::cuda
