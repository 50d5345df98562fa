// Attention in float32 without tensor cores: the contract and the plan of flash_attention.cu, with
// plain fused multiply-adds over tiles in shared memory. Every sum has a fixed order and one owner,
// so there are no atomics and the bits never differ between runs.
//
// A block has 64 rows (32 where D is 128), the other side comes in steps of 32. Shared memory: at
// most 55,808 bytes forward, 72,704 backward. Rows that are not whole fours of floats at addresses of
// 16 bytes are read and written float by float. Off by about 1e-6 of the largest entry.
#include "kernels/cuda/toolkit/f32_tiles.cuh"

namespace gpunode::cuda {
namespace {

using namespace f32;

// Blocks that a multiprocessor has to hold at least, as shared memory allows on sm_80 and sm_90:
// without it the compiler keeps registers for more, and spills.
constexpr int kBackwardBlocks = 2;

// A thread's rows of softmax so far.
template <int P>
struct RunningRows {
  float largest[P], sum[P];  // the sum over this thread's columns
};

// Scores become powers of two with the largest so far as 1; what was summed is scaled to it.
template <int P, int N>
__device__ __forceinline__ void take_scores(RunningRows<P>& rows, float (&scores)[P][4],
                                            float (&out)[P][N], float scale) {
  GPUNODE_UNROLL
  for (int i = 0; i < P; ++i) {
    float largest = rows.largest[i];
    GPUNODE_UNROLL
    for (int j = 0; j < 4; ++j) largest = fmaxf(largest, scores[i][j]);
    GPUNODE_UNROLL
    for (int other = 1; other < 8; other *= 2)
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, other));
    const float shrink = power_of_two((rows.largest[i] - largest) * scale);
    rows.largest[i] = largest;
    rows.sum[i] *= shrink;
    GPUNODE_UNROLL
    for (int n = 0; n < N; ++n) out[i][n] *= shrink;
    GPUNODE_UNROLL
    for (int j = 0; j < 4; ++j) {
      scores[i][j] = power_of_two(fmaf(scores[i][j], scale, -largest * scale));
      rows.sum[i] += scores[i][j];
    }
  }
}

template <int D>
__global__ void __launch_bounds__(kThreads) forward_queries(AttentionLaunch<float> work) {
  constexpr int P = kOwn<D>;
  const AttentionExtents& extents = work.extents;
  const BlockRows rows = block_rows(extents, extents.heads, kRows<D>, true);
  const int key_slot = extents.heads + rows.head / (extents.heads / extents.key_heads);
  const int row = threadIdx.x / 8, column = threadIdx.x % 8;
  float* query_tile = shared_pointer<float>(shared_address());
  float* key_tile = query_tile + kRows<D> * kWidth<D>;
  float* value_tile = key_tile + kStep * kWidth<D>;
  float* weights = value_tile + kStep * kWidth<D>;
  const auto joined = [&](int slot) { return joined_rows(work.qkv, extents, rows.sample, slot); };

  const int steps = key_steps(extents, rows, kRows<D>, kStep);
  const float scale = root_scale(extents) * kLog2OfE;
  RunningRows<P> running;
  GPUNODE_UNROLL
  for (int i = 0; i < P; ++i) {
    running.largest[i] = -INFINITY;
    running.sum[i] = 0;
  }
  float out[P][D / 8];
  clear(out);
  if (steps > 0) copy_rows<D>(query_tile, joined(rows.head), rows.first, kRows<D>, rows.length);
  for (int step = 0; step < steps; ++step) {
    const int first_key = step * kStep;
    __syncthreads();  // nobody reads the step before
    copy_rows<D>(key_tile, joined(key_slot), first_key, kStep, rows.length);
    copy_rows<D>(value_tile, joined(key_slot + extents.key_heads), first_key, kStep, rows.length);
    __syncthreads();  // the step's rows are here
    float scores[P][4];
    multiply_rows<D>(scores, query_tile, key_tile);
    GPUNODE_UNROLL
    for (int n = 0; n < 4 * P; ++n) {
      const int i = n / 4, j = n % 4;
      const int query = rows.first + row + 16 * i, key = first_key + column + 8 * j;
      if (key >= rows.length || (extents.causal && key > query)) scores[i][j] = -INFINITY;
    }
    take_scores(running, scores, out, scale);
    share_weights(weights, scores);
    multiply_columns<D>(out, weights, value_tile);
  }

  float inverse[P];
  float* statistics = work.statistics + 2 * row_of_head(extents, rows.sample, rows.head);
  GPUNODE_UNROLL
  for (int i = 0; i < P; ++i) {
    const float sum = row_sum(running.sum[i]);
    const int mine = rows.first + row + 16 * i;
    const bool counts = mine < rows.length;
    inverse[i] = counts ? 1.0f / sum : 0.0f;
    if (column == 0 && mine < extents.positions) {
      statistics[2 * mine] = counts ? running.largest[i] * root_scale(extents) : 0.0f;
      statistics[2 * mine + 1] = inverse[i];
    }
  }
  store_rows(output_rows(work.out, extents, rows.sample, rows.head), rows, extents.positions, out,
             inverse);
}

