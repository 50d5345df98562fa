#include "kernels/ops/pool.hpp"

#include <algorithm>
#include <cstddef>

#include "kernels/cpu/operations.hpp"
#include "kernels/ops/conv2d.hpp"

namespace gpunode::cpu {

// The part of a window that lies inside an image (H, W, C).
struct PoolWindow {
  std::size_t top, bottom, left, right;  // rows and columns, without bottom and right
  std::size_t width, channels;           // of the image
};

}  // namespace gpunode::cpu

#define GPUNODE_ISA_BODY "kernels/cpu/detail/pool_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {
namespace {

struct Span {
  std::size_t first, last;
};

// What a window that is the `at`th in one direction covers of `extent` pixels.
Span covered(std::int64_t at, std::int64_t extent, const ops::MaxPool2dArgs& args) {
  const std::int64_t first = at * args.stride - args.padding;
  return {static_cast<std::size_t>(std::max<std::int64_t>(0, first)),
          static_cast<std::size_t>(std::min(extent, first + args.window))};
}

struct Rows {
  std::int64_t samples, rows, columns;
};

Rows rows_of(const tensor::Shape& wide, const tensor::Shape& narrow) {
  GPUNODE_CHECK(narrow.rank() == 2 && wide[0] == narrow[0] && narrow.element_count() > 0 &&
                    wide.element_count() % narrow.element_count() == 0,
                "mean_pool: " + wide.text() + " does not fit " + narrow.text());
  return {narrow[0], wide.element_count() / narrow.element_count(), narrow[1]};
}

}  // namespace

Result<void> max_pool2d(tensor::Stream&, tensor::Workspace&, const ops::MaxPool2dArgs& args) {
  const tensor::Shape &in = args.x.shape, &out = args.y.shape;
  const auto extent = [&](int at) {
    return ops::WindowExtent{in[at], args.window, args.stride, args.padding}.output();
  };
  GPUNODE_CHECK(in.rank() == 4 && out.rank() == 4 && args.padding < args.window &&
                    in[1] * in[2] < 1 << 24 && args.places.element_count() == out.element_count() &&
                    out == (tensor::Shape{in[0], extent(1), extent(2), in[3]}),
                "max_pool2d: " + in.text() + " -> " + out.text());
  const auto pool = GPUNODE_PICK(max_pool);
  float* y = args.y.data;
  std::int32_t* places = args.places.data;
  for (std::int64_t b = 0; b < out[0]; ++b) {
    const float* image = args.x.data + b * in[1] * in[2] * in[3];
    for (std::int64_t i = 0; i < out[1]; ++i) {
      const Span down = covered(i, in[1], args);
      for (std::int64_t j = 0; j < out[2]; ++j, y += in[3], places += in[3]) {
        const Span across = covered(j, in[2], args);
        pool({.top = down.first,
              .bottom = down.last,
              .left = across.first,
              .right = across.last,
              .width = static_cast<std::size_t>(in[2]),
              .channels = static_cast<std::size_t>(in[3])},
             image, y, places);
      }
    }
  }
  return {};
}

Result<void> max_pool2d_backward(tensor::Stream&, tensor::Workspace&,
                                 const ops::MaxPool2dBackwardArgs& args) {
  const tensor::Shape &in = args.dx.shape, &out = args.dy.shape;
  GPUNODE_CHECK(in.rank() == 4 && out.rank() == 4 && in[0] == out[0] && in[3] == out[3] &&
                    args.places.element_count() == out.element_count(),
                "max_pool2d_backward: " + out.text() + " -> " + in.text());
  std::fill_n(args.dx.data, in.element_count(), 0.0f);
  const std::int64_t channels = in[3], image = in[1] * in[2];
  const float* dy = args.dy.data;
  const std::int32_t* places = args.places.data;
  for (std::int64_t b = 0; b < in[0]; ++b) {
    float* dx = args.dx.data + b * image * channels;
    for (std::int64_t pixel = 0; pixel < out[1] * out[2]; ++pixel)
      for (std::int64_t c = 0; c < channels; ++c, ++dy, ++places) {
        GPUNODE_CHECK(*places >= 0 && *places < image, "max_pool2d_backward: a place outside");
        dx[*places * channels + c] += *dy;
      }
  }
  return {};
}

Result<void> mean_pool(tensor::Stream&, tensor::Workspace&, const ops::MeanPoolArgs& args) {
  const auto [samples, rows, columns] = rows_of(args.x.shape, args.y.shape);
  const float share = 1.0f / static_cast<float>(rows);
  for (std::int64_t b = 0; b < samples; ++b) {
    const tensor::Tensor sum{args.y.data + b * columns, {columns}};
    sum_rows({args.x.data + b * rows * columns, {rows, columns}}, rows, sum);
    GPUNODE_PICK(scale)(sum.data, sum.data, static_cast<std::size_t>(columns), share);
  }
  return {};
}

Result<void> mean_pool_backward(tensor::Stream&, tensor::Workspace&,
                                const ops::MeanPoolBackwardArgs& args) {
  const auto [samples, rows, columns] = rows_of(args.dx.shape, args.dy.shape);
  const float share = 1.0f / static_cast<float>(rows);
  const auto scale = GPUNODE_PICK(scale);
  float* dx = args.dx.data;
  for (std::int64_t b = 0; b < samples; ++b)
    for (std::int64_t row = 0; row < rows; ++row, dx += columns)
      scale(args.dy.data + b * columns, dx, static_cast<std::size_t>(columns), share);
  return {};
}

}  // namespace gpunode::cpu
