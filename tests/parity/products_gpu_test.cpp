// How near cuBLASLt's first proposal for a product, which is the one that is used, comes to the fastest
// of all that it makes. Prints a line a product; tools/gpu_check.sh judges it, no test does.
#include <gtest/gtest.h>

#ifdef GPUNODE_HAS_CUDA
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <vector>

#include "kernels/cuda/toolkit/cublas_product.hpp"

namespace gpunode::cuda {
namespace {

constexpr std::size_t kScratchBytes = 4 << 20;  // as in a training step

struct DeviceMemory {
  explicit DeviceMemory(std::size_t bytes) {
    if (cudaMalloc(&data, bytes) != cudaSuccess || cudaMemset(data, 0, bytes) != cudaSuccess)
      data = nullptr;
  }
  ~DeviceMemory() { cudaFree(data); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  void* data = nullptr;
};

struct Shape {
  const char* what;
  std::int64_t rows, columns, inner;
  bool transpose_a, transpose_b;
};
// Of GPT-2 with 124 million parameters and 8192 tokens: forward, input's and weight's gradient.
constexpr Shape kShapes[] = {
    {"qkv", 8192, 2304, 768, false, true},          {"up", 8192, 3072, 768, false, true},
    {"down", 8192, 768, 3072, false, true},         {"head", 8192, 50257, 768, false, true},
    {"input of up", 8192, 768, 3072, false, false}, {"weight of up", 3072, 768, 8192, true, false}};

// Of one product, the best of five runs of ten. Infinite where there is no such proposal.
double seconds_of(CublasLt& library, KeptAlgorithms& algorithms, const ops::MatmulArgs& args,
                  const ProductOperands& operands) {
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 6; ++run) {  // the first warms up
    const auto begin = std::chrono::steady_clock::now();
    for (int time = 0; time < 10; ++time)
      if (!queue_product(library, algorithms, args, operands, nullptr)) return best;
    if (cudaStreamSynchronize(nullptr) != cudaSuccess) return best;
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    if (run > 0) best = std::min(best, taken.count() / 10);
  }
  return best;
}

TEST(CublasProducts, ShareOfTheBestProposal) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no GPU";
  const auto library = CublasLt::open();
  if (!library) GTEST_SKIP() << "no cuBLASLt on this machine";
  for (const Shape& s : kShapes)
    for (const bool rounded : {true, false}) {
      const std::size_t width = rounded ? 2 : 4;
      const auto bytes = [](std::int64_t rows, std::int64_t columns, std::size_t each) {
        return static_cast<std::size_t>(rows * columns) * each;
      };
      DeviceMemory a(bytes(s.rows, s.inner, width)), b(bytes(s.inner, s.columns, width)),
          c(bytes(s.rows, s.columns, 4)), scratch(kScratchBytes);
      ASSERT_TRUE(a.data && b.data && c.data && scratch.data) << "out of memory";
      const tensor::Shape left =
          s.transpose_a ? tensor::Shape{s.inner, s.rows} : tensor::Shape{s.rows, s.inner};
      const tensor::Shape right =
          s.transpose_b ? tensor::Shape{s.columns, s.inner} : tensor::Shape{s.inner, s.columns};
      const ops::MatmulArgs args{.a = {static_cast<const float*>(a.data), left},
                                 .b = {static_cast<const float*>(b.data), right},
                                 .c = {static_cast<float*>(c.data), {s.rows, s.columns}},
                                 .transpose_a = s.transpose_a,
                                 .transpose_b = s.transpose_b};
      const ProductOperands operands{.a = a.data,
                                     .b = b.data,
                                     .type = rounded ? CUDA_R_16BF : CUDA_R_32F,
                                     .scratch = scratch.data,
                                     .scratch_bytes = kScratchBytes};
      double first = 0, best = std::numeric_limits<double>::infinity();
      for (int rank = 0; rank < KeptAlgorithms::kRanks; ++rank) {
        KeptAlgorithms algorithms;
        algorithms.rank = rank;
        const double seconds = seconds_of(*library, algorithms, args, operands);
        if (rank == 0) first = seconds;
        best = std::min(best, seconds);
      }
      ASSERT_LT(best, std::numeric_limits<double>::infinity()) << s.what;
      const double flops =
          2.0 * static_cast<double>(s.rows * s.columns) * static_cast<double>(s.inner) / first;
      std::printf("product %.2f of the best, %.0f TFLOP/s: %s %s\n", best / first, flops / 1e12,
                  s.what, rounded ? "bf16" : "fp32");
    }
}

}  // namespace
}  // namespace gpunode::cuda
#endif
