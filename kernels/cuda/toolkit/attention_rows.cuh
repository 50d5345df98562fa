// What the attention kernels of both precisions share: which rows of a sample and head a block has,
// where they lie in memory, and which scores count.
#pragma once

#include "kernels/cuda/toolkit/launch.hpp"

namespace gpunode::cuda {

inline constexpr float kLog2OfE = 1.44269504f;

// Rows of one head in an array (B, T, stride): row t begins at start + t * stride.
template <class Element>
struct HeadRows {
  Element* start;
  std::int64_t stride;
  int depth;
};

// A block's part: rows from `first` on of one head of one sample.
struct BlockRows {
  int sample, head, first;
  int length;  // positions of the sample that count
};

// Blocks of `rows` rows, the last rows first: with a causal mask these have the most work if rows
// are queries, and the least if they are keys, whose blocks count the other way.
__device__ __forceinline__ BlockRows block_rows(const AttentionExtents& extents, int heads,
                                                int rows, bool last_first) {
  const int pairs = extents.samples * heads;
  const int blocks = (extents.positions + rows - 1) / rows;
  const int pair = static_cast<int>(blockIdx.x % pairs),
            place = static_cast<int>(blockIdx.x / pairs);
  BlockRows mine;
  mine.sample = pair / heads;
  mine.head = pair % heads;
  mine.first = (last_first ? blocks - 1 - place : place) * rows;
  mine.length = extents.positions;
  if (extents.lengths) mine.length = min(mine.length, max(0, extents.lengths[mine.sample]));
  return mine;
}

inline std::int64_t block_count(const AttentionExtents& extents, int heads, int rows) {
  return static_cast<std::int64_t>(extents.samples) * heads *
         ((extents.positions + rows - 1) / rows);
}

// `slot` counts heads of D: of queries from 0, of keys from H, of values from H + K.
template <class Element>
__device__ __forceinline__ HeadRows<Element> joined_rows(Element* qkv,
                                                         const AttentionExtents& extents,
                                                         int sample, int slot) {
  const int width = (extents.heads + 2 * extents.key_heads) * extents.depth;
  return {
      qkv + static_cast<std::int64_t>(sample) * extents.positions * width + slot * extents.depth,
      width, extents.depth};
}
template <class Element>
__device__ __forceinline__ HeadRows<Element> output_rows(Element* out,
                                                         const AttentionExtents& extents,
                                                         int sample, int head) {
  const int width = extents.heads * extents.depth;
  return {
      out + static_cast<std::int64_t>(sample) * extents.positions * width + head * extents.depth,
      width, extents.depth};
}
// Of an array (B, H, T): where the row of a sample and head begins.
__device__ __forceinline__ std::int64_t row_of_head(const AttentionExtents& extents, int sample,
                                                    int head) {
  return (static_cast<std::int64_t>(sample) * extents.heads + head) * extents.positions;
}

__device__ __forceinline__ bool sees(const AttentionExtents& extents, int length, int query,
                                     int key) {
  return key < length && query < length && !(extents.causal && key > query);
}

// What scores are multiplied by.
__device__ __forceinline__ float root_scale(const AttentionExtents& extents) {
  return 1.0f / sqrtf(static_cast<float>(extents.depth));
}

// How many steps of keys the queries of a block of `count` rows see.
__device__ __forceinline__ int key_steps(const AttentionExtents& extents, const BlockRows& rows,
                                         int count, int step) {
  if (rows.first >= rows.length) return 0;
  const int end = extents.causal ? min(rows.length, rows.first + count) : rows.length;
  return (end + step - 1) / step;
}

// False for extents and pointers that the kernels cannot take.
inline bool fits(const AttentionExtents& extents, int multiple) {
  return extents.depth > 0 && extents.depth <= 128 && extents.depth % multiple == 0 &&
         extents.key_heads > 0 && extents.heads % extents.key_heads == 0;
}
template <class... Pointers>
bool aligned(const Pointers*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

// Starts a kernel on `blocks` blocks with `shared_bytes` each, for which it may have to ask.
template <class Work>
cudaError_t start_kernel(void (*kernel)(Work), std::int64_t blocks, int threads, int shared_bytes,
                         const Work& work, cudaStream_t stream) {
  const cudaError_t allowed =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (allowed != cudaSuccess) return allowed;
  GPUNODE_LAUNCH_SHARED(kernel, blocks, threads, shared_bytes, stream, work);
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
