// Rows of the parity table: what models of images need. Images are (B, H, W, C).
#include <algorithm>
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

constexpr double kEpsilon = 1e-3;

struct RowsCase {
  std::int64_t rows, columns;
  float offset = 0;  // of x
};

// x (R, C), weight, bias, mean, variance (C) -> (R, C)
Vector64 reference_normal(const std::vector<Vector64>& in, const Vector64& mean,
                          const Vector64& variance) {
  Vector64 y;
  for (std::size_t i = 0; i < in[0].size(); ++i) {
    const std::size_t c = i % mean.size();
    y.push_back((in[0][i] - mean[c]) / std::sqrt(variance[c] + kEpsilon) * in[1][c] + in[2][c]);
  }
  return y;
}

Vector64 reference_batchnorm(const std::vector<Vector64>& in) {
  const std::size_t columns = in[1].size();
  const auto rows = static_cast<double>(in[0].size() / columns);
  Vector64 mean(columns), variance(columns);
  for (std::size_t i = 0; i < in[0].size(); ++i) mean[i % columns] += in[0][i] / rows;
  for (std::size_t i = 0; i < in[0].size(); ++i)
    variance[i % columns] += std::pow(in[0][i] - mean[i % columns], 2) / rows;
  return reference_normal(in, mean, variance);
}

Result<void> run_batchnorm(Run& run, const RowsCase& s, float* y, float* mean, float* rstd,
                           bool inference) {
  const tensor::Shape rows{s.rows, s.columns}, vector{s.columns};
  ops::BatchnormArgs args{.x = {run.in[0], rows},
                          .weight = {run.in[1], vector},
                          .bias = {run.in[2], vector},
                          .y = {y, rows},
                          .mean = {mean, vector},
                          .rstd = {rstd, vector},
                          .epsilon = static_cast<float>(kEpsilon)};
  if (inference) {
    args.running_mean = {run.in[3], vector};
    args.running_variance = {run.in[4], vector};
  }
  return run.ops.batchnorm(run.stream, run.workspace, args);
}

// Inputs: x, weight, bias, running mean, running variance.
Case batchnorm_case(const RowsCase& s) {
  Case one;
  one.name = " " + shape_text({s.rows, s.columns}) + (s.offset > 0 ? " far from zero" : "");
  one.inputs = {numbers(1, s.rows * s.columns, 2), numbers(2, s.columns), numbers(3, s.columns),
                numbers(4, s.columns), numbers(5, s.columns)};
  for (float& value : one.inputs[0]) value += s.offset;
  for (float& value : one.inputs[4]) value += 1.5f;
  return one;
}

void add_batchnorm(std::vector<Case>& table, const RowsCase& s) {
  for (const bool inference : {false, true}) {
    Case one = batchnorm_case(s);
    one.name = (inference ? "batchnorm inference" : "batchnorm") + one.name;
    one.operation = "batchnorm";
    one.output_sizes = {one.inputs[0].size(), size_of(s.columns), size_of(s.columns)};
    one.run = [=](Run& run) {
      return run_batchnorm(run, s, run.out[0], run.out[1], run.out[2], inference);
    };
    const Vector64 ungraded(size_of(s.columns), std::nan(""));
    one.reference = [=](const std::vector<Vector64>& in) {
      return std::vector<Vector64>{
          inference ? reference_normal(in, in[3], in[4]) : reference_batchnorm(in), ungraded,
          ungraded};
    };
    table.push_back(std::move(one));
  }
}

void add_batchnorm_backward(std::vector<Case>& table, const RowsCase& s) {
  const tensor::Shape rows{s.rows, s.columns}, vector{s.columns};
  Case one = batchnorm_case(s);
  one.name = "batchnorm_backward" + one.name;
  one.operation = "batchnorm_backward";
  one.inputs.push_back(numbers(6, s.rows * s.columns));
  const std::size_t whole = one.inputs[0].size(), columns = size_of(s.columns);
  one.output_sizes = {whole, columns, columns, whole, columns, columns};
  one.tolerance = kTolerance;
  one.run = [=](Run& run) -> Result<void> {
    auto done = run_batchnorm(run, s, run.out[3], run.out[4], run.out[5], false);
    if (!done) return done;
    return run.ops.batchnorm_backward(run.stream, run.workspace,
                                      {.dy = {run.in[5], rows},
                                       .x = {run.in[0], rows},
                                       .weight = {run.in[1], vector},
                                       .mean = {run.out[4], vector},
                                       .rstd = {run.out[5], vector},
                                       .dx = {run.out[0], rows},
                                       .dweight = {run.out[1], vector},
                                       .dbias = {run.out[2], vector}});
  };
  one.reference = [=](const std::vector<Vector64>& in) {
    const std::vector<Vector64> at = {in[0], in[1], in[2]};
    std::vector<Vector64> slopes;
    for (std::size_t which = 0; which < 3; ++which)
      slopes.push_back(differentiate(reference_batchnorm, at, which, in[5], 60));
    for (const std::size_t size : {whole, columns, columns})
      slopes.emplace_back(size, std::nan(""));
    return slopes;
  };
  table.push_back(std::move(one));
}