// What the backward pass knows of a query: largest score (in powers of two), 1 / sum, and the
// product of its rows of out and dout.
struct QueryRow {
  float largest = 0, inverse = 0, delta = 0;
};
__device__ __forceinline__ QueryRow query_row(const AttentionBackwardLaunch<float>& work,
                                              const BlockRows& rows, int head, int query) {
  QueryRow known;
  if (query >= rows.length) return known;
  const std::int64_t place = row_of_head(work.extents, rows.sample, head) + query;
  known.largest = work.statistics[2 * place] * kLog2OfE;
  known.inverse = work.statistics[2 * place + 1];
  known.delta = work.deltas[place];
  return known;
}

// The probability behind a score, 0 where the mask hides it.
__device__ __forceinline__ float probability(const AttentionExtents& extents, int length,
                                             const QueryRow& known, float exponent, int query,
                                             int key) {
  if (!sees(extents, length, query, key)) return 0.0f;
  return power_of_two(exponent - known.largest) * known.inverse;
}

// The product of each row of out and dout, which the eight threads of a row get, and memory for
// the keys' kernel.
template <int P>
__device__ __forceinline__ void row_deltas(const AttentionBackwardLaunch<float>& work,
                                           const BlockRows& rows, QueryRow (&known)[P]) {
  const int column = threadIdx.x % 8;
  const auto out = output_rows(work.out, work.extents, rows.sample, rows.head);
  const auto dout = output_rows(work.dout, work.extents, rows.sample, rows.head);
  const bool out_in_fours = in_fours(out), dout_in_fours = in_fours(dout);
  GPUNODE_UNROLL
  for (int i = 0; i < P; ++i) {
    const int mine = rows.first + static_cast<int>(threadIdx.x / 8) + 16 * i;
    float sum = 0;
    if (mine < rows.length)
      for (int at = 4 * column; at < out.depth; at += 32) {
        const float4 a = load_four(out.start + mine * out.stride, at, out.depth, out_in_fours);
        const float4 b = load_four(dout.start + mine * dout.stride, at, out.depth, dout_in_fours);
        sum = fmaf(a.x, b.x, sum);
        sum = fmaf(a.y, b.y, sum);
        sum = fmaf(a.z, b.z, sum);
        sum = fmaf(a.w, b.w, sum);
      }
    sum = row_sum(sum);
    const std::int64_t place = row_of_head(work.extents, rows.sample, rows.head) + mine;
    if (column == 0 && mine < work.extents.positions) work.deltas[place] = sum;
    known[i].delta = sum;
    if (mine >= rows.length) continue;
    known[i].largest = work.statistics[2 * place] * kLog2OfE;
    known[i].inverse = work.statistics[2 * place + 1];
  }
}

