// cuBLASLt, opened at run time. A missing library is no error here: the backend then has no matrix
// product and says so.
#include <dlfcn.h>

#include <string>

#include "kernels/cuda/toolkit/cuda_context.hpp"

namespace gpunode::cuda {

namespace {

// Whether the context is of no use after it: every call of this process for that GPU fails alike
// from then on. Source: CUDA Runtime API, "leaves the process in an inconsistent state".
bool is_sticky(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
#if CUDART_VERSION >= 13000
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
#endif
    case cudaErrorMpsClientTerminated:
    case cudaErrorDevicesUnavailable:
    case cudaErrorContextIsDestroyed:
    case cudaErrorExternalDevice:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

ErrorCode code_of(cudaError_t status) {
  if (status == cudaErrorMemoryAllocation) return ErrorCode::out_of_memory;
  return is_sticky(status) ? ErrorCode::device_lost : ErrorCode::internal;
}

}  // namespace

Result<void> check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return {};
  cudaGetLastError();  // told here: later launches on this thread must not see it
  return {code_of(status), std::string(what) + ": CUDA says " + cudaGetErrorName(status) + ", " +
                               cudaGetErrorString(status)};
}

namespace {

void* open_library() {
  const std::string name = "libcublasLt.so." + std::to_string(CUDART_VERSION / 1000);
  for (const std::string& place : {name, "/usr/local/cuda/lib64/" + name})
    if (void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

std::unique_ptr<CublasLt> CublasLt::open() {
  void* library = open_library();  // stays open: its kernels may be referenced until exit
  if (!library) return nullptr;
  auto api = std::make_unique<CublasLt>();
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtGetVersion) version = nullptr;
  const bool whole = find(library, "cublasLtCreate", create) &&
                     find(library, "cublasLtGetVersion", version) &&
                     find(library, "cublasLtDestroy", api->destroy_) &&
                     find(library, "cublasLtMatmul", api->matmul) &&
                     find(library, "cublasLtMatmulDescCreate", api->desc_create) &&
                     find(library, "cublasLtMatmulDescDestroy", api->desc_destroy) &&
                     find(library, "cublasLtMatmulDescSetAttribute", api->desc_set) &&
                     find(library, "cublasLtMatrixLayoutCreate", api->layout_create) &&
                     find(library, "cublasLtMatrixLayoutDestroy", api->layout_destroy) &&
                     find(library, "cublasLtMatmulPreferenceCreate", api->preference_create) &&
                     find(library, "cublasLtMatmulPreferenceDestroy", api->preference_destroy) &&
                     find(library, "cublasLtMatmulPreferenceSetAttribute", api->preference_set) &&
                     find(library, "cublasLtMatmulAlgoGetHeuristic", api->heuristic);
  if (!whole || create(&api->handle) != CUBLAS_STATUS_SUCCESS) return nullptr;
  api->version = std::to_string(version());
  return api;
}

CublasLt::~CublasLt() {
  if (handle) destroy_(handle);
}

}  // namespace gpunode::cuda
