// Running statistics: what a slice has measured, in a form that sums over slices and members, and
// how values of the state follow the mean of such a sum. Elementwise, and the same bits on every
// device.
// Source: Ioffe, Szegedy, "Batch Normalization", 2015 (algorithm 2: the variance is the unbiased
// one).
#pragma once

#include "kernels/ops/block_table.hpp"
#include "kernels/ops/operation.hpp"

namespace gpunode::ops {

//   mean_sum = samples * mean
//   variance_sum = samples * max(1 / rstd^2 - epsilon, 0) * rows / max(rows - 1, 1)
struct BatchnormStatisticsArgs {
  tensor::ConstTensor mean, rstd;         // (C), (C): of one slice
  tensor::Tensor mean_sum, variance_sum;  // (C), (C): overwritten
  float epsilon = 0;                      // the one in rstd
  std::int64_t samples = 1;               // of the slice
  std::int64_t rows = 1;                  // of which mean and rstd were taken, e.g. B*H*W
};

//   values = values + share * (sum * scale - values)
struct FollowArgs {
  tensor::ConstTensor sum;  // (n)
  tensor::Tensor values;    // (n), updated
  float scale = 1;          // 1 / what the sum is over
  float share = 0;          // 0 .. 1
  // The rows that are buffers, each with its own share; none: all elements, with `share`.
  BlockTable blocks = {};
};

}  // namespace gpunode::ops
