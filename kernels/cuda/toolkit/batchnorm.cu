// Batch normalisation with the CPU's bits. Statistics are taken of 16 rows at a time, which a thread
// holds in registers for the second look; 64 threads a column do so at once, and one joins what they
// found in order of rows. Rows are read once for the sums and once to be normalised.
// Source of the joining: Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for
// Computing Sample Variances", 1979.
#include "kernels/cuda/toolkit/elements.cuh"

namespace gpunode::cuda {
namespace {

constexpr int kGroupRows = 16;    // as on the CPU
constexpr int kGroups = 64;       // of rows, worked on at once
constexpr int kGroupColumns = 8;  // 32 bytes of a row
constexpr int kGroupThreads = kGroups * kGroupColumns;

using GroupSums = Lanes<2>;
struct Group {
  std::int64_t first;  // row
  int rows;
};
struct GroupTile {
  GroupSums at[kGroups][kGroupColumns];
};

__device__ Group group_at(std::int64_t first, std::int64_t rows) {
  return {first, rows - first < kGroupRows ? static_cast<int>(rows - first) : kGroupRows};
}

// join(group, summary(group, column)) over groups of rows in order, then finish(column), for the
// columns of this block.
template <class Summary, class Join, class Finish>
__device__ void over_groups(GroupTile& tile, std::int64_t rows, int columns, Summary summary,
                            Join join, Finish finish) {
  const int within = static_cast<int>(threadIdx.x) % kGroupColumns;
  const int lane = static_cast<int>(threadIdx.x) / kGroupColumns;
  const int column = static_cast<int>(blockIdx.x) * kGroupColumns + within;
  for (std::int64_t base = 0; base < rows; base += kGroups * kGroupRows) {
    const std::int64_t first = base + lane * kGroupRows;
    if (first < rows && column < columns)
      tile.at[lane][within] = summary(group_at(first, rows), column);
    __syncthreads();
    if (lane == 0 && column < columns)
      for (int i = 0; i < kGroups && base + i * kGroupRows < rows; ++i)
        join(group_at(base + i * kGroupRows, rows), tile.at[i][within]);
    __syncthreads();
  }
  if (lane == 0 && column < columns) finish(column);
}

__device__ float inverse_deviation(float squares, float share, float epsilon) {
  return 1.0f / sqrtf(fmaf(squares, share, epsilon));
}

__global__ void take_statistics(BatchnormLaunch pass) {
  __shared__ GroupTile tile;
  float mean = 0, squares = 0;
  over_groups(
      tile, pass.rows, pass.columns,
      [&](Group group, int column) -> GroupSums {
        const float* x = pass.x + group.first * pass.columns + column;
        float value[kGroupRows], sum = 0, offsets = 0;
        for (int row = 0; row < kGroupRows; ++row)
          value[row] = row < group.rows ? x[std::int64_t{row} * pass.columns] : 0.0f;
        for (int row = 0; row < kGroupRows; ++row)
          if (row < group.rows) sum += value[row];
        const float center = sum * (1.0f / static_cast<float>(group.rows));
        for (int row = 0; row < kGroupRows; ++row)
          if (row < group.rows) offsets = fmaf(value[row] - center, value[row] - center, offsets);
        return {center, offsets};
      },
      [&](Group group, const GroupSums& sums) {
        const float center = sums.at[0], offsets = sums.at[1];
        const float all = static_cast<float>(group.first + group.rows);
        const float share = static_cast<float>(group.rows) / all;
        const float step = center - mean;
        const bool alone = group.first == 0;
        const float spread = static_cast<float>(group.first) * share;
        squares = alone ? offsets : squares + fmaf(step * step, spread, offsets);
        mean = alone ? center : fmaf(step, share, mean);
      },
      [&](int column) {
        pass.mean[column] = mean;
        pass.rstd[column] =
            inverse_deviation(squares, 1.0f / static_cast<float>(pass.rows), pass.epsilon);
      });
}

__global__ void take_given(BatchnormLaunch pass) {
  for_elements(pass.columns, false, [&]<int kCount>(std::int64_t column) {
    pass.mean[column] = pass.running_mean[column];
    pass.rstd[column] = inverse_deviation(pass.running_variance[column], 1.0f, pass.epsilon);
  });
}

__global__ void normalise(BatchnormLaunch pass) {
  const bool by_four = pass.columns % 4 == 0 &&
                       allow_four(pass.x, pass.y, pass.weight, pass.bias, pass.mean, pass.rstd);
  for_elements(pass.rows * pass.columns, by_four, [&]<int kCount>(std::int64_t i) {
    const std::int64_t column = i % pass.columns;
    Lanes<kCount> x = load<kCount>(pass.x + i);
    const Lanes<kCount> mean = load<kCount>(pass.mean + column);
    const Lanes<kCount> rstd = load<kCount>(pass.rstd + column);
    const Lanes<kCount> weight = load<kCount>(pass.weight + column);
    const Lanes<kCount> bias = load<kCount>(pass.bias + column);
    for (int lane = 0; lane < kCount; ++lane)
      x.at[lane] =
          fmaf((x.at[lane] - mean.at[lane]) * rstd.at[lane], weight.at[lane], bias.at[lane]);
    store(pass.y + i, x);
  });
}

__global__ void sum_slopes(BatchnormBackwardLaunch pass) {
  __shared__ GroupTile tile;
  float dweight = 0, dbias = 0;
  over_groups(
      tile, pass.rows, pass.columns,
      [&](Group group, int column) -> GroupSums {
        const std::int64_t start = group.first * pass.columns + column;
        const float mean = pass.mean[column], rstd = pass.rstd[column];
        float products = 0, slopes = 0;
        for (int row = 0; row < group.rows; ++row) {
          const std::int64_t at = start + std::int64_t{row} * pass.columns;
          const float slope = pass.dy[at];
          slopes += slope;
          products = fmaf(slope, (pass.x[at] - mean) * rstd, products);
        }
        return {products, slopes};
      },
      [&](Group, const GroupSums& sums) {
        dweight += sums.at[0];
        dbias += sums.at[1];
      },
      [&](int column) {
        pass.dweight[column] = dweight;
        pass.dbias[column] = dbias;
      });
}

__global__ void slope_of_input(BatchnormBackwardLaunch pass) {
  const bool by_four = pass.columns % 4 == 0 && allow_four(pass.dy, pass.x, pass.dx);
  const float share = 1.0f / static_cast<float>(pass.rows);
  for_elements(pass.rows * pass.columns, by_four, [&]<int kCount>(std::int64_t i) {
    const std::int64_t first = i % pass.columns;
    const Lanes<kCount> x = load<kCount>(pass.x + i);
    Lanes<kCount> slope = load<kCount>(pass.dy + i);
    for (int lane = 0; lane < kCount; ++lane) {
      const std::int64_t column = first + lane;
      const float rstd = pass.rstd[column];
      const float normal = (x.at[lane] - pass.mean[column]) * rstd;
      const float common = fmaf(normal, pass.dweight[column], pass.dbias[column]) * share;
      slope.at[lane] = (slope.at[lane] - common) * (rstd * pass.weight[column]);
    }
    store(pass.dx + i, slope);
  });
}

int group_blocks(int columns) {
  return (columns + kGroupColumns - 1) / kGroupColumns;
}

}  // namespace

cudaError_t launch(const BatchnormLaunch& work, cudaStream_t stream) {
  if (work.running_mean)
    GPUNODE_LAUNCH(take_given, element_blocks(work.columns), kElementThreads, stream, work);
  else
    GPUNODE_LAUNCH(take_statistics, group_blocks(work.columns), kGroupThreads, stream, work);
  GPUNODE_LAUNCH(normalise, element_blocks(work.rows * work.columns), kElementThreads, stream,
                 work);
  return cudaGetLastError();
}

cudaError_t launch(const BatchnormBackwardLaunch& work, cudaStream_t stream) {
  GPUNODE_LAUNCH(sum_slopes, group_blocks(work.columns), kGroupThreads, stream, work);
  GPUNODE_LAUNCH(slope_of_input, element_blocks(work.rows * work.columns), kElementThreads, stream,
                 work);
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
