// What our kernels use of CUDA, for the host: found before the real header by the tests alone, so
// that a .cu file compiles unchanged. This is the entry; engine.hpp says how blocks run.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "tests/parity/emulation/engine.hpp"
#include "tests/parity/emulation/graph_driver.hpp"
#include "tests/parity/emulation/warp_operations.hpp"

// Of the launches on this thread since it was last asked, as the real one.
inline thread_local cudaError_t emulated_error = cudaSuccess;
inline cudaError_t cudaGetLastError() {
  return std::exchange(emulated_error, cudaSuccess);
}
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute, int value) {
  gpunode::emulation::set_shared_limit(reinterpret_cast<const void*>(kernel),
                                       static_cast<std::size_t>(value));
  return cudaSuccess;
}

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
// A copy for each thread of the system, as each runs a block; in a section of its own, which is
// filled with NaN at the start of a block.
#define __shared__ static thread_local __attribute__((section("emulated_shared")))

inline constinit thread_local gpunode::emulation::Extent threadIdx, blockIdx, blockDim, gridDim;
inline constexpr int warpSize = gpunode::emulation::kWarp;

// __syncthreads, __syncwarp, shuffles and votes; `width` splits a warp for shuffles.
inline void __syncthreads(GPUNODE_SITE) {
  gpunode::emulation::block_barrier({file, line});
}
inline void __syncwarp(unsigned mask = 0xffffffff, GPUNODE_SITE) {
  gpunode::emulation::meet([](void* const*, unsigned) {}, nullptr, mask, {file, line});
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize, GPUNODE_SITE) {
  const unsigned lane = gpunode::emulation::lane_number(), size = static_cast<unsigned>(width);
  const unsigned from = lane / size * size + static_cast<unsigned>(source) % size;
  return gpunode::emulation::shuffle(mask, value, from, {file, line});
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int other, int width = warpSize, GPUNODE_SITE) {
  const unsigned lane = gpunode::emulation::lane_number(), size = static_cast<unsigned>(width);
  const unsigned from = lane ^ static_cast<unsigned>(other);
  const bool inside = from / size <= lane / size;
  return gpunode::emulation::shuffle(mask, value, inside ? from : lane, {file, line});
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize, GPUNODE_SITE) {
  const unsigned lane = gpunode::emulation::lane_number(), size = static_cast<unsigned>(width);
  const bool inside = lane % size + delta < size;
  return gpunode::emulation::shuffle(mask, value, inside ? lane + delta : lane, {file, line});
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize, GPUNODE_SITE) {
  const unsigned lane = gpunode::emulation::lane_number(), size = static_cast<unsigned>(width);
  const bool inside = lane % size >= delta;
  return gpunode::emulation::shuffle(mask, value, inside ? lane - delta : lane, {file, line});
}
inline unsigned __ballot_sync(unsigned mask, int predicate, GPUNODE_SITE) {
  return gpunode::emulation::ballot(mask, predicate != 0, {file, line});
}
inline int __any_sync(unsigned mask, int predicate, GPUNODE_SITE) {
  return gpunode::emulation::ballot(mask, predicate != 0, {file, line}) != 0;
}
inline int __all_sync(unsigned mask, int predicate, GPUNODE_SITE) {
  return gpunode::emulation::ballot(mask, predicate != 0, {file, line}) == mask;
}

// Atomics on integers; on floats there are none, as their order would show in the bits.
template <class T>
concept EmulatedInteger = std::is_integral_v<T>;
template <EmulatedInteger T>
T atomicAdd(T* place, std::type_identity_t<T> value) {
  return __atomic_fetch_add(place, value, __ATOMIC_RELAXED);
}
template <EmulatedInteger T>
T atomicOr(T* place, std::type_identity_t<T> value) {
  return __atomic_fetch_or(place, value, __ATOMIC_RELAXED);
}
template <EmulatedInteger T>
T atomicAnd(T* place, std::type_identity_t<T> value) {
  return __atomic_fetch_and(place, value, __ATOMIC_RELAXED);
}
template <EmulatedInteger T>
T atomicExch(T* place, std::type_identity_t<T> value) {
  return __atomic_exchange_n(place, value, __ATOMIC_RELAXED);
}
template <EmulatedInteger T>
T atomicCAS(T* place, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  __atomic_compare_exchange_n(place, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
template <EmulatedInteger T>
T atomicMax(T* place, std::type_identity_t<T> value) {
  T found = __atomic_load_n(place, __ATOMIC_RELAXED);
  while (found < value && !__atomic_compare_exchange_n(place, &found, value, false,
                                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return found;
}
template <EmulatedInteger T>
T atomicMin(T* place, std::type_identity_t<T> value) {
  T found = __atomic_load_n(place, __ATOMIC_RELAXED);
  while (value < found && !__atomic_compare_exchange_n(place, &found, value, false,
                                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return found;
}
inline void __threadfence() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

#include "tests/parity/emulation/device_functions.hpp"

// Starts a kernel; what went wrong is in cudaGetLastError() and in emulation::report().
template <class Work>
void emulate_launch(void (*kernel)(Work), std::int64_t blocks, unsigned threads,
                    std::size_t shared_bytes, const std::type_identity_t<Work>& work) {
  if (!gpunode::emulation::run({static_cast<unsigned>(blocks), threads, shared_bytes,
                                reinterpret_cast<const void*>(kernel), [&] { kernel(work); }}))
    emulated_error = cudaErrorLaunchFailure;
}
#define GPUNODE_LAUNCH(kernel, blocks, threads, stream, work) \
  (static_cast<void>(stream), emulate_launch(kernel, blocks, threads, 0, work))
#define GPUNODE_LAUNCH_SHARED(kernel, blocks, threads, shared_bytes, stream, work) \
  (static_cast<void>(stream), emulate_launch(kernel, blocks, threads, shared_bytes, work))
