// Normalisation of rows: layer norm, and RMS norm, which is the same with a mean of zero and without
// a bias. A team of threads holds a row in registers, so that memory is read once: a warp up to 1,024
// columns, a block up to 16,384. Backward, a team walks over rows that follow from their number
// alone, and keeps its part of the weight's gradient; parts are added in order of rows, those of a
// block first. Sums in a row follow one tree, so the bits do not depend on the GPU's schedule.
// Bound by memory: 8 bytes an element forward (16 with a residual), 16 backward.
#include "kernels/cuda/toolkit/row_order.cuh"
#include "kernels/cuda/toolkit/warp.cuh"

namespace gpunode::cuda {
namespace {

constexpr int kWarpLanes = 32;

// kTeam threads that share a row; each has kFours times four neighbours of it.
template <int kTeam, int kFours>
struct Team {
  static constexpr int kGroups = kFours;
  static constexpr int kThreads = kTeam < 256 ? 256 : kTeam;  // of a block
  static constexpr int kTeams = kThreads / kTeam;
  static constexpr int kColumns = 4 * kTeam * kFours;  // at most
  static constexpr int kWarps = kThreads / kWarpLanes;

  struct Part {
    float at[kFours][4];
  };

  static __device__ int number() { return static_cast<int>(threadIdx.x) / kTeam; }
  static __device__ int column(int group) {
    return 4 * (static_cast<int>(threadIdx.x) % kTeam + kTeam * group);
  }
};

// Calls body(value, column) for the columns of a row that are this thread's.
template <class T, class Body>
__device__ inline void for_part(typename T::Part& part, int columns, Body body) {
  GPUNODE_UNROLL
  for (int group = 0; group < T::kGroups; ++group) GPUNODE_UNROLL
  for (int lane = 0; lane < 4; ++lane) {
    const int column = T::column(group) + lane;
    if (column < columns) body(part.at[group][lane], column);
  }
}

// Zero where there is no column. Four at a time or one, the numbers are the same.
template <class T>
__device__ inline void load_part(typename T::Part& part, const float* row, int columns,
                                 bool by_four) {
  GPUNODE_UNROLL
  for (int group = 0; group < T::kGroups; ++group) {
    const int first = T::column(group);
    if (by_four && first < columns) {
      const Lanes<4> four = load<4>(row + first);
      GPUNODE_UNROLL
      for (int lane = 0; lane < 4; ++lane) part.at[group][lane] = four.at[lane];
    } else {
      GPUNODE_UNROLL
      for (int lane = 0; lane < 4; ++lane)
        part.at[group][lane] = first + lane < columns ? row[first + lane] : 0.0f;
    }
  }
}

template <class T>
__device__ inline void store_part(const typename T::Part& part, float* row, int columns,
                                  bool by_four) {
  GPUNODE_UNROLL
  for (int group = 0; group < T::kGroups; ++group) {
    const int first = T::column(group);
    if (by_four && first < columns) {
      store(row + first,
            Lanes<4>{part.at[group][0], part.at[group][1], part.at[group][2], part.at[group][3]});
    } else {
      GPUNODE_UNROLL
      for (int lane = 0; lane < 4; ++lane)
        if (first + lane < columns) row[first + lane] = part.at[group][lane];
    }
  }
}

// The sum over a team, known to all of it. `slots` are the block's where the team is a block, and not
// those of the sum before: one barrier is enough then.
template <class T>
__device__ inline float team_sum(float value, float* slots) {
  for (int other = kWarpLanes / 2; other > 0; other /= 2)
    value += __shfl_xor_sync(0xffffffff, value, other);
  if constexpr (T::kTeams == 1) {
    if (threadIdx.x % kWarpLanes == 0) slots[threadIdx.x / kWarpLanes] = value;
    __syncthreads();
    value = 0;
    for (int warp = 0; warp < T::kWarps; ++warp) value += slots[warp];
  }
  return value;
}

template <class T>
__global__ void __launch_bounds__(T::kThreads) norm_rows(NormLaunch pass) {
  __shared__ float slots[2][T::kWarps];
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * T::kTeams + T::number();
  if (row >= pass.rows) return;  // a team leaves whole
  const std::int64_t begin = row * pass.columns;
  const bool by_four = pass.columns % 4 == 0 && allow_four(pass.x, pass.residual, pass.sum, pass.y);
  const float inverse = 1.0f / static_cast<float>(pass.columns);
  typename T::Part x;
  load_part<T>(x, pass.x + begin, pass.columns, by_four);
  if (pass.residual) {
    typename T::Part residual;
    load_part<T>(residual, pass.residual + begin, pass.columns, by_four);
    GPUNODE_UNROLL
    for (int group = 0; group < T::kGroups; ++group) GPUNODE_UNROLL
    for (int lane = 0; lane < 4; ++lane) x.at[group][lane] += residual.at[group][lane];
    store_part<T>(x, pass.sum + begin, pass.columns, by_four);
  }
  float mean = 0;
  if (pass.mean) {
    for_part<T>(x, pass.columns, [&](float value, int) { mean += value; });
    mean = team_sum<T>(mean, slots[0]) * inverse;
  }
  float squares = 0;
  for_part<T>(x, pass.columns,
              [&](float value, int) { squares = fmaf(value - mean, value - mean, squares); });
  const float rstd = 1.0f / sqrtf(team_sum<T>(squares, slots[1]) * inverse + pass.epsilon);
  for_part<T>(x, pass.columns, [&](float& value, int column) {
    value = fmaf((value - mean) * rstd, pass.weight[column], pass.bias ? pass.bias[column] : 0.0f);
  });
  store_part<T>(x, pass.y + begin, pass.columns, by_four);
  if (threadIdx.x % (T::kThreads / T::kTeams) != 0) return;
  if (pass.mean) pass.mean[row] = mean;
  pass.rstd[row] = rstd;
}

// The rows of a team, and how many blocks there are of such teams: of the number of rows alone.
template <class T>
std::int64_t rows_of_team(std::int64_t rows) {
  const std::int64_t most = std::int64_t{kNormParts} * T::kTeams;
  return (rows + most - 1) / most;
}
template <class T>
std::int64_t backward_blocks(std::int64_t rows) {
  const std::int64_t of_block = rows_of_team<T>(rows) * T::kTeams;
  return (rows + of_block - 1) / of_block;
}

struct NormBackwardPass {
  NormBackwardLaunch of;
  std::int64_t blocks, rows_of_team;
};

// Of a row that lies in x already: dx, and the thread's parts of dweight and dbias.
template <class T>
__device__ inline void norm_backward_row(const NormBackwardLaunch& pass, std::int64_t row,
                                         float* slots, typename T::Part& dweight,
                                         typename T::Part& dbias) {
  const std::int64_t begin = row * pass.columns;
  const bool by_four = pass.columns % 4 == 0 && allow_four(pass.dy, pass.x, pass.dx);
  const float inverse = 1.0f / static_cast<float>(pass.columns);
  const float mean = pass.mean ? pass.mean[row] : 0.0f, rstd = pass.rstd[row];
  typename T::Part dy, x, dx;
  load_part<T>(dy, pass.dy + begin, pass.columns, by_four);
  load_part<T>(x, pass.x + begin, pass.columns, by_four);
  load_part<T>(dx, pass.dx + begin, pass.columns, by_four);
  float slopes = 0, products = 0;
  GPUNODE_UNROLL
  for (int group = 0; group < T::kGroups; ++group) GPUNODE_UNROLL
  for (int lane = 0; lane < 4; ++lane) {
    const int column = T::column(group) + lane;
    if (column >= pass.columns) continue;
    const float gradient = dy.at[group][lane];
    const float normal = (x.at[group][lane] - mean) * rstd;
    const float slope = gradient * pass.weight[column];
    slopes += slope;
    products = fmaf(slope, normal, products);
    dweight.at[group][lane] = fmaf(gradient, normal, dweight.at[group][lane]);
    dbias.at[group][lane] += gradient;
    x.at[group][lane] = normal;
    dy.at[group][lane] = slope;
  }
  const float mean_slope = pass.mean ? team_sum<T>(slopes, slots) * inverse : 0.0f;
  const float mean_product = team_sum<T>(products, slots + T::kWarps) * inverse;
  GPUNODE_UNROLL
  for (int group = 0; group < T::kGroups; ++group) GPUNODE_UNROLL
  for (int lane = 0; lane < 4; ++lane)
    dx.at[group][lane] +=
        (dy.at[group][lane] - mean_slope - x.at[group][lane] * mean_product) * rstd;
  store_part<T>(dx, pass.dx + begin, pass.columns, by_four);
}

template <class T>
__global__ void __launch_bounds__(T::kThreads) norm_backward_rows(NormBackwardPass pass) {
  // Where a team is a block, sums of rows take turns in which slots they use.
  __shared__ float slots[2][2 * T::kWarps];
  __shared__ float together[T::kTeams == 1 ? 1 : 2 * T::kColumns];
  const NormBackwardLaunch& of = pass.of;
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * T::kTeams + T::number()) * pass.rows_of_team;
  const std::int64_t end =
      first + pass.rows_of_team < of.rows ? first + pass.rows_of_team : of.rows;
  typename T::Part dweight = {}, dbias = {};
  for (std::int64_t row = first; row < end; ++row)
    norm_backward_row<T>(of, row, slots[(row - first) % 2], dweight, dbias);
  const int width = of.dbias ? 2 * of.columns : of.columns;
  float* parts = of.parts + static_cast<std::int64_t>(blockIdx.x) * width;
  if constexpr (T::kTeams == 1) {
    for_part<T>(dweight, of.columns, [&](float value, int column) { parts[column] = value; });
    if (of.dbias)
      for_part<T>(dbias, of.columns,
                  [&](float value, int column) { parts[of.columns + column] = value; });
  } else {
    for (int team = 0; team < T::kTeams; ++team) {
      if (T::number() == team) {
        const auto add = [&](typename T::Part& part, float* sums) {
          for_part<T>(part, of.columns, [&](float value, int column) {
            sums[column] = team == 0 ? value : sums[column] + value;
          });
        };
        add(dweight, together);
        if (of.dbias) add(dbias, together + of.columns);
      }
      __syncthreads();
    }
    for (int at = static_cast<int>(threadIdx.x); at < width; at += T::kThreads)
      parts[at] = together[at];
  }
}

__global__ void add_norm_parts(NormBackwardPass pass) {
  __shared__ RowTile<1> tile;
  const NormBackwardLaunch& of = pass.of;
  const int width = of.dbias ? 2 * of.columns : of.columns;
  sum_in_row_order(
      tile, pass.blocks, width,
      [&](std::int64_t block, std::int64_t column) {
        return Lanes<1>{of.parts[block * width + column]};
      },
      [](Lanes<1>& total, const Lanes<1>& value) { total.at[0] += value.at[0]; },
      [&](std::int64_t column, const Lanes<1>& total) {
        if (column < of.columns)
          of.dweight[column] = total.at[0];
        else
          of.dbias[column - of.columns] = total.at[0];
      });
}

// Calls start.operator()<Team>() for the smallest team that holds such a row.
template <class Start>
cudaError_t with_team(int columns, Start start) {
  if (columns <= 256) return start.template operator()<Team<32, 2>>();
  if (columns <= 512) return start.template operator()<Team<32, 4>>();
  if (columns <= 768) return start.template operator()<Team<32, 6>>();
  if (columns <= 1024) return start.template operator()<Team<32, 8>>();
  if (columns <= 2048) return start.template operator()<Team<256, 2>>();
  if (columns <= 4096) return start.template operator()<Team<256, 4>>();
  if (columns <= 8192) return start.template operator()<Team<256, 8>>();
  return start.template operator()<Team<1024, 4>>();
}

}  // namespace

cudaError_t launch(const NormLaunch& work, cudaStream_t stream) {
  return with_team(work.columns, [&]<class T>() {
    GPUNODE_LAUNCH(norm_rows<T>, (work.rows + T::kTeams - 1) / T::kTeams, T::kThreads, stream,
                   work);
    return cudaGetLastError();
  });
}

cudaError_t launch(const NormBackwardLaunch& work, cudaStream_t stream) {
  return with_team(work.columns, [&]<class T>() {
    const NormBackwardPass pass{work, backward_blocks<T>(work.rows), rows_of_team<T>(work.rows)};
    GPUNODE_LAUNCH(norm_backward_rows<T>, pass.blocks, T::kThreads, stream, pass);
    const int width = work.dbias ? 2 * work.columns : work.columns;
    GPUNODE_LAUNCH(add_norm_parts, row_order_blocks(width), kRowOrderThreads, stream, pass);
    return cudaGetLastError();
  });
}

}  // namespace gpunode::cuda
