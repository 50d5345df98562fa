// Rows of the parity table: what models of text other than GPT need.
#include <cmath>

#include "tests/parity/references.hpp"

namespace gpunode::parity {
namespace {

constexpr double kTolerance = 3e-5;  // of gradients

std::size_t size_of(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

// (R, C), (C) -> (R, C)
Vector64 reference_rmsnorm(const Vector64& x, const Vector64& weight, double epsilon) {
  const std::size_t columns = weight.size();
  Vector64 y(x.size());
  for (std::size_t row = 0; row < x.size(); row += columns) {
    double square = epsilon;
    for (std::size_t i = 0; i < columns; ++i)
      square += x[row + i] * x[row + i] / static_cast<double>(columns);
    for (std::size_t i = 0; i < columns; ++i)
      y[row + i] = x[row + i] / std::sqrt(square) * weight[i];
  }
  return y;
}

void add_rmsnorm(std::vector<Case>& table, std::int64_t rows, std::int64_t columns, float epsilon) {
  Case one;
  one.name = "rmsnorm " + shape_text({rows, columns});
  one.operation = "rmsnorm";
  one.inputs = {numbers(1, rows * columns, 0.1), numbers(2, columns)};
  one.output_sizes = {one.inputs[0].size(), size_of(rows)};
  const auto forward = [=](Run& run, const float* x, const float* weight, float* y, float* rstd) {
    return run.ops.rmsnorm(run.stream, run.workspace,
                           {.x = {x, {rows, columns}},
                            .weight = {weight, {columns}},
                            .y = {y, {rows, columns}},
                            .rstd = {rstd, {rows}},
                            .epsilon = epsilon});
  };
  one.run = [=](Run& run) { return forward(run, run.in[0], run.in[1], run.out[0], run.out[1]); };
  const Vector64 ungraded(size_of(rows), std::nan(""));
  one.reference = [=](const std::vector<Vector64>& in) {
    return std::vector<Vector64>{reference_rmsnorm(in[0], in[1], epsilon), ungraded};
  };
  table.push_back(one);

  one.name = "rmsnorm_backward " + shape_text({rows, columns});
  one.operation = "rmsnorm_backward";
  one.inputs.push_back(numbers(3, rows * columns));
  one.output_sizes = {one.inputs[0].size(), size_of(columns), size_of(rows), one.inputs[0].size()};
  one.tolerance = kTolerance;
  one.run = [=](Run& run) -> Result<void> {
    if (auto done = forward(run, run.in[0], run.in[1], run.out[3], run.out[2]); !done) return done;
    return run.ops.rmsnorm_backward(run.stream, run.workspace,
                                    {.dy = {run.in[2], {rows, columns}},
                                     .x = {run.in[0], {rows, columns}},
                                     .weight = {run.in[1], {columns}},
                                     .rstd = {run.out[2], {rows}},
                                     .dx = {run.out[0], {rows, columns}},
                                     .dweight = {run.out[1], {columns}}});
  };
  one.reference = [=](const std::vector<Vector64>& in) {
    const Function64 function = [=](const std::vector<Vector64>& x) {
      return reference_rmsnorm(x[0], x[1], epsilon);
    };
    Vector64 dx = differentiate(function, {in[0], in[1]}, 0, in[2]);
    for (double& value : dx) value += 0.5;
    return std::vector<Vector64>{dx, differentiate(function, {in[0], in[1]}, 1, in[2]), ungraded,
                                 Vector64(in[0].size(), std::nan(""))};
  };
  table.push_back(std::move(one));
}

// (R, 2*F) -> (R, F)
Vector64 reference_swiglu(const Vector64& x, std::size_t width) {
  Vector64 y;
  for (std::size_t row = 0; row < x.size(); row += 2 * width)
    for (std::size_t i = row; i < row + width; ++i)
      y.push_back(x[i] / (1 + std::exp(-x[i])) * x[i + width]);
  return y;
}

void add_swiglu(std::vector<Case>& table, std::int64_t rows, std::int64_t width) {
  Case one;
  one.name = "swiglu " + shape_text({rows, width});
  one.operation = "swiglu";
  one.inputs = {numbers(1, rows * 2 * width, 12)};
  one.output_sizes = {size_of(rows * width)};
  one.run = [=](Run& run) {
    return run.ops.swiglu(run.stream, run.workspace,
                          {.x = {run.in[0], {rows, 2 * width}}, .y = {run.out[0], {rows, width}}});
  };
  one.tolerance = 1e-6;
  one.reference = [=](const std::vector<Vector64>& in) {
    return std::vector<Vector64>{reference_swiglu(in[0], size_of(width))};
  };
  table.push_back(one);

  one.name = "swiglu_backward " + shape_text({rows, width});
  one.operation = "swiglu_backward";
  one.inputs.push_back(numbers(2, rows * width));
  one.output_sizes = {one.inputs[0].size()};
  one.tolerance = kTolerance;
  one.run = [=](Run& run) {
    return run.ops.swiglu_backward(run.stream, run.workspace,
                                   {.dy = {run.in[1], {rows, width}},
                                    .x = {run.in[0], {rows, 2 * width}},
                                    .dx = {run.out[0], {rows, 2 * width}}});
  };
  one.reference = [=](const std::vector<Vector64>& in) {
    const Function64 function = [=](const std::vector<Vector64>& x) {
      return reference_swiglu(x[0], size_of(width));
    };
    return std::vector<Vector64>{differentiate(function, {in[0]}, 0, in[1])};
  };
  table.push_back(std::move(one));
}

}  // namespace

void add_sequence_cases(std::vector<Case>& table) {
  add_rmsnorm(table, 64, 128, 1e-5f);
  add_rmsnorm(table, 3, 37, 1e-3f);
  add_rmsnorm(table, 2, 8, 1e-6f);
  for (auto [rows, width] : {std::pair<std::int64_t, std::int64_t>{32, 96}, {3, 37}, {1, 1}})
    add_swiglu(table, rows, width);
}

}  // namespace gpunode::parity