// What a slice measured, as a sum over its samples. The last channel has no spread at all.
void add_statistics(std::vector<Case>& table, const RowsCase& s) {
  constexpr std::int64_t kOfSamples = 6;
  const tensor::Shape vector{s.columns};
  const std::size_t columns = size_of(s.columns);
  Case one;
  one.name = "batchnorm_statistics " + shape_text({s.rows, s.columns});
  one.operation = "batchnorm_statistics";
  one.inputs = {numbers(1, s.columns), numbers(2, s.columns)};
  for (float& rstd : one.inputs[1]) rstd = 1.0f / std::sqrt(1.1f + rstd);
  one.inputs[1].back() = 1.0f / std::sqrt(static_cast<float>(kEpsilon));
  one.output_sizes = {columns, columns};
  one.tolerance = 3e-6;
  one.run = [=](Run& run) {
    return run.ops.batchnorm_statistics(run.stream, run.workspace,
                                        {.mean = {run.in[0], vector},
                                         .rstd = {run.in[1], vector},
                                         .mean_sum = {run.out[0], vector},
                                         .variance_sum = {run.out[1], vector},
                                         .epsilon = static_cast<float>(kEpsilon),
                                         .samples = kOfSamples,
                                         .rows = s.rows});
  };
  one.reference = [=](const std::vector<Vector64>& in) {
    Vector64 means, variances;
    const double unbiased =
        s.rows > 1 ? static_cast<double>(s.rows) / static_cast<double>(s.rows - 1) : 1.0;
    for (const double mean : in[0]) means.push_back(kOfSamples * mean);
    for (const double rstd : in[1])
      variances.push_back(kOfSamples * (1 / (rstd * rstd) - kEpsilon) * unbiased);
    return std::vector<Vector64>{means, variances};
  };
  table.push_back(std::move(one));
}

// Values that follow the mean of a sum; the values come out as what they have become.
void add_follow(std::vector<Case>& table, std::int64_t count) {
  constexpr double kShare = 0.125, kScale = 0.0625;
  const tensor::Shape vector{count};
  Case one;
  one.name = "follow " + shape_text({count});
  one.operation = "follow";
  one.inputs = {numbers(1, count, 32)};
  one.output_sizes = {size_of(count)};
  one.tolerance = 1e-6;
  one.run = [=](Run& run) {
    return run.ops.follow(run.stream, run.workspace,
                          {.sum = {run.in[0], vector},
                           .values = {run.out[0], vector},
                           .scale = static_cast<float>(kScale),
                           .share = static_cast<float>(kShare)});
  };
  one.reference = [=](const std::vector<Vector64>& in) {
    Vector64 values;
    for (const double sum : in[0]) values.push_back(0.5 + kShare * (sum * kScale - 0.5));
    return std::vector<Vector64>{values};
  };
  table.push_back(std::move(one));
}

struct PoolCase {
  std::int64_t samples, height, width, channels, window, stride, padding;

  tensor::Shape x() const { return {samples, height, width, channels}; }
  tensor::Shape y() const {
    return {samples, ops::WindowExtent{height, window, stride, padding}.output(),
            ops::WindowExtent{width, window, stride, padding}.output(), channels};
  }
};

Vector64 reference_max_pool(const PoolCase& s, const Vector64& x) {
  const tensor::Shape out = s.y();
  Vector64 y;
  for (std::int64_t at = 0; at < out.element_count(); ++at) {
    const std::int64_t place = at / s.channels;
    double best = -HUGE_VAL;
    for (std::int64_t u = 0; u < s.window; ++u)
      for (std::int64_t v = 0; v < s.window; ++v) {
        const std::int64_t i = place / out[2] % out[1] * s.stride + u - s.padding;
        const std::int64_t j = place % out[2] * s.stride + v - s.padding;
        if (i < 0 || i >= s.height || j < 0 || j >= s.width) continue;
        const std::int64_t row = (place / (out[1] * out[2]) * s.height + i) * s.width + j;
        best = std::max(best, x[size_of(row * s.channels + at % s.channels)]);
      }
    y.push_back(best);
  }
  return y;
}

