// Pools over height and width with the CPU's bits. Forward, one thread four channels of a window, or
// rows of an image in their order; bound by memory. The largest value's backward has one thread a
// channel of an image, which clears its pixels and walks over its windows in order: no atomics, and
// as many threads as there are images times channels, which is its bound.
#include "kernels/cuda/toolkit/elements.cuh"
#include "kernels/cuda/toolkit/row_order.cuh"

namespace gpunode::cuda {
namespace {

constexpr int kAhead = 8;  // loads a thread has under way

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

__global__ void return_to_places(MaxPoolBackwardLaunch pass) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kElementThreads + threadIdx.x;
  if (column >= static_cast<std::int64_t>(pass.samples) * pass.channels) return;
  const std::int64_t sample = column / pass.channels, channel = column % pass.channels;
  float* dx = pass.dx + sample * pass.pixels * pass.channels + channel;
  const float* dy = pass.dy + sample * pass.windows * pass.channels + channel;
  const std::int32_t* places = pass.places + sample * pass.windows * pass.channels + channel;
  for (int pixel = 0; pixel < pass.pixels; ++pixel) dx[std::int64_t{pixel} * pass.channels] = 0;
  for (int first = 0; first < pass.windows; first += kAhead) {
    float slope[kAhead] = {};
    int place[kAhead];
    for (int i = 0; i < kAhead; ++i) {
      const std::int64_t at = static_cast<std::int64_t>(first + i) * pass.channels;
      const bool there = first + i < pass.windows;
      place[i] = there ? places[at] : -1;
      slope[i] = there ? dy[at] : 0.0f;
    }
    for (int i = 0; i < kAhead; ++i)
      if (place[i] >= 0 && place[i] < pass.pixels)
        dx[std::int64_t{place[i]} * pass.channels] += slope[i];
  }
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
  const std::int64_t threads = static_cast<std::int64_t>(work.samples) * work.channels;
  GPUNODE_LAUNCH(return_to_places, (threads + kElementThreads - 1) / kElementThreads,
                 kElementThreads, stream, work);
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
