// Convolution, its gradient for the images and that for the weights, each as one product in float32
// whose patches are never laid out: what a patch's element is, is worked out where it is read. The
// weights' gradient sums over all pixels: parts of them go to blocks of their own, and are added in
// order.
#include "kernels/cuda/toolkit/tiled_product.cuh"

namespace gpunode::cuda {
namespace {

using tiled::Columns, tiled::Entries, tiled::kThreads, tiled::Matrix, tiled::multiply, tiled::tiles;

// Where a pixel's window begins in its image.
struct Corner {
  const float* image;
  int top, left;
};

__device__ inline Corner corner_of(const Conv2dShape& s, const float* images, int pixel) {
  const int across = pixel % s.out_width, line = pixel / s.out_width;
  const int down = line % s.out_height, sample = line / s.out_height;
  return {images + std::int64_t{sample} * s.height * s.width * s.channels,
          down * s.stride - s.padding, across * s.stride - s.padding};
}

// An element of a patch, as its place from the corner.
struct Reach {
  int down, across, channel;
};

__device__ inline Reach reach_of(const Conv2dShape& s, int element) {
  const int place = element / s.channels;
  return {place / s.kernel_width, place % s.kernel_width, element % s.channels};
}

__device__ inline float patch_at(const Conv2dShape& s, const Corner& corner, const Reach& reach) {
  const int i = corner.top + reach.down, j = corner.left + reach.across;
  if (i < 0 || i >= s.height || j < 0 || j >= s.width) return 0.0f;
  return corner.image[(std::int64_t{i} * s.width + j) * s.channels + reach.channel];
}

struct Patches {  // of the pixels' windows
  static constexpr bool kDeepFirst = true;
  using Line = Corner;
  using Deep = Reach;
  Conv2dShape s;
  const float* x;
  __device__ int lines() const { return s.pixels; }
  __device__ Line line(int pixel) const { return corner_of(s, x, pixel); }
  __device__ Deep deep(int element) const { return reach_of(s, element); }
  __device__ float at(const Line& line, const Deep& deep) const { return patch_at(s, line, deep); }
};

struct PatchColumns {  // the same, summed over pixels
  static constexpr bool kDeepFirst = false;
  using Line = Reach;
  using Deep = Corner;
  Conv2dShape s;
  const float* x;
  __device__ int lines() const { return s.patch; }
  __device__ Line line(int element) const { return reach_of(s, element); }
  __device__ Deep deep(int pixel) const { return corner_of(s, x, pixel); }
  __device__ float at(const Line& line, const Deep& deep) const { return patch_at(s, deep, line); }
};

struct Windows {  // of every pixel of x, the outputs that it went into
  static constexpr bool kDeepFirst = true;
  struct Line {
    const float* image;  // of dy
    int i, j;            // plus padding
  };
  using Deep = Reach;  // the channel is one of dy
  Conv2dShape s;
  const float* dy;
  __device__ int lines() const { return s.samples * s.height * s.width; }
  __device__ Line line(int pixel) const {
    const int across = pixel % s.width, row = pixel / s.width;
    const int sample = row / s.height;
    return {dy + std::int64_t{sample} * s.out_height * s.out_width * s.out_channels,
            row % s.height + s.padding, across + s.padding};
  }
  __device__ Deep deep(int element) const {
    const int place = element / s.out_channels;
    return {place / s.kernel_width, place % s.kernel_width, element % s.out_channels};
  }
  __device__ float at(const Line& line, const Deep& deep) const {
    const int down = line.i - deep.down, across = line.j - deep.across;
    if (down < 0 || across < 0) return 0.0f;
    int i = down, j = across;
    if (s.stride != 1) {  // most have it, and a division takes long
      i = down / s.stride, j = across / s.stride;
      if (i * s.stride != down || j * s.stride != across) return 0.0f;
    }
    if (i >= s.out_height || j >= s.out_width) return 0.0f;
    return line.image[(std::int64_t{i} * s.out_width + j) * s.out_channels + deep.channel];
  }
};

struct TurnedWeights {  // (O, KH, KW, C) as columns C, summed over KH, KW, O
  static constexpr bool kDeepFirst = false;
  using Line = int;
  using Deep = const float*;
  Conv2dShape s;
  const float* weight;
  __device__ int lines() const { return s.channels; }
  __device__ Line line(int channel) const { return channel; }
  __device__ Deep deep(int element) const {
    const std::int64_t place = element / s.out_channels, out = element % s.out_channels;
    return weight + out * s.patch + place * s.channels;
  }
  __device__ float at(Line line, Deep deep) const { return deep[line]; }
};

__global__ void convolve(Conv2dLaunch pass) {
  multiply(
      Patches{pass.shape, pass.x}, Matrix{pass.weight, pass.shape.out_channels, pass.shape.patch},
      static_cast<int>(blockIdx.x), 0, pass.shape.patch, Entries{pass.y, pass.shape.out_channels});
}

__global__ void return_to_images(Conv2dBackwardLaunch pass) {
  const Conv2dShape& s = pass.shape;
  multiply(Windows{s, pass.dy}, TurnedWeights{s, pass.weight}, static_cast<int>(blockIdx.x), 0,
           s.patch / s.channels * s.out_channels, Entries{pass.dx, s.channels});
}

// A block has one part of the pixels.
__global__ void gather_weights(Conv2dBackwardLaunch pass) {
  const Conv2dShape& s = pass.shape;
  const int part = static_cast<int>(blockIdx.x) % pass.parts;
  const int tile = static_cast<int>(blockIdx.x) / pass.parts;
  const int each = (s.pixels + pass.parts - 1) / pass.parts;
  const int first = part * each, end = first + each < s.pixels ? first + each : s.pixels;
  float* out =
      pass.parts == 1 ? pass.dweight : pass.sums + std::int64_t{part} * s.out_channels * s.patch;
  multiply(Columns{pass.dy, s.out_channels}, PatchColumns{s, pass.x}, tile, first, end,
           Entries{out, s.patch});
}

__global__ void add_parts(Conv2dBackwardLaunch pass) {
  const std::int64_t count = std::int64_t{pass.shape.out_channels} * pass.shape.patch;
  for_elements(count, false, [&]<int kCount>(std::int64_t i) {
    float sum = pass.sums[i];
    for (int part = 1; part < pass.parts; ++part) sum += pass.sums[part * count + i];
    pass.dweight[i] = sum;
  });
}

}  // namespace

cudaError_t launch(const Conv2dLaunch& work, cudaStream_t stream) {
  const Conv2dShape& s = work.shape;
  if (s.pixels == 0) return cudaSuccess;
  GPUNODE_LAUNCH(convolve, tiles(s.pixels, s.out_channels), kThreads, stream, work);
  return cudaGetLastError();
}

cudaError_t launch(const Conv2dBackwardLaunch& work, cudaStream_t stream) {
  const Conv2dShape& s = work.shape;
  if (work.dx && s.samples > 0)
    GPUNODE_LAUNCH(return_to_images,
                   tiles(std::int64_t{s.samples} * s.height * s.width, s.channels), kThreads,
                   stream, work);
  GPUNODE_LAUNCH(gather_weights, work.parts * tiles(s.out_channels, s.patch), kThreads, stream,
                 work);
  if (work.parts > 1)
    GPUNODE_LAUNCH(add_parts, element_blocks(std::int64_t{s.out_channels} * s.patch),
                   kElementThreads, stream, work);
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