void add_max_pool2d(std::vector<Case>& table, const PoolCase& s) {
  const std::string text = shape_text({s.samples, s.height, s.width, s.channels}) + " window " +
                           shape_text({s.window, s.stride, s.padding});
  Case one;
  one.name = "max_pool2d " + text;
  one.operation = "max_pool2d";
  one.inputs = {numbers(1, s.x().element_count())};
  const std::size_t count = size_of(s.y().element_count());
  one.output_sizes = {count, count};
  one.tolerance = 0;
  const auto forward = [=](Run& run, float* y, float* places) {
    return run.ops.max_pool2d(run.stream, run.workspace,
                              {.x = {run.in[0], s.x()},
                               .y = {y, s.y()},
                               .places = {reinterpret_cast<std::int32_t*>(places), s.y()},
                               .window = s.window,
                               .stride = s.stride,
                               .padding = s.padding});
  };
  one.run = [=](Run& run) { return forward(run, run.out[0], run.out[1]); };
  const Vector64 ungraded(count, std::nan(""));
  one.reference = [=](const std::vector<Vector64>& in) {
    return std::vector<Vector64>{reference_max_pool(s, in[0]), ungraded};
  };
  table.push_back(one);

  one.name = "max_pool2d_backward " + text;
  one.operation = "max_pool2d_backward";
  one.inputs.push_back(numbers(2, s.y().element_count()));
  one.output_sizes = {one.inputs[0].size(), count, count};
  one.tolerance = 1e-6;
  one.run = [=](Run& run) -> Result<void> {
    if (auto done = forward(run, run.out[1], run.out[2]); !done) return done;
    return run.ops.max_pool2d_backward(
        run.stream, run.workspace,
        {.dy = {run.in[1], s.y()},
         .places = {reinterpret_cast<const std::int32_t*>(run.out[2]), s.y()},
         .dx = {run.out[0], s.x()},
         .window = s.window,
         .stride = s.stride,
         .padding = s.padding});
  };
  one.reference = [=](const std::vector<Vector64>& in) {
    const Function64 function = [=](const std::vector<Vector64>& x) {
      return reference_max_pool(s, x[0]);
    };
    return std::vector<Vector64>{differentiate(function, {in[0]}, 0, in[1]), ungraded, ungraded};
  };
  table.push_back(std::move(one));
}

// (B, R, C) -> (B, C), and back.
void add_mean_pool(std::vector<Case>& table, std::int64_t samples, const RowsCase& s) {
  const std::int64_t count = samples * s.rows * s.columns;
  const tensor::Shape wide{samples, s.rows, 1, s.columns}, narrow{samples, s.columns};
  const auto pixels = static_cast<double>(s.rows);
  // Of an element of x: where its mean stands.
  const auto mean_of = [=](std::int64_t at) {
    return size_of(at / (s.rows * s.columns) * s.columns + at % s.columns);
  };
  Case one;
  one.name = "mean_pool " + shape_text({samples, s.rows, s.columns});
  one.operation = "mean_pool";
  one.inputs = {numbers(1, count)};
  one.output_sizes = {size_of(samples * s.columns)};
  one.tolerance = 1e-6;
  one.run = [=](Run& run) {
    return run.ops.mean_pool(run.stream, run.workspace,
                             {.x = {run.in[0], wide}, .y = {run.out[0], narrow}});
  };
  one.reference = [=](const std::vector<Vector64>& in) {
    Vector64 y(size_of(samples * s.columns));
    for (std::int64_t at = 0; at < count; ++at) y[mean_of(at)] += in[0][size_of(at)] / pixels;
    return std::vector<Vector64>{y};
  };
  table.push_back(one);

  one.name = "mean_pool_backward " + shape_text({samples, s.rows, s.columns});
  one.operation = "mean_pool_backward";
  one.inputs = {numbers(2, samples * s.columns)};
  one.output_sizes = {size_of(count)};
  one.run = [=](Run& run) {
    return run.ops.mean_pool_backward(run.stream, run.workspace,
                                      {.dy = {run.in[0], narrow}, .dx = {run.out[0], wide}});
  };
  one.reference = [=](const std::vector<Vector64>& in) {
    Vector64 dx;
    for (std::int64_t at = 0; at < count; ++at) dx.push_back(in[0][mean_of(at)] / pixels);
    return std::vector<Vector64>{dx};
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
  for (const RowsCase& shape :
       {RowsCase{70, 37}, {64, 16}, {2, 5}, {1024, 8}, {1100, 24, 30}, {2085, 9}, {66600, 3}}) {
    add_batchnorm(table, shape);
    add_batchnorm_backward(table, shape);
    add_statistics(table, shape);
  }
  add_statistics(table, {1, 3});
  for (const std::int64_t count : {1, 37, 700}) add_follow(table, count);
  for (const PoolCase& shape : {PoolCase{2, 9, 8, 21, 3, 2, 1}, {3, 6, 4, 16, 2, 2, 0}})
    add_max_pool2d(table, shape);
  add_mean_pool(table, 3, {49, 37});
  add_mean_pool(table, 2, {130, 20});
  add_mean_pool(table, 1, {1, 3});
}

}  // namespace gpunode::parity
