// Rows of the parity table: what models of images need. Images are (B, H, W, C).
#include <cmath>

#include "kernels/ops/conv2d.hpp"
#include "tests/parity/references.hpp"

namespace gpunode::parity {
namespace {

constexpr double kTolerance = 3e-5;  // of gradients

std::size_t size_of(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

struct ConvolutionCase {
  std::int64_t samples, height, width, channels, out_channels, kernel_height, kernel_width, stride,
      padding;

  tensor::Shape x() const { return {samples, height, width, channels}; }
  tensor::Shape weight() const { return {out_channels, kernel_height, kernel_width, channels}; }
  tensor::Shape y() const {
    return {samples, ops::WindowExtent{height, kernel_height, stride, padding}.output(),
            ops::WindowExtent{width, kernel_width, stride, padding}.output(), out_channels};
  }
};

// The sum of what every element of a patch gives to every output.
Vector64 reference_conv2d(const ConvolutionCase& s, const Vector64& x, const Vector64& weight) {
  const tensor::Shape out = s.y();
  Vector64 y;
  for (std::int64_t place = 0; place < s.samples * out[1] * out[2]; ++place)
    for (std::int64_t o = 0; o < s.out_channels; ++o) {
      const std::int64_t b = place / (out[1] * out[2]);
      double sum = 0;
      for (std::int64_t u = 0; u < s.kernel_height; ++u)
        for (std::int64_t v = 0; v < s.kernel_width; ++v) {
          const std::int64_t i = place / out[2] % out[1] * s.stride + u - s.padding;
          const std::int64_t j = place % out[2] * s.stride + v - s.padding;
          if (i < 0 || i >= s.height || j < 0 || j >= s.width) continue;
          for (std::int64_t c = 0; c < s.channels; ++c)
            sum +=
                x[size_of(((b * s.height + i) * s.width + j) * s.channels + c)] *
                weight[size_of(((o * s.kernel_height + u) * s.kernel_width + v) * s.channels + c)];
        }
      y.push_back(sum);
    }
  return y;
}

void add_conv2d(std::vector<Case>& table, const ConvolutionCase& s, bool has_dx) {
  const std::string text = shape_text({s.samples, s.height, s.width, s.channels, s.out_channels,
                                       s.kernel_height, s.kernel_width}) +
                           " stride " + std::to_string(s.stride) + " padding " +
                           std::to_string(s.padding);
  Case one;
  one.name = "conv2d " + text;
  one.operation = "conv2d";
  one.inputs = {numbers(1, s.x().element_count()), numbers(2, s.weight().element_count())};
  one.output_sizes = {size_of(s.y().element_count())};
  one.run = [=](Run& run) {
    return run.ops.conv2d(run.stream, run.workspace,
                          {.x = {run.in[0], s.x()},
                           .weight = {run.in[1], s.weight()},
                           .y = {run.out[0], s.y()},
                           .stride = s.stride,
                           .padding = s.padding});
  };
  const Function64 forward = [=](const std::vector<Vector64>& in) {
    return reference_conv2d(s, in[0], in[1]);
  };
  one.reference = [=](const std::vector<Vector64>& in) {
    return std::vector<Vector64>{forward(in)};
  };
  table.push_back(one);

  one.name = "conv2d_backward " + text + (has_dx ? "" : " without dx");
  one.operation = "conv2d_backward";
  one.inputs.push_back(numbers(3, s.y().element_count()));
  one.output_sizes = {one.inputs[0].size(), one.inputs[1].size()};
  one.tolerance = kTolerance;
  one.run = [=](Run& run) {
    return run.ops.conv2d_backward(
        run.stream, run.workspace,
        {.dy = {run.in[2], s.y()},
         .x = {run.in[0], s.x()},
         .weight = {run.in[1], s.weight()},
         .dx = has_dx ? tensor::Tensor{run.out[0], s.x()} : tensor::Tensor{},
         .dweight = {run.out[1], s.weight()},
         .stride = s.stride,
         .padding = s.padding});
  };
  one.reference = [=](const std::vector<Vector64>& in) {
    const std::vector<Vector64> at = {in[0], in[1]};
    return std::vector<Vector64>{
        has_dx ? differentiate(forward, at, 0, in[2], 60) : Vector64(in[0].size(), 0.5),
        differentiate(forward, at, 1, in[2], 60)};
  };
  table.push_back(std::move(one));
}

}  // namespace

void add_image_cases(std::vector<Case>& table) {
  add_conv2d(table, {2, 9, 8, 16, 24, 3, 3, 1, 1}, true);
  add_conv2d(table, {2, 11, 10, 3, 8, 5, 3, 2, 2}, true);
  add_conv2d(table, {3, 5, 4, 7, 5, 1, 1, 1, 0}, true);
  add_conv2d(table, {2, 5, 5, 4, 6, 1, 1, 2, 0}, true);
  add_conv2d(table, {1, 3, 3, 2, 3, 5, 5, 1, 2}, true);     // the window is wider than the image
  add_conv2d(table, {5, 32, 32, 1, 2, 3, 3, 1, 1}, false);  // more than one block of pixels
}

}  // namespace gpunode::parity
