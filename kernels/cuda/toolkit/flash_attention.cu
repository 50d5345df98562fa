// Attention on tensor cores in bf16, with sums in float32 and without a matrix of probabilities in
// memory: FlashAttention-2 (Dao 2023, arXiv 2307.08691), with the backward pass as two kernels, one
// that sums over keys and one over queries. Every sum has a fixed order and one owner, so there are
// no atomics and the bits never differ between runs; the price is seven products where five do.
//
// A block has 64 rows, a warp 16 of them; the other side comes in steps, copied while the step before
// is computed. Shared memory: (64 + 4 * step) rows forward, (128 + 4 * step) backward.
// Probabilities, their gradients and results are rounded to bf16: about 1e-3 of the largest entry.
#include "kernels/cuda/toolkit/flash_tiles.cuh"

namespace gpunode::cuda {
namespace {

using namespace flash;

// Blocks that a multiprocessor has to hold at least, which limits registers: without it the compiler
// takes fewer than it may and spills.
template <int D>
constexpr int kForwardBlocks = D <= 64 ? 3 : 2;
constexpr int kBackwardBlocks = 2;

// A row's softmax so far: two rows a lane, of which it has a quarter of the columns.
struct RunningRows {
  float largest[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};  // over this lane's columns
};

// Scores become powers of two with the largest so far as 1; what was summed is scaled to it.
template <int N, int M>
__device__ __forceinline__ void take_scores(RunningRows& rows, float (&scores)[N][4],
                                            float (&out)[M][4], float scale) {
  GPUNODE_UNROLL
  for (int half = 0; half < 2; ++half) {
    float largest = rows.largest[half];
    GPUNODE_UNROLL
    for (int n = 0; n < N; ++n)
      largest = fmaxf(largest, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2));
    const float shrink = power_of_two((rows.largest[half] - largest) * scale);
    rows.largest[half] = largest;
    rows.sum[half] *= shrink;
    GPUNODE_UNROLL
    for (int n = 0; n < M; ++n) {
      out[n][2 * half] *= shrink;
      out[n][2 * half + 1] *= shrink;
    }
    GPUNODE_UNROLL
    for (int n = 0; n < N; ++n) GPUNODE_UNROLL
    for (int i = 2 * half; i < 2 * half + 2; ++i) {
      scores[n][i] = power_of_two(fmaf(scores[n][i], scale, -largest * scale));
      rows.sum[half] += scores[n][i];
    }
  }
}

template <int D>
__global__ void __launch_bounds__(kThreads, kForwardBlocks<D>)
    forward_queries(AttentionLaunch<Bf16> work) {
  const AttentionExtents& extents = work.extents;
  const BlockRows rows = block_rows(extents, extents.heads, kRows, true);
  const int key_head = rows.head / (extents.heads / extents.key_heads);
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16;
  const auto queries = joined_rows(work.qkv, extents, rows.sample, rows.head);
  const auto keys = joined_rows(work.qkv, extents, rows.sample, extents.heads + key_head);
  const auto values =
      joined_rows(work.qkv, extents, rows.sample, extents.heads + extents.key_heads + key_head);
  const unsigned query_tile = shared_address(), tiles = query_tile + kRowsBytes<D>;
  const auto copy = [&](int step) {
    copy_step<D>(step_tile<D>(tiles, step), keys, values, step * kStep<D>, rows.length);
  };

  const int steps = key_steps(extents, rows, kRows, kStep<D>);
  const float scale = root_scale(extents) * kLog2OfE;
  RunningRows running;
  float out[D / 8][4];
  clear(out);
  if (steps > 0) {
    copy_rows<D>(query_tile, queries, rows.first, kRows, rows.length);
    copy(0);
    commit_copies();
  }
  for (int step = 0; step < steps; ++step) {
    await_copies<0>();
    __syncthreads();  // the step's rows are here, and nobody reads those of the step before
    if (step + 1 < steps) copy(step + 1);
    commit_copies();
    const unsigned tile = step_tile<D>(tiles, step);
    float scores[kStep<D> / 8][4];
    clear(scores);
    multiply_rows<D>(scores, query_tile, row, tile);
    const int first_key = step * kStep<D>, last_key = first_key + kStep<D> - 1;
    if (last_key >= rows.length || (extents.causal && last_key > rows.first)) {
      GPUNODE_UNROLL
      for (int n = 0; n < kStep<D> / 8; ++n) GPUNODE_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int query = rows.first + row + lane / 4 + 8 * (i / 2);
        const int key = first_key + 8 * n + 2 * (lane % 4) + i % 2;
        if (key >= rows.length || (extents.causal && key > query)) scores[n][i] = -INFINITY;
      }
    }
    take_scores(running, scores, out, scale);
    multiply_columns<D>(out, scores, tile + kStepBytes<D>);
  }

