// What a warp does together: shuffles, votes, ldmatrix and mma.sync; and a lane's asynchronous
// copies. These have the names and forms of kernels/cuda/toolkit/warp.cuh, which takes them where
// nvcc is not at work. Addresses in shared memory are offsets in the block's dynamic part.
#pragma once

#include <cstring>

#include "tests/parity/emulation/engine.hpp"
#include "tests/parity/emulation/tensor_core.hpp"

// The caller's place, as trailing parameters with defaults.
#define GPUNODE_SITE int line = __builtin_LINE(), const char *file = __builtin_FILE()

namespace gpunode::emulation {

// Of every lane its value from lane source(i); lanes must be in the mask.
template <class T>
T shuffle(unsigned mask, T value, unsigned source, Site site) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  struct Slot {
    T value, result;
    unsigned source;
  } slot = {value, value, source};
  if (!(mask >> source & 1)) fail("a shuffle reads a lane outside its mask");
  meet(
      [](void* const* slots, unsigned lanes) {
        for (unsigned i = 0; i < kWarp; ++i) {
          if (!(lanes >> i & 1)) continue;
          auto* mine = static_cast<Slot*>(slots[i]);
          mine->result = static_cast<Slot*>(slots[mine->source])->value;
        }
      },
      &slot, mask, site);
  return slot.result;
}

// The lanes of the mask whose predicate holds.
unsigned ballot(unsigned mask, bool predicate, Site site);

inline unsigned shared_address() {
  return 0;
}
// 16 bytes of shared memory as a plain address.
template <class T>
T* shared_pointer(unsigned address, GPUNODE_SITE) {
  return reinterpret_cast<T*>(shared_at(address, sizeof(T), {file, line}));
}

void load_matrices(unsigned (&out)[4], unsigned row, GPUNODE_SITE);
void load_transposed(unsigned (&out)[4], unsigned row, GPUNODE_SITE);
void multiply_add(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, GPUNODE_SITE);
unsigned pack_bf16(float low, float high);

inline void copy_async(unsigned to, const void* from, bool inside, GPUNODE_SITE) {
  copy_async(shared_at(to, 16, {file, line}), from, 16, inside ? 16 : 0, {file, line});
}
inline void commit_copies(GPUNODE_SITE) {
  commit_copies(Site{file, line});
}
template <int kLeft>
void await_copies(GPUNODE_SITE) {
  await_copies(kLeft, Site{file, line});
}

}  // namespace gpunode::emulation
