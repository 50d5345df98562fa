// The CUDA driver and NCCL, opened at run time: the few declarations below are those of their
// public, versioned interfaces, so that nothing of them is needed to build. Both stay open for the
// life of the process. Any call may block for ever: in this program's main thread only.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/base/result.hpp"

namespace gpunode::carrier {

// cuda.h
using CuContext = struct CUctx_st*;
using CuStream = struct CUstream_st*;
using CuPointer = unsigned long long;
struct CuMemoryHandle {
  char reserved[64];
};
inline constexpr int kCuSuccess = 0, kCuNotReady = 600;
inline constexpr unsigned kCuNonBlocking = 1, kCuLazyPeerAccess = 1;

struct CudaDriver {
  int (*init)(unsigned) = nullptr;
  int (*device_by_place)(int*, const char*) = nullptr;
  int (*retain_context)(CuContext*, int) = nullptr;
  int (*use_context)(CuContext) = nullptr;
  int (*open_memory)(CuPointer*, CuMemoryHandle, unsigned) = nullptr;
  int (*close_memory)(CuPointer) = nullptr;
  int (*create_stream)(CuStream*, unsigned) = nullptr;
  int (*query_stream)(CuStream) = nullptr;
  int (*error_name)(int, const char**) = nullptr;

  // Fails with: unsupported (no such library, or one that is too old).
  static Result<CudaDriver> open();
  // `what` failed, in the driver's own words. Fails with: unavailable.
  Result<void> check(int code, const char* what) const;
};

// nccl.h
using NcclComm = struct ncclComm*;
struct NcclId {
  char internal[128];
};
inline constexpr int kNcclSuccess = 0, kNcclInProgress = 7, kNcclBytes = 0;  // ncclInt8

struct Nccl {
  int (*get_version)(int*) = nullptr;
  int (*get_id)(NcclId*) = nullptr;
  int (*init_rank)(NcclComm*, int, NcclId, int) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*send)(const void*, std::size_t, int, int, NcclComm, CuStream) = nullptr;
  int (*receive)(void*, std::size_t, int, int, NcclComm, CuStream) = nullptr;
  int (*async_error)(NcclComm, int*) = nullptr;
  const char* (*error_text)(int) = nullptr;
  const char* (*last_error)(NcclComm) = nullptr;  // not in old ones

  // Where GPUNODE_NCCL_FOLDER says; else where the loader looks, in CUDA's folder, and in those of
  // python3's packages. Fails with: unsupported (names the places).
  static Result<Nccl> open();
  Result<void> check(int code, const char* what, NcclComm comm = nullptr) const;
};

// "2.28.9" for 22809.
std::string nccl_version_text(int number);

}  // namespace gpunode::carrier