template <int D>
__global__ void __launch_bounds__(kThreads, kBackwardBlocks)
    backward_queries(AttentionBackwardLaunch<float> work) {
  constexpr int P = kOwn<D>;
  const AttentionExtents& extents = work.extents;
  const BlockRows rows = block_rows(extents, extents.heads, kRows<D>, true);
  const int key_slot = extents.heads + rows.head / (extents.heads / extents.key_heads);
  const int row = threadIdx.x / 8, column = threadIdx.x % 8;
  float* query_tile = shared_pointer<float>(shared_address());
  float* dout_tile = query_tile + kRows<D> * kWidth<D>;
  float* key_tile = dout_tile + kRows<D> * kWidth<D>;
  float* value_tile = key_tile + kStep * kWidth<D>;
  float* weights = value_tile + kStep * kWidth<D>;
  const auto joined = [&](int slot) { return joined_rows(work.qkv, extents, rows.sample, slot); };

  const int steps = key_steps(extents, rows, kRows<D>, kStep);
  if (steps > 0) {
    copy_rows<D>(query_tile, joined(rows.head), rows.first, kRows<D>, rows.length);
    copy_rows<D>(dout_tile, output_rows(work.dout, extents, rows.sample, rows.head), rows.first,
                 kRows<D>, rows.length);
  }
  QueryRow known[P];
  row_deltas(work, rows, known);
  const float scale = root_scale(extents);
  float dqueries[P][D / 8];
  clear(dqueries);
  for (int step = 0; step < steps; ++step) {
    const int first_key = step * kStep;
    __syncthreads();  // as in the forward pass
    copy_rows<D>(key_tile, joined(key_slot), first_key, kStep, rows.length);
    copy_rows<D>(value_tile, joined(key_slot + extents.key_heads), first_key, kStep, rows.length);
    __syncthreads();
    float scores[P][4], slopes[P][4];
    multiply_rows<D>(scores, query_tile, key_tile);
    multiply_rows<D>(slopes, dout_tile, value_tile);
    GPUNODE_UNROLL
    for (int n = 0; n < 4 * P; ++n) {
      const int i = n / 4, j = n % 4;
      const int query = rows.first + row + 16 * i, key = first_key + column + 8 * j;
      const float power = probability(extents, rows.length, known[i],
                                      scores[i][j] * (scale * kLog2OfE), query, key);
      slopes[i][j] = power * (slopes[i][j] - known[i].delta);
    }
    share_weights(weights, slopes);
    multiply_columns<D>(dqueries, weights, key_tile);
  }
  float scales[P];
  GPUNODE_UNROLL
  for (int i = 0; i < P; ++i) scales[i] = scale;
  store_rows(joined_rows(work.dqkv, extents, rows.sample, rows.head), rows, extents.positions,
             dqueries, scales);
}

