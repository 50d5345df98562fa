// As kernel_work.hpp, of the operations that models of images have.
#pragma once

#include "kernels/cuda/toolkit/kernel_work.hpp"

namespace gpunode::cuda {

inline BatchnormStatisticsLaunch batchnorm_statistics_work(
    const ops::BatchnormStatisticsArgs& args) {
  const auto samples = static_cast<float>(args.samples);
  const float unbiased = static_cast<float>(args.rows) /
                         static_cast<float>(std::max<std::int64_t>(args.rows - 1, 1)) * samples;
  return {args.mean.data,
          args.rstd.data,
          args.mean_sum.data,
          args.variance_sum.data,
          args.mean.element_count(),
          args.epsilon,
          samples,
          unbiased};
}
inline Conv2dShape conv2d_shape(const tensor::Shape& x, const tensor::Shape& weight,
                                const tensor::Shape& y, const auto& args) {
  return {as_int(x[0]),
          as_int(x[1]),
          as_int(x[2]),
          as_int(x[3]),
          as_int(y[1]),
          as_int(y[2]),
          as_int(y[3]),
          as_int(weight[2]),
          as_int(args.stride),
          as_int(args.padding),
          as_int(weight[1] * weight[2] * weight[3]),
          as_int(y[0] * y[1] * y[2])};
}
inline Conv2dLaunch conv2d_work(const ops::Conv2dArgs& args) {
  return {conv2d_shape(args.x.shape, args.weight.shape, args.y.shape, args), args.x.data,
          args.weight.data, args.y.data};
}
inline Result<Conv2dBackwardLaunch> conv2d_backward_work(const ops::Conv2dBackwardArgs& args,
                                                         tensor::Workspace& workspace) {
  const Conv2dShape shape = conv2d_shape(args.x.shape, args.weight.shape, args.dy.shape, args);
  const auto parts = as_int(ops::conv2d_parts(shape.pixels, shape.out_channels, shape.patch));
  float* sums = nullptr;
  if (parts > 1)
    sums = workspace.take<float>(static_cast<std::size_t>(parts) *
                                 static_cast<std::size_t>(args.dweight.element_count()));
  if (parts > 1 && !sums)
    return {ErrorCode::out_of_memory, "conv2d_backward: the workspace is too small"};
  return Conv2dBackwardLaunch{shape,        args.dy.data,      args.x.data, args.weight.data,
                              args.dx.data, args.dweight.data, sums,        parts};
}
// Scratch memory of the sums of spans; null where there is one. Fails with: out_of_memory.
inline Result<float*> batchnorm_parts(std::int64_t rows, std::int64_t columns,
                                      tensor::Workspace& workspace) {
  const std::int64_t spans = ops::batchnorm_spans(rows);
  float* parts =
      spans > 1 ? workspace.take<float>(static_cast<std::size_t>(spans * 2 * columns)) : nullptr;
  if (spans > 1 && !parts)
    return Error{ErrorCode::out_of_memory, "batchnorm: the workspace is too small"};
  return parts;
}
inline Result<BatchnormLaunch> batchnorm_work(const ops::BatchnormArgs& args,
                                              tensor::Workspace& workspace) {
  const std::int64_t columns = args.weight.element_count(), rows = rows_of(args.x, args.weight);
  const auto parts = batchnorm_parts(args.running_mean ? 0 : rows, columns, workspace);
  if (!parts) return parts.error();
  return BatchnormLaunch{args.x.data,
                         args.weight.data,
                         args.bias.data,
                         args.running_mean.data,
                         args.running_variance.data,
                         args.y.data,
                         args.mean.data,
                         args.rstd.data,
                         *parts,
                         rows,
                         ops::kBatchnormSpan,
                         as_int(columns),
                         args.epsilon};
}
inline Result<BatchnormBackwardLaunch> batchnorm_backward_work(
    const ops::BatchnormBackwardArgs& args, tensor::Workspace& workspace) {
  const std::int64_t columns = args.weight.element_count(), rows = rows_of(args.x, args.weight);
  const auto parts = batchnorm_parts(rows, columns, workspace);
  if (!parts) return parts.error();
  return BatchnormBackwardLaunch{
      args.dy.data,   args.x.data,  args.weight.data,    args.mean.data,
      args.rstd.data, args.dx.data, args.dweight.data,   args.dbias.data,
      *parts,         rows,         ops::kBatchnormSpan, as_int(columns)};
}
inline MaxPoolLaunch max_pool2d_work(const ops::MaxPool2dArgs& args) {
  const tensor::Shape &in = args.x.shape, &out = args.y.shape;
  return {args.x.data,    args.y.data,         args.places.data,    out.element_count(),
          as_int(in[1]),  as_int(in[2]),       as_int(in[3]),       as_int(out[1]),
          as_int(out[2]), as_int(args.window), as_int(args.stride), as_int(args.padding)};
}
inline MaxPoolBackwardLaunch max_pool2d_backward_work(const ops::MaxPool2dBackwardArgs& args) {
  const tensor::Shape &in = args.dx.shape, &out = args.dy.shape;
  return {args.dy.data,   args.places.data,    args.dx.data,        in.element_count(),
          as_int(in[1]),  as_int(in[2]),       as_int(in[3]),       as_int(out[1]),
          as_int(out[2]), as_int(args.window), as_int(args.stride), as_int(args.padding)};
}
inline MeanPoolLaunch mean_pool_work(const ops::MeanPoolArgs& args) {
  return {args.x.data, args.y.data, args.x.element_count() / args.y.element_count(),
          as_int(args.y.shape[0]), as_int(args.y.shape[1])};
}
inline MeanPoolBackwardLaunch mean_pool_backward_work(const ops::MeanPoolBackwardArgs& args) {
  return {args.dy.data, args.dx.data, args.dx.element_count() / args.dy.element_count(),
          as_int(args.dy.shape[0]), as_int(args.dy.shape[1])};
}

}  // namespace gpunode::cuda
