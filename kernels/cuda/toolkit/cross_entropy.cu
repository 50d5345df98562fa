// Softmax and cross-entropy with their backward, one block a row. Two walks over a row: the largest
// score with the sum of exponentials against it, which is brought down where a larger one comes; the
// gradient. Only the first comes from memory, as the rows that a GPU works on at a time fit its second
// cache. Exponentials have the CPU's bits, their sum does not: 256 threads sum every 256th four, then
// by a tree.
// Source of the sum: Milakov, Gimelshein, "Online normalizer calculation for softmax", 2018.
#include "kernels/cuda/toolkit/block_fold.cuh"
#include "kernels/cuda/toolkit/elements.cuh"
#include "kernels/cuda/toolkit/exact_math.cuh"

namespace gpunode::cuda {
namespace {

constexpr int kRowThreads = 256;
constexpr int kNoTarget = -1;  // ops::kNoTarget: no loss and no gradient

__device__ inline float larger(float a, float b) {
  return a > b ? a : b;
}

// The sum of exponentials of scores less `top`.
struct Exponentials {
  float top = -3.4028235e38f, sum = 0;
  __device__ Exponentials against(float higher) const {
    return {higher, sum == 0 || higher == top ? sum : sum * exact_exp(top - higher)};
  }
};

__global__ void cross_entropy_rows(CrossEntropyLaunch pass) {
  __shared__ float tops[kRowThreads], sums[kRowThreads];
  const std::int64_t row = blockIdx.x, begin = row * pass.columns;
  const int thread = static_cast<int>(threadIdx.x), target = pass.targets[row];
  const float* logits = pass.logits + begin;
  float* dlogits = pass.dlogits ? pass.dlogits + begin : nullptr;
  const bool by_four = allow_four(logits, dlogits);
  if (target == kNoTarget) {
    if (thread == 0) pass.losses[row] = 0;
    if (dlogits)
      for_row(pass.columns, thread, kRowThreads, by_four,
              [&]<int kCount>(int i) { store(dlogits + i, Lanes<kCount>{}); });
    return;
  }
  Exponentials own;
  // Fours whether or not they are aligned: which thread adds what must not follow from that.
  for_row(pass.columns, thread, kRowThreads, true, [&]<int kCount>(int i) {
    Lanes<kCount> scores;
    if (kCount == 1 || by_four)
      scores = load<kCount>(logits + i);
    else
      for (int lane = 0; lane < kCount; ++lane) scores.at[lane] = logits[i + lane];
    float top = own.top;
    for (float score : scores.at) top = larger(top, score);
    own = own.against(top);
    for (float score : scores.at) own.sum += exact_exp(score - top);
  });
  const float top = block_fold<kRowThreads>(tops, own.top, larger);
  const float sum = block_sum<kRowThreads>(sums, own.against(top).sum);

  const bool known = target >= 0 && target < pass.columns;  // if not, the loss is NaN
  if (thread == 0) {
    const double score = known ? logits[target] : double{NAN};
    pass.losses[row] = static_cast<float>(exact_log(sum) + (double{top} - score));
  }
  if (!dlogits) return;
  __syncthreads();  // the target's score is read: dlogits may lie in the same place
  const float scale = 1.0f / sum;
  for_row(pass.columns, thread, kRowThreads, by_four, [&]<int kCount>(int i) {
    Lanes<kCount> slope = load<kCount>(logits + i);
    for (int lane = 0; lane < kCount; ++lane) {
      slope.at[lane] = exact_exp(slope.at[lane] - top) * scale;
      if (i + lane == target) slope.at[lane] -= 1.0f;
    }
    store(dlogits + i, slope);
  });
}

}  // namespace

cudaError_t launch(const CrossEntropyLaunch& work, cudaStream_t stream) {
  GPUNODE_LAUNCH(cross_entropy_rows, work.rows, kRowThreads, stream, work);
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
