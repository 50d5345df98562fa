// Rotary positions in place: 32 threads turn the pairs of all query and key heads of one position,
// four pairs a thread where a half head is a whole number of fours. The angles come from a table
// that the host made, so the bits are the CPU's. Bound by memory: 8 bytes an element.
#include "kernels/cuda/toolkit/elements.cuh"

namespace gpunode::cuda {
namespace {

constexpr int kPositionThreads = 32;
constexpr int kPositionsOfBlock = kElementThreads / kPositionThreads;

__global__ void turn_pairs(RotaryLaunch pass) {
  const int half = pass.half, pairs = pass.turned_heads * half;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kPositionsOfBlock;
  const bool by_four = half % 4 == 0 && pass.width % 4 == 0 && allow_four(pass.angles, pass.x);
  const int thread = static_cast<int>(threadIdx.x) % kPositionThreads;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kPositionsOfBlock +
                          static_cast<int>(threadIdx.x) / kPositionThreads;
       row < pass.rows; row += stride) {
    const std::int64_t position = pass.given ? pass.given[row] : row % pass.positions;
    const float* angles = pass.angles + position * 2 * half;
    float* x = pass.x + row * pass.width;
    for_row(pairs, thread, kPositionThreads, by_four, [&]<int kCount>(int pair) {
      const int head = pair / half, i = pair - head * half;
      float *left = x + std::int64_t{head} * 2 * half + i, *right = left + half;
      float turn[2 * kCount];
      for (int part = 0; part < 2; ++part) {
        const Lanes<kCount> some = load<kCount>(angles + 2 * i + part * kCount);
        for (int lane = 0; lane < kCount; ++lane) turn[part * kCount + lane] = some.at[lane];
      }
      Lanes<kCount> a = load<kCount>(left), b = load<kCount>(right);
      for (int lane = 0; lane < kCount; ++lane) {
        const float cosine = turn[2 * lane], sine = turn[2 * lane + 1] * pass.direction;
        const float turned = a.at[lane] * cosine - b.at[lane] * sine;
        b.at[lane] = b.at[lane] * cosine + a.at[lane] * sine;
        a.at[lane] = turned;
      }
      store(left, a);
      store(right, b);
    });
  }
}

}  // namespace

cudaError_t launch(const RotaryLaunch& work, cudaStream_t stream) {
  const std::int64_t blocks = (work.rows + kPositionsOfBlock - 1) / kPositionsOfBlock;
  GPUNODE_LAUNCH(turn_pairs, blocks < kElementBlocks ? blocks : kElementBlocks, kElementThreads,
                 stream, work);
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