template <int D>
__global__ void __launch_bounds__(kThreads, kBackwardBlocks)
    backward_keys(AttentionBackwardLaunch<float> work) {
  constexpr int P = kOwn<D>;
  const AttentionExtents& extents = work.extents;
  const BlockRows rows = block_rows(extents, extents.key_heads, kRows<D>, false);
  const int group = extents.heads / extents.key_heads;
  const int row = threadIdx.x / 8, column = threadIdx.x % 8;
  const int key_slot = extents.heads + rows.head, value_slot = key_slot + extents.key_heads;
  float* key_tile = shared_pointer<float>(shared_address());
  float* value_tile = key_tile + kRows<D> * kWidth<D>;
  float* query_tile = value_tile + kRows<D> * kWidth<D>;
  float* dout_tile = query_tile + kStep * kWidth<D>;
  float* weights = dout_tile + kStep * kWidth<D>;
  const auto joined = [&](int slot) { return joined_rows(work.qkv, extents, rows.sample, slot); };
  // Steps of queries of one head, then of the next head that has these keys.
  const int first_step = extents.causal ? rows.first / kStep : 0;
  const int head_steps = (rows.length + kStep - 1) / kStep - first_step;
  const int steps = rows.first < rows.length ? group * head_steps : 0;

  if (steps > 0) {
    copy_rows<D>(key_tile, joined(key_slot), rows.first, kRows<D>, rows.length);
    copy_rows<D>(value_tile, joined(value_slot), rows.first, kRows<D>, rows.length);
  }
  const float scale = root_scale(extents);
  float dkeys[P][D / 8], dvalues[P][D / 8];
  clear(dkeys);
  clear(dvalues);
  for (int step = 0; step < steps; ++step) {
    const int head = rows.head * group + step / head_steps;
    const int first_query = (first_step + step % head_steps) * kStep;
    __syncthreads();  // as in the forward pass
    copy_rows<D>(query_tile, joined(head), first_query, kStep, rows.length);
    copy_rows<D>(dout_tile, output_rows(work.dout, extents, rows.sample, head), first_query, kStep,
                 rows.length);
    __syncthreads();
    float scores[P][4], slopes[P][4];
    multiply_rows<D>(scores, key_tile, query_tile);
    multiply_rows<D>(slopes, value_tile, dout_tile);
    GPUNODE_UNROLL
    for (int j = 0; j < 4; ++j) {
      const int query = first_query + column + 8 * j;
      const QueryRow known = query_row(work, rows, head, query);
      GPUNODE_UNROLL
      for (int i = 0; i < P; ++i) {
        const int key = rows.first + row + 16 * i;
        const float power =
            probability(extents, rows.length, known, scores[i][j] * (scale * kLog2OfE), query, key);
        scores[i][j] = power;
        slopes[i][j] = power * (slopes[i][j] - known.delta);
      }
    }
    share_weights(weights, scores);
    multiply_columns<D>(dvalues, weights, dout_tile);
    share_weights(weights, slopes);
    multiply_columns<D>(dkeys, weights, query_tile);
  }
  float scales[P], ones[P];
  GPUNODE_UNROLL
  for (int i = 0; i < P; ++i) {
    scales[i] = scale;
    ones[i] = 1;
  }
  store_rows(joined_rows(work.dqkv, extents, rows.sample, key_slot), rows, extents.positions, dkeys,
             scales);
  store_rows(joined_rows(work.dqkv, extents, rows.sample, value_slot), rows, extents.positions,
             dvalues, ones);
}

// Bytes of `own` tiles of the block's rows, two of a step's and the weights.
template <int D>
constexpr int shared_bytes(int own) {
  return ((own * kRows<D> + 2 * kStep) * kWidth<D> + kRows<D> * kWeights) * 4;
}

template <int D>
cudaError_t start(const AttentionLaunch<float>& work, cudaStream_t stream) {
  return start_kernel(&forward_queries<D>, block_count(work.extents, work.extents.heads, kRows<D>),
                      kThreads, shared_bytes<D>(1), work, stream);
}

// Queries first: their kernel leaves the deltas that the keys' needs.
template <int D>
cudaError_t start(const AttentionBackwardLaunch<float>& work, cudaStream_t stream) {
  const cudaError_t done =
      start_kernel(&backward_queries<D>, block_count(work.extents, work.extents.heads, kRows<D>),
                   kThreads, shared_bytes<D>(2), work, stream);
  if (done != cudaSuccess) return done;
  return start_kernel(&backward_keys<D>,
                      block_count(work.extents, work.extents.key_heads, kRows<D>), kThreads,
                      shared_bytes<D>(2), work, stream);
}

template <class Work>
cudaError_t start_for_depth(const Work& work, cudaStream_t stream) {
  if (!fits(work.extents, 1)) return cudaErrorInvalidValue;
  if (work.extents.samples == 0 || work.extents.positions == 0) return cudaSuccess;
  if (work.extents.depth <= 32) return start<32>(work, stream);
  return work.extents.depth <= 64 ? start<64>(work, stream) : start<128>(work, stream);
}

}  // namespace

cudaError_t launch(const AttentionLaunch<float>& work, cudaStream_t stream) {
  return start_for_depth(work, stream);
}

cudaError_t launch(const AttentionBackwardLaunch<float>& work, cudaStream_t stream) {
  return start_for_depth(work, stream);
}

}  // namespace gpunode::cuda
