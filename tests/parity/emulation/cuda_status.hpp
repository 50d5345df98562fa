// What calls of the emulated CUDA runtime take and give: a stream, which is none, and their outcome.
#pragma once

using cudaStream_t = void*;
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMisalignedAddress = 716,
  cudaErrorLaunchFailure = 719
};
