// Pools over height and width with the CPU's bits. Forward, one thread four channels of a window, or
// rows of an image in their order; backward, one thread four channels of a pixel, which adds up the
// windows that chose it, in order. Bound by memory.
#include "kernels/cuda/toolkit/elements.cuh"
#include "kernels/cuda/toolkit/row_order.cuh"

namespace gpunode::cuda {
namespace {

// The part of a window in one direction that lies inside `extent` pixels.
struct Span {
  int first, last;
};
__device__ Span covered(int at, int extent, const MaxPoolLaunch& pass) {
  const int first = at * pass.stride - pass.padding, last = first + pass.window;
  return {first > 0 ? first : 0, last < extent ? last : extent};
}

__global__ void choose_largest(MaxPoolLaunch pass) {
  const int channels = pass.channels;
  const bool by_four = channels % 4 == 0 && allow_four(pass.x, pass.y, pass.places);
  for_elements(pass.count, by_four, [&]<int kCount>(std::int64_t at) {
    const std::int64_t window = at / channels, line = window / pass.out_width;
    const Span across = covered(static_cast<int>(window % pass.out_width), pass.width, pass);
    const Span down = covered(static_cast<int>(line % pass.out_height), pass.height, pass);
    const float* image =
        pass.x + line / pass.out_height * pass.height * pass.width * channels + at % channels;
    const auto pixel_at = [&](int pixel) {
      return load<kCount>(image + std::int64_t{pixel} * channels);
    };
    const int start = down.first * pass.width + across.first;
    Lanes<kCount> best = pixel_at(start), places;
    for (float& place : places.at) place = __int_as_float(start);
    for (int i = down.first; i < down.last; ++i)
      for (int j = across.first; j < across.last; ++j) {
        const int pixel = i * pass.width + j;
        const Lanes<kCount> value = pixel_at(pixel);
        for (int lane = 0; lane < kCount; ++lane)
          if (value.at[lane] - best.at[lane] > 0.0f) {
            best.at[lane] = value.at[lane];
            places.at[lane] = __int_as_float(pixel);
          }
      }
    store(pass.y + at, best);
    store(reinterpret_cast<float*>(pass.places) + at, places);
  });
}

// The windows in one direction in which a pixel lies.
__device__ Span reached(int at, int windows, const MaxPoolBackwardLaunch& pass) {
  const int end = at + pass.padding, first = end - pass.window;
  const int last = end / pass.stride + 1;
  return {first < 0 ? 0 : first / pass.stride + 1, last < windows ? last : windows};
}

__global__ void sum_chosen(MaxPoolBackwardLaunch pass) {
  const int channels = pass.channels;
  const bool by_four = channels % 4 == 0 && allow_four(pass.dy, pass.places, pass.dx);
  for_elements(pass.count, by_four, [&]<int kCount>(std::int64_t at) {
    const std::int64_t pixel = at / channels, line = pixel / pass.width;
    const int i = static_cast<int>(line % pass.height), j = static_cast<int>(pixel % pass.width);
    const Span down = reached(i, pass.out_height, pass);
    const Span across = reached(j, pass.out_width, pass);
    const std::int64_t image = line / pass.height * pass.out_height;
    Lanes<kCount> sum = {};
    for (int up = down.first; up < down.last; ++up)
      for (int left = across.first; left < across.last; ++left) {
        const std::int64_t window =
            ((image + up) * pass.out_width + left) * channels + at % channels;
        const Lanes<kCount> slope = load<kCount>(pass.dy + window);
        const Lanes<kCount> place =
            load<kCount>(reinterpret_cast<const float*>(pass.places) + window);
        for (int lane = 0; lane < kCount; ++lane)
          if (__float_as_int(place.at[lane]) == i * pass.width + j) sum.at[lane] += slope.at[lane];
      }
    store(pass.dx + at, sum);
  });
}

// Columns of all samples side by side, as if they were one wide matrix.
__global__ void average_rows(MeanPoolLaunch pass) {
  __shared__ RowTile<1> tile;
  const float share = 1.0f / static_cast<float>(pass.rows);
  sum_in_row_order(
      tile, pass.rows, static_cast<std::int64_t>(pass.samples) * pass.columns,
      [&](std::int64_t row, std::int64_t column) {
        const std::int64_t sample = column / pass.columns;
        return Lanes<1>{pass.x[(sample * pass.rows + row) * pass.columns + column % pass.columns]};
      },
      [](Lanes<1>& total, const Lanes<1>& value) { total.at[0] += value.at[0]; },
      [&](std::int64_t column, const Lanes<1>& total) { pass.y[column] = total.at[0] * share; });
}

__global__ void spread_rows(MeanPoolBackwardLaunch pass) {
  const float share = 1.0f / static_cast<float>(pass.rows);
  const std::int64_t image = pass.rows * pass.columns;
  const bool by_four = pass.columns % 4 == 0 && allow_four(pass.dy, pass.dx);
  for_elements(pass.samples * image, by_four, [&]<int kCount>(std::int64_t i) {
    Lanes<kCount> slope = load<kCount>(pass.dy + i / image * pass.columns + i % pass.columns);
    for (float& value : slope.at) value *= share;
    store(pass.dx + i, slope);
  });
}

}  // namespace

cudaError_t launch(const MaxPoolLaunch& work, cudaStream_t stream) {
  GPUNODE_LAUNCH(choose_largest, element_blocks(work.count), kElementThreads, stream, work);
  return cudaGetLastError();
}

cudaError_t launch(const MaxPoolBackwardLaunch& work, cudaStream_t stream) {
  GPUNODE_LAUNCH(sum_chosen, element_blocks(work.count), kElementThreads, stream, work);
  return cudaGetLastError();
}

cudaError_t launch(const MeanPoolLaunch& work, cudaStream_t stream) {
  const std::int64_t columns = static_cast<std::int64_t>(work.samples) * work.columns;
  GPUNODE_LAUNCH(average_rows, row_order_blocks(columns), kRowOrderThreads, stream, work);
  return cudaGetLastError();
}

cudaError_t launch(const MeanPoolBackwardLaunch& work, cudaStream_t stream) {
  const std::int64_t count = work.samples * work.rows * work.columns;
  GPUNODE_LAUNCH(spread_rows, element_blocks(count), kElementThreads, stream, work);
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