  float inverse[2];
  float* statistics = work.statistics + 2 * row_of_head(extents, rows.sample, rows.head);
  GPUNODE_UNROLL
  for (int half = 0; half < 2; ++half) {
    float sum = running.sum[half];
    sum += __shfl_xor_sync(kAllLanes, sum, 1);
    sum += __shfl_xor_sync(kAllLanes, sum, 2);
    const int mine = rows.first + row + lane / 4 + 8 * half;
    const bool counts = mine < rows.length;
    inverse[half] = counts ? 1.0f / sum : 0.0f;
    if (lane % 4 == 0 && mine < extents.positions) {
      statistics[2 * mine] = counts ? running.largest[half] * root_scale(extents) : 0.0f;
      statistics[2 * mine + 1] = inverse[half];
    }
  }
  store_rows(output_rows(work.out, extents, rows.sample, rows.head), rows.first + row,
             extents.positions, rows.length, out, inverse);
}

// The product of each row of out and dout, two lanes a row of the warp's 16; kept for the keys'
// kernel, and handed to the lanes that have rows g and g + 8.
__device__ __forceinline__ void row_deltas(const AttentionBackwardLaunch<Bf16>& work,
                                           const BlockRows& rows, int row, float (&delta)[2]) {
  const int lane = threadIdx.x % 32, mine = rows.first + row + lane / 2;
  const auto out = output_rows(work.out, work.extents, rows.sample, rows.head);
  const auto dout = output_rows(work.dout, work.extents, rows.sample, rows.head);
  float sum = 0;
  if (mine < rows.length)
    for (int i = lane % 2 * 2; i < out.depth; i += 4) {
      const unsigned a = *reinterpret_cast<const unsigned*>(out.start + mine * out.stride + i);
      const unsigned b = *reinterpret_cast<const unsigned*>(dout.start + mine * dout.stride + i);
      sum = fmaf(__uint_as_float(a << 16), __uint_as_float(b << 16), sum);
      sum = fmaf(__uint_as_float(a & 0xffff0000), __uint_as_float(b & 0xffff0000), sum);
    }
  sum += __shfl_xor_sync(kAllLanes, sum, 1);
  if (lane % 2 == 0 && mine < work.extents.positions)
    work.deltas[row_of_head(work.extents, rows.sample, rows.head) + mine] = sum;
  delta[0] = __shfl_sync(kAllLanes, sum, lane / 4 * 2);
  delta[1] = __shfl_sync(kAllLanes, sum, lane / 4 * 2 + 16);
}

