// Attention of new positions of several texts against a cache of keys and values in pages, in
// float32. A block has one query of one head and walks over the cached rows of its text, 128 at a
// time: their scores, the largest so far, then the sum of values, each in an order that follows from
// the position alone. Bound by memory: the block reads each cached row of its head once. For the few
// queries of a decoder's step.
#include "kernels/cuda/toolkit/attention_rows.cuh"
#include "kernels/cuda/toolkit/block_fold.cuh"
#include "kernels/cuda/toolkit/elements.cuh"
#include "kernels/cuda/toolkit/exact_math.cuh"
#include "kernels/cuda/toolkit/warp.cuh"

namespace gpunode::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kRowLanes = 8;  // threads that share a score
constexpr int kMostDepth = 128;

// The cache's row of a position of the text whose pages these are.
__device__ std::int64_t cached_row(const std::int32_t* pages, std::int64_t position, int page) {
  return std::int64_t{pages[position / page]} * page + position % page;
}

__global__ void keep_rows(PagedAttentionLaunch pass) {
  const int row = pass.key_heads * pass.depth, joined = pass.heads * pass.depth + 2 * row;
  const std::int64_t count = static_cast<std::int64_t>(pass.rows) * row;
  for_elements(count, false, [&]<int kCount>(std::int64_t i) {
    const std::int64_t place = i / row, column = i % row;
    const float* from = pass.qkv + place * joined + pass.heads * pass.depth + column;
    const std::int32_t* pages = pass.pages + std::int64_t{pass.texts[place]} * pass.pages_of_text;
    const std::int64_t to = cached_row(pages, pass.positions[place], pass.page) * row + column;
    pass.keys[to] = from[0];
    pass.values[to] = from[row];
  });
}

// A head of the cached rows of a text from a position on.
struct CachedHead {
  const float* from;  // the head in the cache's first row
  const std::int32_t* pages;
  std::int64_t first;
  int page, stride;
  __device__ const float* operator[](int key) const {
    return from + cached_row(pages, first + key, page) * stride;
  }
};

// The scores of `count` cached rows by groups of eight threads; -infinity for those up to kThreads.
__device__ void take_scores(const float* query, const CachedHead& keys, int depth, int count,
                            float* scores) {
  const int lane = static_cast<int>(threadIdx.x) % kRowLanes;
  const float scale = 1.0f / sqrtf(static_cast<float>(depth));
  for (int key = static_cast<int>(threadIdx.x) / kRowLanes; key < kThreads;
       key += kThreads / kRowLanes) {
    float sum = 0;
    if (key < count)
      for (int i = lane; i < depth; i += kRowLanes) sum = fmaf(query[i], keys[key][i], sum);
    for (int other = 1; other < kRowLanes; other *= 2)
      sum += __shfl_xor_sync(0xffffffff, sum, other);
    if (lane == 0) scores[key] = key < count ? sum * scale : -INFINITY;
  }
}

__global__ void attend(PagedAttentionLaunch pass) {
  __shared__ float query[kMostDepth], scores[kThreads], parts[kThreads];
  const int head = static_cast<int>(blockIdx.x % static_cast<unsigned>(pass.heads));
  const int place = static_cast<int>(blockIdx.x / static_cast<unsigned>(pass.heads));
  const int thread = static_cast<int>(threadIdx.x), depth = pass.depth;
  const int row = pass.key_heads * depth, out_row = pass.heads * depth;
  const int shared_head = head / (pass.heads / pass.key_heads) * depth;
  const std::int64_t seen = pass.positions[place] + std::int64_t{1};
  const std::int32_t* pages = pass.pages + std::int64_t{pass.texts[place]} * pass.pages_of_text;
  // Threads of one value's column each; where it is narrow, several share the rows of a column.
  const int width = depth <= 32 ? 32 : depth <= 64 ? 64 : kMostDepth;
  const int column = thread % width, part = thread / width, part_count = kThreads / width;
  const auto larger = [](float a, float b) { return a > b ? a : b; };

  if (thread < depth)
    query[thread] =
        pass.qkv[static_cast<std::int64_t>(place) * (out_row + 2 * row) + head * depth + thread];
  __syncthreads();
  float largest = -INFINITY, sum = 0, out = 0;
  for (std::int64_t first = 0; first < seen; first += kThreads) {
    const int count = seen - first < kThreads ? static_cast<int>(seen - first) : kThreads;
    take_scores(query, {pass.keys + shared_head, pages, first, pass.page, row}, depth, count,
                scores);
    __syncthreads();
    const float mine = scores[thread];
    const float top = larger(largest, block_fold<kThreads>(parts, mine, larger));
    const float shrink = exact_exp(largest - top);
    const float weight = thread < count ? exact_exp(mine - top) : 0.0f;
    largest = top;
    __syncthreads();  // the fold's result is read
    scores[thread] = weight;
    sum = sum * shrink + block_sum<kThreads>(parts, weight);
    out *= shrink;
    if (column < depth) {
      const CachedHead values = {pass.values + shared_head + column, pages, first, pass.page, row};
      GPUNODE_UNROLL_BY(16)  // loads under way
      for (int key = part; key < count; key += part_count)
        out = fmaf(scores[key], *values[key], out);
    }
    __syncthreads();  // scores and parts are written again
  }
  parts[thread] = out;
  __syncthreads();
  if (thread >= depth) return;
  float total = 0;
  for (int each = 0; each < part_count; ++each) total += parts[each * width + thread];
  pass.out[static_cast<std::int64_t>(place) * out_row + head * depth + thread] = total / sum;
}

}  // namespace

cudaError_t launch(const PagedAttentionLaunch& work, cudaStream_t stream) {
  const AttentionExtents extents = {1,          work.rows, work.heads, work.key_heads,
                                    work.depth, true,      nullptr};
  if (!fits(extents, 1)) return cudaErrorInvalidValue;
  if (work.rows == 0) return cudaSuccess;
  const std::int64_t kept = static_cast<std::int64_t>(work.rows) * work.key_heads * work.depth;
  GPUNODE_LAUNCH(keep_rows, element_blocks(kept), kElementThreads, stream, work);
  GPUNODE_LAUNCH(attend, static_cast<std::int64_t>(work.rows) * work.heads, kThreads, stream, work);
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
