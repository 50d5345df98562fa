// A product through cuBLASLt, without anything of the CUDA runtime: what matmul.cpp runs on a GPU and
// the tests on a library of their own.
#pragma once

#include <cublasLt.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "kernels/ops/matmul.hpp"

namespace gpunode::cuda {

// cuBLASLt, opened with dlopen: linking it would make half a gigabyte a condition for starting.
class CublasLt {
 public:
  // Null if the library is not on this machine.
  static std::unique_ptr<CublasLt> open();
  ~CublasLt();

  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  cublasLtHandle_t handle = nullptr;
  std::string version;

 private:
  decltype(&cublasLtDestroy) destroy_ = nullptr;
};

// The algorithm of each product, chosen once and kept, as another choice would give other bits.
// Thread-safe.
struct KeptAlgorithms {
  // Rows, columns, inner extent, the flags of the product, the alignments of its operands.
  using Key = std::array<std::int64_t, 5>;
  // Which of the library's proposals, best first: 0, or another to measure what the first is worth.
  int rank = 0;
  static constexpr int kRanks = 16;
  std::mutex mutex;
  std::map<Key, cublasLtMatmulAlgo_t> chosen;
  std::set<Key> absent;  // products that the library cannot do as they are
};

// Where a product's factors lie, in which type, and what it may use besides.
struct ProductOperands {
  const void *a, *b;
  cudaDataType_t type = CUDA_R_32F;  // of both; CUDA_R_16BF rounded as ops/matmul.hpp has it
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;  // or _FAST_TF32, which rounds them itself
  void* scratch = nullptr;
  std::size_t scratch_bytes = 0;
};

// Queues the product of these arguments, of which the shapes, c, the bias and GELU are read, on the
// stream. Fails with: unsupported (the library has no algorithm for it), internal (and the library's
// status).
Result<void> queue_product(CublasLt& library, KeptAlgorithms& algorithms,
                           const ops::MatmulArgs& args, const ProductOperands& operands,
                           cudaStream_t stream);

}  // namespace gpunode::cuda