template <int D>
__global__ void __launch_bounds__(kThreads, kBackwardBlocks)
    backward_queries(AttentionBackwardLaunch<Bf16> work) {
  const AttentionExtents& extents = work.extents;
  const BlockRows rows = block_rows(extents, extents.heads, kRows, true);
  const int key_head = rows.head / (extents.heads / extents.key_heads);
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16;
  const auto keys = joined_rows(work.qkv, extents, rows.sample, extents.heads + key_head);
  const auto values =
      joined_rows(work.qkv, extents, rows.sample, extents.heads + extents.key_heads + key_head);
  const unsigned query_tile = shared_address(), dout_tile = query_tile + kRowsBytes<D>;
  const unsigned tiles = dout_tile + kRowsBytes<D>;
  const auto copy = [&](int step) {
    copy_step<D>(step_tile<D>(tiles, step), keys, values, step * kStep<D>, rows.length);
  };

  const int steps = key_steps(extents, rows, kRows, kStep<D>);
  if (steps > 0) {
    copy_rows<D>(query_tile, joined_rows(work.qkv, extents, rows.sample, rows.head), rows.first,
                 kRows, rows.length);
    copy_rows<D>(dout_tile, output_rows(work.dout, extents, rows.sample, rows.head), rows.first,
                 kRows, rows.length);
    copy(0);
    commit_copies();
  }
  float delta[2], largest[2] = {0, 0}, inverse[2] = {0, 0};
  row_deltas(work, rows, row, delta);
  GPUNODE_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int mine = rows.first + row + lane / 4 + 8 * half;
    if (mine >= rows.length) continue;
    const float* statistics =
        work.statistics + 2 * (row_of_head(extents, rows.sample, rows.head) + mine);
    largest[half] = statistics[0] * kLog2OfE;
    inverse[half] = statistics[1];
  }
  const float scale = root_scale(extents);
  float dqueries[D / 8][4];
  clear(dqueries);
  for (int step = 0; step < steps; ++step) {
    await_copies<0>();
    __syncthreads();  // as in the forward pass
    if (step + 1 < steps) copy(step + 1);
    commit_copies();
    const unsigned tile = step_tile<D>(tiles, step);
    float scores[kStep<D> / 8][4], slopes[kStep<D> / 8][4];
    clear(scores);
    clear(slopes);
    multiply_rows<D>(scores, query_tile, row, tile);
    multiply_rows<D>(slopes, dout_tile, row, tile + kStepBytes<D>);
    GPUNODE_UNROLL
    for (int n = 0; n < kStep<D> / 8; ++n) GPUNODE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int query = rows.first + row + lane / 4 + 8 * (i / 2);
      const int key = step * kStep<D> + 8 * n + 2 * (lane % 4) + i % 2;
      const float power =
          power_of_two(fmaf(scores[n][i], scale * kLog2OfE, -largest[i / 2])) * inverse[i / 2];
      slopes[n][i] =
          sees(extents, rows.length, query, key) ? power * (slopes[n][i] - delta[i / 2]) : 0.0f;
    }
    multiply_columns<D>(dqueries, slopes, tile);
  }
  store_rows(joined_rows(work.dqkv, extents, rows.sample, rows.head), rows.first + row,
             extents.positions, rows.length, dqueries, {scale, scale});
}

// Scores of 16 keys (rows) and queries (columns) become probabilities, and the slopes of
// probabilities those of scores.
template <int N>
struct KeyScores {
  float scores[N][4], slopes[N][4];
};
template <int N>
__device__ __forceinline__ void differentiate(const AttentionBackwardLaunch<Bf16>& work,
                                              KeyScores<N>& tile, const BlockRows& rows, int head,
                                              int first_key, int first_query, float scale) {
  const int lane = threadIdx.x % 32;
  const std::int64_t start = row_of_head(work.extents, rows.sample, head);
  GPUNODE_UNROLL
  for (int n = 0; n < N; ++n) GPUNODE_UNROLL
  for (int side = 0; side < 2; ++side) {
    const int query = first_query + 8 * n + 2 * (lane % 4) + side;
    float2 statistics = make_float2(0, 0);
    float delta = 0;
    if (query < rows.length) {
      statistics = reinterpret_cast<const float2*>(work.statistics)[start + query];
      delta = work.deltas[start + query];
    }
    GPUNODE_UNROLL
    for (int i = side; i < 4; i += 2) {
      const int key = first_key + lane / 4 + 8 * (i / 2);
      const float exponent = fmaf(tile.scores[n][i], scale * kLog2OfE, -statistics.x * kLog2OfE);
      const float power = sees(work.extents, rows.length, query, key)
                              ? power_of_two(exponent) * statistics.y
                              : 0.0f;
      tile.scores[n][i] = power;
      tile.slopes[n][i] = power * (tile.slopes[n][i] - delta);
    }
  }
}

