// The border to nvcc: what a kernel gets, as plain pointers and numbers, and how to start it. The
// .cu files see nothing else of this project (and the plain rows of a table of blocks), which keeps nvcc quick and away from our C++20.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/ops/block_table.hpp"
#include "kernels/ops/weight_format.hpp"

// Starts `blocks` blocks of `threads` threads. The tests' emulation defines it in its own way, to
// run the same kernels where there is no GPU.
#ifndef GPUNODE_LAUNCH
#define GPUNODE_LAUNCH(kernel, blocks, threads, stream, work) \
  kernel<<<static_cast<unsigned>(blocks), threads, 0, stream>>>(work)
// The same with `shared_bytes` of dynamic shared memory a block.
#define GPUNODE_LAUNCH_SHARED(kernel, blocks, threads, shared_bytes, stream, work) \
  kernel<<<static_cast<unsigned>(blocks), threads, shared_bytes, stream>>>(work)
#endif

namespace gpunode::cuda {

// Layer norm; without a mean and a bias, RMS norm.
struct NormLaunch {
  const float *x, *residual;     // (R, C), (R, C) or null
  const float *weight, *bias;    // (C), (C) or null
  float *sum, *y, *mean, *rstd;  // (R, C) of x + residual if it is given, (R, C), (R) or null, (R)
  int rows, columns;             // columns: kNormColumns at most
  float epsilon;
};
cudaError_t launch(const NormLaunch& work, cudaStream_t stream);

struct NormBackwardLaunch {
  const float *dy, *x, *weight, *mean, *rstd;  // mean: null as above, and dbias with it
  float *dx, *dweight, *dbias;                 // added to, overwritten, overwritten
  float* parts;  // (least of R and kNormParts, 2 * C), scratch: of dweight and dbias
  int rows, columns;
};
cudaError_t launch(const NormBackwardLaunch& work, cudaStream_t stream);
inline constexpr int kNormColumns = 16384;
inline constexpr int kNormParts = 256;

// Weights as pack_weights() has them (ops/weight_format.hpp).
struct PackedRows {
  const std::byte* data = nullptr;  // null: there are none
  std::int64_t row = 0;             // bytes from one to the next
  ops::WeightFormat format = ops::WeightFormat::fp32;
};

// c (R, C) = op(a) (R, D) op(b) (D, C) [+ bias] [+ c], of float32, or of bf16 (as its bits) with sums in
// float32 on tensor cores.
template <class Element>
struct ProductLaunch {
  const Element *a, *b;  // (R, D), or (D, R) if transpose_a; (D, C), or (C, D) if transpose_b
  const float* bias;     // (C) or null
  float* c;
  int rows, columns, depth;
  bool transpose_a, transpose_b, accumulate;
  PackedRows packed_b = {};  // of floats, transpose_b: stands for b where it has rows
};
cudaError_t launch(const ProductLaunch<float>& work, cudaStream_t stream);
cudaError_t launch(const ProductLaunch<std::uint16_t>& work, cudaStream_t stream);

// Softmax attention of H heads of queries over K heads of keys and values, D deep, where K divides H.
struct AttentionExtents {
  int samples, positions, heads, key_heads, depth;  // B, T, H, K, D (at most 128)
  bool causal;                                      // no position sees a later one
  const int* lengths;  // (B), or null for T: later positions are not seen, and are 0 in results
};
// In float32, any D and pointers; or in bf16 (as its bits) on tensor cores, D a multiple of 8 and
// pointers of 16 bytes.
template <class Element>
struct AttentionLaunch {
  AttentionExtents extents;
  const Element* qkv;  // (B, T, (H + 2*K)*D): heads of queries, of keys, of values
  Element* out;        // (B, T, H*D)
  float* statistics;   // (B, H, T, 2): largest scaled score of a row, 1 / sum of its powers
};
cudaError_t launch(const AttentionLaunch<float>& work, cudaStream_t stream);
cudaError_t launch(const AttentionLaunch<std::uint16_t>& work, cudaStream_t stream);

template <class Element>
struct AttentionBackwardLaunch {
  AttentionExtents extents;
  const Element *dout, *out, *qkv;  // as in the forward pass
  const float* statistics;
  float* deltas;  // (B, H, T), scratch: the products of rows of out and dout
  Element* dqkv;  // (B, T, (H + 2*K)*D), overwritten
};
cudaError_t launch(const AttentionBackwardLaunch<float>& work, cudaStream_t stream);
cudaError_t launch(const AttentionBackwardLaunch<std::uint16_t>& work, cudaStream_t stream);

// New positions of one sample against a cache, which their keys and values are written to.
struct PagedAttentionLaunch {
  const float* qkv;                               // (R, (H + 2*K)*D)
  float *keys, *values;                           // (L, K*D)
  float* out;                                     // (R, H*D)
  const std::int32_t *positions, *texts, *pages;  // (R), (R), (S, pages_of_text)
  int rows, page, pages_of_text;
  int heads, key_heads, depth;  // H, K, D (at most 128)
};
cudaError_t launch(const PagedAttentionLaunch& work, cudaStream_t stream);

struct AdamwLaunch {
  const float* gradient;
  float *weights, *first, *second;
  std::int64_t count;
  float scale, rate, beta1, beta2, epsilon, decay, upscale1, upscale2;
  ops::BlockTable blocks;  // none: `count` elements
};
cudaError_t launch(const AdamwLaunch& work, cudaStream_t stream);

struct SquareSumLaunch {
  const float* x;
  double* sums;            // (1), or one a row
  std::int64_t count;      // of x
  ops::BlockTable blocks;  // none: all of x
};
cudaError_t launch(const SquareSumLaunch& work, cudaStream_t stream);

struct BatchnormStatisticsLaunch {
  const float *mean, *rstd;
  float *mean_sum, *variance_sum;
  std::int64_t count;
  float epsilon, samples, unbiased;  // unbiased: samples * rows / max(rows - 1, 1)
};
cudaError_t launch(const BatchnormStatisticsLaunch& work, cudaStream_t stream);

struct FollowLaunch {
  const float* sum;
  float* values;
  std::int64_t count;
  float scale, share;
  ops::BlockTable blocks;  // none: `count` elements
};
cudaError_t launch(const FollowLaunch& work, cudaStream_t stream);

struct GeluLaunch {
  const float* x;
  float* y;
  std::int64_t count;
  bool exact;  // by erf, not by tanh
};
cudaError_t launch(const GeluLaunch& work, cudaStream_t stream);

struct GeluBackwardLaunch {
  const float *dy, *x;
  float* dx;  // may be dy
  std::int64_t count;
  bool exact;
};
cudaError_t launch(const GeluBackwardLaunch& work, cudaStream_t stream);

struct ReluLaunch {
  const float* x;
  float* y;  // may be x
  std::int64_t count;
};
cudaError_t launch(const ReluLaunch& work, cudaStream_t stream);

struct ReluBackwardLaunch {
  const float *dy, *y;
  float* dx;  // may be dy
  std::int64_t count;
};
cudaError_t launch(const ReluBackwardLaunch& work, cudaStream_t stream);

struct TanhLaunch {
  const float* x;
  float* y;  // may be x
  std::int64_t count;
};
cudaError_t launch(const TanhLaunch& work, cudaStream_t stream);

struct TanhBackwardLaunch {
  const float *dy, *y;
  float* dx;  // may be dy
  std::int64_t count;
};
cudaError_t launch(const TanhBackwardLaunch& work, cudaStream_t stream);

struct SwigluLaunch {
  const float* x;  // (R, 2*F)
  float* y;        // (R, F)
  int rows, columns;
};
cudaError_t launch(const SwigluLaunch& work, cudaStream_t stream);

struct SwigluBackwardLaunch {
  const float *dy, *x;  // (R, F), (R, 2*F)
  float* dx;            // (R, 2*F), may be x
  int rows, columns;
};
cudaError_t launch(const SwigluBackwardLaunch& work, cudaStream_t stream);

struct RotaryLaunch {
  const float* angles;        // (L, half, 2)
  float* x;                   // (rows, width): the first turned_heads of 2 * half each
  const std::int32_t* given;  // (rows): where each stands; null: at its number modulo `positions`
  std::int64_t rows;
  int positions, width, turned_heads, half;
  float direction;  // 1, or -1: the other way
};
cudaError_t launch(const RotaryLaunch& work, cudaStream_t stream);

struct AddLaunch {
  const float *a, *b, *c;  // c may be null
  float* out;              // may be any of them
  std::int64_t count;
};
cudaError_t launch(const AddLaunch& work, cudaStream_t stream);

struct ColumnSumLaunch {
  const float* x;                     // (T, N)
  float* out;                         // (N)
  float* parts;                       // (blocks, N), scratch: sums of blocks of rows
  std::int64_t rows, columns, block;  // block: rows that are summed by one thread
};
cudaError_t launch(const ColumnSumLaunch& work, cudaStream_t stream);

struct EmbeddingLaunch {
  const std::int32_t *tokens, *segments;      // (B, T); segments may be null
  const float *token_table, *position_table;  // (V, C), (L, C) or null
  const float* segment_table;                 // (S, C), null where segments is
  float* x;                                   // (B, T, C)
  const std::int32_t* given;                  // (B, T): positions; null: t
  int samples, positions, channels, vocabulary, segment_count;
  PackedRows packed_table;  // stands for the token table where it has rows
};
cudaError_t launch(const EmbeddingLaunch& work, cudaStream_t stream);

struct EmbeddingBackwardLaunch {
  const std::int32_t *tokens, *segments;  // (B, T); segments may be null
  const float* dx;                        // (B, T, C)
  float *dtoken_table, *dposition_table;  // (V, C) added to, (L, C) overwritten or null
  float* dsegment_table;                  // (S, C) overwritten, null where segments is
  std::int64_t places, table_elements;    // B * T, L * C
  int positions, channels, vocabulary, segment_count;
};
cudaError_t launch(const EmbeddingBackwardLaunch& work, cudaStream_t stream);

struct CrossEntropyLaunch {
  const float* logits;          // (T, V)
  const std::int32_t* targets;  // (T)
  float *losses, *dlogits;      // (T), (T, V) that may be null or the logits
  int rows, columns;
};
cudaError_t launch(const CrossEntropyLaunch& work, cudaStream_t stream);

struct BatchnormLaunch {
  const float *x, *weight, *bias;                // (R, C), (C), (C)
  const float *running_mean, *running_variance;  // (C), used in place of x's own, or null
  float *y, *mean, *rstd;                        // (R, C) that may be x, (C), (C)
  float* parts;                                  // (spans, 2, C), scratch where there are several
  std::int64_t rows, span;                       // span: rows that a block sums
  int columns;
  float epsilon;
};
cudaError_t launch(const BatchnormLaunch& work, cudaStream_t stream);

struct BatchnormBackwardLaunch {
  const float *dy, *x, *weight, *mean, *rstd;
  float *dx, *dweight, *dbias;  // all overwritten; dx may be dy
  float* parts;                 // (spans, 2, C), scratch where there are several
  std::int64_t rows, span;      // span: rows that a block sums
  int columns;
};
cudaError_t launch(const BatchnormBackwardLaunch& work, cudaStream_t stream);

// Channels last; weights (O, KH, KW, C).
struct Conv2dShape {
  int samples, height, width, channels;     // of x
  int out_height, out_width, out_channels;  // of y
  int kernel_width, stride, padding;
  int patch, pixels;  // KH*KW*C; of y in all
};
struct Conv2dLaunch {
  Conv2dShape shape;
  const float *x, *weight;
  float* y;
};
cudaError_t launch(const Conv2dLaunch& work, cudaStream_t stream);

struct Conv2dBackwardLaunch {
  Conv2dShape shape;
  const float *dy, *x, *weight;
  float *dx, *dweight;  // dx may be null
  float* sums;          // (parts, O, KH, KW, C) where there are several
  int parts;            // of the pixels
};
cudaError_t launch(const Conv2dBackwardLaunch& work, cudaStream_t stream);

struct MaxPoolLaunch {
  const float* x;        // (B, H, W, C)
  float* y;              // (B, OH, OW, C)
  std::int32_t* places;  // (B, OH, OW, C)
  std::int64_t count;    // of y
  int height, width, channels, out_height, out_width, window, stride, padding;
};
cudaError_t launch(const MaxPoolLaunch& work, cudaStream_t stream);

struct MaxPoolBackwardLaunch {
  const float* dy;             // (B, OH, OW, C)
  const std::int32_t* places;  // (B, OH, OW, C)
  float* dx;                   // (B, H, W, C)
  std::int64_t count;          // of dx
  int height, width, channels, out_height, out_width;
  int window, stride, padding;
};
cudaError_t launch(const MaxPoolBackwardLaunch& work, cudaStream_t stream);

struct MeanPoolLaunch {
  const float* x;  // (B, R, C)
  float* y;        // (B, C)
  std::int64_t rows;
  int samples, columns;
};
cudaError_t launch(const MeanPoolLaunch& work, cudaStream_t stream);

struct MeanPoolBackwardLaunch {
  const float* dy;  // (B, C)
  float* dx;        // (B, R, C), overwritten
  std::int64_t rows;
  int samples, columns;
};
cudaError_t launch(const MeanPoolBackwardLaunch& work, cudaStream_t stream);

struct PackBf16Launch {
  const float* in;
  unsigned char* out;
  std::int64_t count;
};
cudaError_t launch(const PackBf16Launch& work, cudaStream_t stream);

struct UnpackBf16Launch {
  const unsigned char* in;
  float* out;
  std::int64_t count;
};
cudaError_t launch(const UnpackBf16Launch& work, cudaStream_t stream);

struct PackInt8Launch {
  const float *in, *carried;  // carried may be null
  float *lost, *arrives;      // may be null each
  unsigned char* out;
  std::int64_t count;
};
cudaError_t launch(const PackInt8Launch& work, cudaStream_t stream);

struct UnpackInt8Launch {
  const unsigned char* in;
  float* out;
  std::int64_t count;
};
cudaError_t launch(const UnpackInt8Launch& work, cudaStream_t stream);

struct BlockDigestLaunch {
  const unsigned char* in;
  std::uint64_t* out;  // (blocks, 2): high, low
  std::int64_t bytes, block_bytes, blocks;
};
cudaError_t launch(const BlockDigestLaunch& work, cudaStream_t stream);

}  // namespace gpunode::cuda
