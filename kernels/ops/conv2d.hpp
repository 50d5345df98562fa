// Convolution over height and width, channels last, without bias:
//   y[b, i, j, o] = sum over u, v, c of x[b, i*stride + u - padding, j*stride + v - padding, c]
//                   * weight[o, u, v, c],   x being 0 outside
// Made of matrix products over blocks of pixels whose patches are laid out side by side; blocks
// follow from shapes alone, so that no number of threads shows in the bits.
// Source: Chellapilla, Puri, Simard, "High Performance Convolutional Neural Networks for Document
// Processing", 2006 (patches as rows of a matrix).
#pragma once

#include <algorithm>

#include "kernels/ops/operation.hpp"

namespace gpunode::ops {

// OH = (H + 2*padding - KH) / stride + 1, OW alike.
struct WindowExtent {
  std::int64_t input = 0, window = 0, stride = 1, padding = 0;
  constexpr std::int64_t output() const { return (input + 2 * padding - window) / stride + 1; }
};

// Fails with: out_of_memory (workspace too small), internal.
struct Conv2dArgs {
  tensor::ConstTensor x;       // (B, H, W, C)
  tensor::ConstTensor weight;  // (O, KH, KW, C)
  tensor::Tensor y;            // (B, OH, OW, O)
  std::int64_t stride = 1, padding = 0;
};

// Fails with: as forward.
struct Conv2dBackwardArgs {
  tensor::ConstTensor dy;      // (B, OH, OW, O)
  tensor::ConstTensor x;       // (B, H, W, C)
  tensor::ConstTensor weight;  // (O, KH, KW, C)
  tensor::Tensor dx;           // (B, H, W, C): overwritten; not computed if null
  tensor::Tensor dweight;      // (O, KH, KW, C): overwritten; blocks of pixels are added in order
  std::int64_t stride = 1, padding = 0;
};

// Pixels whose patches, of KH*KW*C elements each, are laid out at once: about 256 KiB of them, but
// enough that reading the weights anew for each block costs little.
constexpr std::int64_t conv2d_block(std::int64_t patch) {
  constexpr std::int64_t kElements = 64 << 10;
  return std::clamp<std::int64_t>(kElements / patch / 16 * 16, 256, 4096);
}

// A GPU sums the weights' gradient by so many parts of the pixels: with the tiles of its elements they
// are to be two blocks for each multiprocessor, and a part not be too short.
constexpr std::int64_t conv2d_parts(std::int64_t pixels, std::int64_t out_channels,
                                    std::int64_t patch) {
  constexpr std::int64_t kTile = 64, kBlocks = 264, kLeastPixels = 256, kMost = 64;
  const std::int64_t tiles = (out_channels + kTile - 1) / kTile * ((patch + kTile - 1) / kTile);
  return std::clamp<std::int64_t>(std::min(kBlocks / tiles, pixels / kLeastPixels), 1, kMost);
}

// Scratch of each of the two, for patches of KH*KW*C elements, O output channels and all pixels of y.
constexpr std::size_t conv2d_workspace_bytes(std::int64_t patch, std::int64_t out_channels,
                                             std::int64_t pixels) {
  const std::int64_t elements =
      std::max(conv2d_block(patch), conv2d_parts(pixels, out_channels, patch) * out_channels) *
      patch;
  return static_cast<std::size_t>(elements) * sizeof(float) + 64;
}

}  // namespace gpunode::ops