template <int D>
__global__ void __launch_bounds__(kThreads, kBackwardBlocks)
    backward_keys(AttentionBackwardLaunch<Bf16> work) {
  const AttentionExtents& extents = work.extents;
  const BlockRows rows = block_rows(extents, extents.key_heads, kRows, false);
  const int group = extents.heads / extents.key_heads, row = threadIdx.x / 32 * 16;
  const int key_slot = extents.heads + rows.head, value_slot = key_slot + extents.key_heads;
  const unsigned key_tile = shared_address(), value_tile = key_tile + kRowsBytes<D>;
  const unsigned tiles = value_tile + kRowsBytes<D>;
  // Steps of queries of one head, then of the next head that has these keys.
  const int first_step = extents.causal ? rows.first / kStep<D> : 0;
  const int head_steps = (rows.length + kStep<D> - 1) / kStep<D> - first_step;
  const int steps = rows.first < rows.length ? group * head_steps : 0;
  const auto head_of = [&](int step) { return rows.head * group + step / head_steps; };
  const auto query_of = [&](int step) { return (first_step + step % head_steps) * kStep<D>; };
  const auto copy = [&](int step) {
    copy_step<D>(
        step_tile<D>(tiles, step), joined_rows(work.qkv, extents, rows.sample, head_of(step)),
        output_rows(work.dout, extents, rows.sample, head_of(step)), query_of(step), rows.length);
  };

  if (steps > 0) {
    copy_rows<D>(key_tile, joined_rows(work.qkv, extents, rows.sample, key_slot), rows.first, kRows,
                 rows.length);
    copy_rows<D>(value_tile, joined_rows(work.qkv, extents, rows.sample, value_slot), rows.first,
                 kRows, rows.length);
    copy(0);
    commit_copies();
  }
  const float scale = root_scale(extents);
  float dkeys[D / 8][4], dvalues[D / 8][4];
  clear(dkeys);
  clear(dvalues);
  for (int step = 0; step < steps; ++step) {
    await_copies<0>();
    __syncthreads();  // as in the forward pass
    if (step + 1 < steps) copy(step + 1);
    commit_copies();
    const unsigned tile = step_tile<D>(tiles, step);
    KeyScores<kStep<D> / 8> part;
    clear(part.scores);
    clear(part.slopes);
    multiply_rows<D>(part.scores, key_tile, row, tile);
    multiply_rows<D>(part.slopes, value_tile, row, tile + kStepBytes<D>);
    differentiate(work, part, rows, head_of(step), rows.first + row, query_of(step), scale);
    multiply_columns<D>(dvalues, part.scores, tile + kStepBytes<D>);
    multiply_columns<D>(dkeys, part.slopes, tile);
  }
  store_rows(joined_rows(work.dqkv, extents, rows.sample, key_slot), rows.first + row,
             extents.positions, rows.length, dkeys, {scale, scale});
  store_rows(joined_rows(work.dqkv, extents, rows.sample, value_slot), rows.first + row,
             extents.positions, rows.length, dvalues, {1.0f, 1.0f});
}

template <int D>
cudaError_t start(const AttentionLaunch<Bf16>& work, cudaStream_t stream) {
  const int bytes = kRowsBytes<D> + 4 * kStepBytes<D>;
  return start_kernel(&forward_queries<D>, block_count(work.extents, work.extents.heads, kRows),
                      kThreads, bytes, work, stream);
}

// Queries first: their kernel leaves the deltas that the keys' needs.
template <int D>
cudaError_t start(const AttentionBackwardLaunch<Bf16>& work, cudaStream_t stream) {
  const int bytes = 2 * kRowsBytes<D> + 4 * kStepBytes<D>;
  const cudaError_t done =
      start_kernel(&backward_queries<D>, block_count(work.extents, work.extents.heads, kRows),
                   kThreads, bytes, work, stream);
  if (done != cudaSuccess) return done;
  return start_kernel(&backward_keys<D>, block_count(work.extents, work.extents.key_heads, kRows),
                      kThreads, bytes, work, stream);
}

template <class Work>
cudaError_t start_for_depth(const Work& work, cudaStream_t stream) {
  if (!fits(work.extents, 8)) return cudaErrorInvalidValue;
  if (work.extents.samples == 0 || work.extents.positions == 0) return cudaSuccess;
  if (work.extents.depth <= 32) return start<32>(work, stream);
  return work.extents.depth <= 64 ? start<64>(work, stream) : start<128>(work, stream);
}

}  // namespace

cudaError_t launch(const AttentionLaunch<std::uint16_t>& work, cudaStream_t stream) {
  if (!aligned(work.qkv, work.out, work.statistics)) return cudaErrorInvalidValue;
  return start_for_depth(work, stream);
}

cudaError_t launch(const AttentionBackwardLaunch<std::uint16_t>& work, cudaStream_t stream) {
  if (!aligned(work.qkv, work.out, work.dout, work.dqkv, work.statistics))
    return cudaErrorInvalidValue;
  return start_for_depth(work, stream);
}

}  // namespace gpunode::cuda
