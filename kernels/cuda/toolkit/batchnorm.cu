// Batch normalisation with the CPU's bits. Statistics are taken of 16 rows at a time, which a thread
// holds in registers for the second look; 64 threads a column do so at once for a span of rows, and
// one joins what they found in order of rows. Spans are worked on by blocks of their own and joined
// in order by a second kernel. Rows are read once for the sums and once to be normalised.
// Source of the joining: Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for
// Computing Sample Variances", 1979.
#include "kernels/cuda/toolkit/elements.cuh"
#include "kernels/cuda/toolkit/row_order.cuh"

namespace gpunode::cuda {
namespace {

constexpr int kGroupRows = 16;    // as on the CPU
constexpr int kGroups = 64;       // of rows, worked on at once: no span has more
constexpr int kGroupColumns = 8;  // 32 bytes of a row
constexpr int kGroupThreads = kGroups * kGroupColumns;

using GroupSums = Lanes<2>;
using Statistics = Lanes<3>;  // mean, squared offsets, and the share of the rows so far
struct Group {
  std::int64_t row, before;  // its first row; how many the span has before it
  int rows;
};
template <int kValues>
struct GroupTile {
  Lanes<kValues> at[kGroups][kGroupColumns];
};

__host__ __device__ inline std::int64_t column_blocks(int columns) {
  return (columns + kGroupColumns - 1) / kGroupColumns;
}
__host__ __device__ inline std::int64_t span_count(const auto& pass) {
  return (pass.rows + pass.span - 1) / pass.span;
}

// join(group, summary(group, column)) over groups of rows in order, for the span and the columns of
// this block; then finish(column), once a column, with the number of the span.
template <int kValues, class Pass, class Summary, class Join, class Finish>
__device__ void over_groups(GroupTile<kValues>& tile, const Pass& pass, Summary summary, Join join,
                            Finish finish) {
  const int within = static_cast<int>(threadIdx.x) % kGroupColumns;
  const int lane = static_cast<int>(threadIdx.x) / kGroupColumns;
  const std::int64_t blocks = column_blocks(pass.columns), span = blockIdx.x / blocks;
  const int column = static_cast<int>(blockIdx.x % blocks) * kGroupColumns + within;
  const std::int64_t start = span * pass.span;
  const std::int64_t rows = pass.rows - start < pass.span ? pass.rows - start : pass.span;
  const auto group_at = [&](std::int64_t first) {
    return Group{start + first, first,
                 rows - first < kGroupRows ? static_cast<int>(rows - first) : kGroupRows};
  };
  const std::int64_t first = std::int64_t{lane} * kGroupRows;
  if (first < rows && column < pass.columns)
    tile.at[lane][within] = summary(group_at(first), column);
  __syncthreads();
  if (lane > 0 || column >= pass.columns) return;
  for (int i = 0; i < kGroups && i * kGroupRows < rows; ++i)
    join(group_at(std::int64_t{i} * kGroupRows), tile.at[i][within]);
  finish(span, column);
}

// The sums of a span to where the spans are joined from.
template <class Pass, int kValues>
__device__ void put_part(const Pass& pass, std::int64_t span, int column,
                         const Lanes<kValues>& sums) {
  float* part = pass.parts + span * 2 * pass.columns + column;
  part[0] = sums.at[0];
  part[pass.columns] = sums.at[1];
}

// The share of `rows` rows that stand behind `before` others. Every thread works out its own group's,
// as the one that joins would wait for a division at each.
__device__ float share_of(std::int64_t before, std::int64_t rows) {
  return static_cast<float>(rows) / static_cast<float>(before + rows);
}

// Mean and sum of squared offsets of `before` rows, and of more with their share.
__device__ void join_statistics(Statistics& all, std::int64_t before, const Statistics& more) {
  if (before == 0) {
    all = more;
    return;
  }
  const float share = more.at[2];
  const float step = more.at[0] - all.at[0];
  const float spread = static_cast<float>(before) * share;
  all.at[1] = all.at[1] + fmaf(step * step, spread, more.at[1]);
  all.at[0] = fmaf(step, share, all.at[0]);
}

__device__ float inverse_deviation(float squares, float share, float epsilon) {
  return 1.0f / sqrtf(fmaf(squares, share, epsilon));
}

__device__ void put_statistics(const BatchnormLaunch& pass, std::int64_t column,
                               const Statistics& all) {
  pass.mean[column] = all.at[0];
  pass.rstd[column] =
      inverse_deviation(all.at[1], 1.0f / static_cast<float>(pass.rows), pass.epsilon);
}

__global__ void take_statistics(BatchnormLaunch pass) {
  __shared__ GroupTile<3> tile;
  Statistics all = {};
  over_groups(
      tile, pass,
      [&](const Group& group, int column) -> Statistics {
        const float* x = pass.x + group.row * pass.columns + column;
        float value[kGroupRows], sum = 0, offsets = 0;
        for (int row = 0; row < kGroupRows; ++row)
          value[row] = row < group.rows ? x[std::int64_t{row} * pass.columns] : 0.0f;
        for (int row = 0; row < kGroupRows; ++row)
          if (row < group.rows) sum += value[row];
        const float center = sum * (1.0f / static_cast<float>(group.rows));
        for (int row = 0; row < kGroupRows; ++row)
          if (row < group.rows) offsets = fmaf(value[row] - center, value[row] - center, offsets);
        return {center, offsets, share_of(group.before, group.rows)};
      },
      [&](const Group& group, const Statistics& sums) { join_statistics(all, group.before, sums); },
      [&](std::int64_t span, int column) {
        if (pass.rows > pass.span)
          put_part(pass, span, column, all);
        else
          put_statistics(pass, column, all);
      });
}

__global__ void join_spans(BatchnormLaunch pass) {
  __shared__ RowTile<3> tile;
  std::int64_t before = 0;
  sum_in_row_order(
      tile, span_count(pass), pass.columns,
      [&](std::int64_t span, std::int64_t column) {
        const float* part = pass.parts + span * 2 * pass.columns + column;
        const std::int64_t first = span * pass.span, left = pass.rows - first;
        return Statistics{part[0], part[pass.columns],
                          share_of(first, left < pass.span ? left : pass.span)};
      },
      [&](Statistics& all, const Statistics& sums) {
        join_statistics(all, before, sums);
        before += pass.span;
      },
      [&](std::int64_t column, const Statistics& all) { put_statistics(pass, column, all); });
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

__device__ void put_slopes(const BatchnormBackwardLaunch& pass, std::int64_t column,
                           const GroupSums& all) {
  pass.dweight[column] = all.at[0];
  pass.dbias[column] = all.at[1];
}

__global__ void sum_slopes(BatchnormBackwardLaunch pass) {
  __shared__ GroupTile<2> tile;
  GroupSums all = {};
  over_groups(
      tile, pass,
      [&](const Group& group, int column) -> GroupSums {
        const std::int64_t start = group.row * pass.columns + column;
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
      [&](const Group&, const GroupSums& sums) {
        for (int i = 0; i < 2; ++i) all.at[i] += sums.at[i];
      },
      [&](std::int64_t span, int column) {
        if (pass.rows > pass.span)
          put_part(pass, span, column, all);
        else
          put_slopes(pass, column, all);
      });
}

__global__ void add_spans(BatchnormBackwardLaunch pass) {
  __shared__ RowTile<2> tile;
  sum_in_row_order(
      tile, span_count(pass), pass.columns,
      [&](std::int64_t span, std::int64_t column) {
        const float* part = pass.parts + span * 2 * pass.columns + column;
        return GroupSums{part[0], part[pass.columns]};
      },
      [](GroupSums& all, const GroupSums& sums) {
        for (int i = 0; i < 2; ++i) all.at[i] += sums.at[i];
      },
      [&](std::int64_t column, const GroupSums& all) { put_slopes(pass, column, all); });
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

template <class Pass>
std::int64_t group_blocks(const Pass& pass) {
  return column_blocks(pass.columns) * span_count(pass);
}

}  // namespace

cudaError_t launch(const BatchnormLaunch& work, cudaStream_t stream) {
  if (work.span > kGroups * kGroupRows) return cudaErrorInvalidValue;
  if (work.running_mean)
    GPUNODE_LAUNCH(take_given, element_blocks(work.columns), kElementThreads, stream, work);
  else
    GPUNODE_LAUNCH(take_statistics, group_blocks(work), kGroupThreads, stream, work);
  if (!work.running_mean && work.rows > work.span)
    GPUNODE_LAUNCH(join_spans, row_order_blocks(work.columns), kRowOrderThreads, stream, work);
  GPUNODE_LAUNCH(normalise, element_blocks(work.rows * work.columns), kElementThreads, stream,
                 work);
  return cudaGetLastError();
}

cudaError_t launch(const BatchnormBackwardLaunch& work, cudaStream_t stream) {
  if (work.span > kGroups * kGroupRows) return cudaErrorInvalidValue;
  GPUNODE_LAUNCH(sum_slopes, group_blocks(work), kGroupThreads, stream, work);
  if (work.rows > work.span)
    GPUNODE_LAUNCH(add_spans, row_order_blocks(work.columns), kRowOrderThreads, stream, work);
  GPUNODE_LAUNCH(slope_of_input, element_blocks(work.rows * work.columns), kElementThreads, stream,
                 work);
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
