// Operations that do two things in one pass: a norm that adds a residual first, a product that ends
// in GELU. That a graph made of them has the bits of its parts, model_graph_test.cpp shows.
#include <cmath>

#include "tests/parity/references.hpp"

namespace gpunode::parity {
namespace {

Vector64 sum_of(const Vector64& a, const Vector64& b) {
  Vector64 sum = a;
  for (std::size_t at = 0; at < sum.size(); ++at) sum[at] += b[at];
  return sum;
}

// Where the sum is kept: in a place of its own, in that of x, in that of the residual.
enum class SumPlace { own, x, residual };

void add_layernorm_of_sum(std::vector<Case>& table, std::int64_t rows, std::int64_t columns,
                          SumPlace where) {
  Case one;
  one.name = "layernorm of a sum " + shape_text({rows, columns}) +
             (where == SumPlace::own ? ""
              : where == SumPlace::x ? " in x"
                                     : " in residual");
  one.operation = "layernorm";
  one.inputs = {numbers(1, rows * columns, 2), numbers(2, rows * columns, 2), numbers(3, columns),
                numbers(4, columns)};
  const auto count = static_cast<std::size_t>(rows);
  one.output_sizes = {one.inputs[0].size(), one.inputs[0].size(), count, count};
  one.run = [=](Run& run) {
    const tensor::Shape whole{rows, columns};
    float* sum = where == SumPlace::own ? run.out[0] : run.in[where == SumPlace::x ? 0 : 1];
    auto done = run.ops.layernorm(run.stream, run.workspace,
                                  {.x = {run.in[0], whole},
                                   .weight = {run.in[2], {columns}},
                                   .bias = {run.in[3], {columns}},
                                   .y = {run.out[1], whole},
                                   .mean = {run.out[2], {rows}},
                                   .rstd = {run.out[3], {rows}},
                                   .residual = {run.in[1], whole},
                                   .sum = {sum, whole}});
    if (!done || where == SumPlace::own) return done;
    // Twice the sum, out of the operand's place, so that it is graded.
    return run.ops.add(run.stream, run.workspace,
                       {.a = {sum, whole}, .b = {sum, whole}, .out = {run.out[0], whole}});
  };
  one.reference = [=](const std::vector<Vector64>& in) {
    Vector64 sum = sum_of(in[0], in[1]);
    const Vector64 y = reference_layernorm(sum, in[2], in[3]), ungraded(count, std::nan(""));
    if (where != SumPlace::own) sum = sum_of(sum, sum);
    return std::vector<Vector64>{sum, y, ungraded, ungraded};
  };
  table.push_back(std::move(one));
}

void add_rmsnorm_of_sum(std::vector<Case>& table, std::int64_t rows, std::int64_t columns) {
  Case one;
  one.name = "rmsnorm of a sum " + shape_text({rows, columns});
  one.operation = "rmsnorm";
  one.inputs = {numbers(1, rows * columns), numbers(2, rows * columns), numbers(3, columns)};
  const auto count = static_cast<std::size_t>(rows);
  one.output_sizes = {one.inputs[0].size(), one.inputs[0].size(), count};
  one.run = [=](Run& run) {
    const tensor::Shape whole{rows, columns};
    return run.ops.rmsnorm(run.stream, run.workspace,
                           {.x = {run.in[0], whole},
                            .weight = {run.in[2], {columns}},
                            .y = {run.out[1], whole},
                            .rstd = {run.out[2], {rows}},
                            .residual = {run.in[1], whole},
                            .sum = {run.out[0], whole}});
  };
  one.reference = [=](const std::vector<Vector64>& in) {
    const Vector64 sum = sum_of(in[0], in[1]);
    Vector64 y(sum.size());
    for (std::size_t row = 0; row < sum.size(); row += in[2].size()) {
      double square = ops::kRmsnormEpsilon;
      for (std::size_t i = 0; i < in[2].size(); ++i)
        square += sum[row + i] * sum[row + i] / static_cast<double>(columns);
      for (std::size_t i = 0; i < in[2].size(); ++i)
        y[row + i] = sum[row + i] / std::sqrt(square) * in[2][i];
    }
    return std::vector<Vector64>{sum, y, Vector64(count, std::nan(""))};
  };
  table.push_back(std::move(one));
}

struct GeluProduct {
  std::int64_t rows, columns, inner;
  bool bias, keeps;
  Precision precision = Precision::fp32;
  ops::GeluForm form = ops::GeluForm::tanh;
};

Vector64 gelu_in(ops::GeluForm form, const Vector64& x) {
  if (form == ops::GeluForm::tanh) return reference_gelu(x);
  Vector64 y;
  for (const double value : x) y.push_back(value / 2 * std::erfc(-value / std::sqrt(2.0)));
  return y;
}

// Factors are such as bf16 has: sixteenths.
Vector sixteenths(std::uint64_t seed, std::int64_t count) {
  Vector made = numbers(seed, count);
  for (float& value : made) value = std::nearbyint(value * 16) / 16;
  return made;
}

void add_gelu_product(std::vector<Case>& table, const GeluProduct& s) {
  Case one;
  const bool rounds = s.precision == Precision::bf16;
  one.name = "product and GELU " + shape_text({s.rows, s.columns, s.inner}) +
             (s.bias ? " bias" : "") + (s.keeps ? " kept" : "") +
             (s.form == ops::GeluForm::erf ? " erf" : "") + (rounds ? " bf16" : "");
  one.operation = rounds ? "matmul_bf16" : "matmul";
  one.inputs = {sixteenths(1, s.rows * s.inner), sixteenths(2, s.inner * s.columns),
                numbers(3, s.columns)};
  const auto count = static_cast<std::size_t>(s.rows * s.columns);
  one.output_sizes = {count, count};
  // In bf16 a GPU's library may have a GELU of its own, right to a thousandth of its values.
  one.tolerance = rounds ? 2e-3 : 2e-7 * static_cast<double>(s.inner) + 1e-6;
  one.run = [s](Run& run) {
    const tensor::Shape whole{s.rows, s.columns};
    ops::MatmulArgs args{.a = {run.in[0], {s.rows, s.inner}},
                         .b = {run.in[1], {s.columns, s.inner}},
                         .c = {run.out[0], whole},
                         .transpose_b = true,
                         .precision = s.precision,
                         .gelu = s.form};
    if (s.bias) args.bias = {run.in[2], {s.columns}};
    if (s.keeps) args.before = {run.out[1], whole};
    return run.ops.matmul(run.stream, run.workspace, args);
  };
  one.reference = [s, count](const std::vector<Vector64>& in) {
    Vector64 product(count);
    const auto columns = static_cast<std::size_t>(s.columns);
    const auto inner = static_cast<std::size_t>(s.inner);
    for (std::size_t at = 0; at < count; ++at) {
      const std::size_t row = at / columns, column = at % columns;
      product[at] = s.bias ? in[2][column] : 0;
      for (std::size_t k = 0; k < inner; ++k)
        product[at] += in[0][row * inner + k] * in[1][column * inner + k];
    }
    return std::vector<Vector64>{gelu_in(s.form, product),
                                 s.keeps ? product : Vector64(count, 0.5)};
  };
  table.push_back(std::move(one));
}

}  // namespace

void add_fused_cases(std::vector<Case>& table) {
  for (const SumPlace where : {SumPlace::own, SumPlace::x, SumPlace::residual})
    for (auto [rows, columns] : {std::pair<std::int64_t, std::int64_t>{192, 128}, {3, 37}, {1, 8}})
      add_layernorm_of_sum(table, rows, columns, where);
  for (auto [rows, columns] : {std::pair<std::int64_t, std::int64_t>{64, 128}, {3, 37}, {1, 8}})
    add_rmsnorm_of_sum(table, rows, columns);
  constexpr auto kErf = ops::GeluForm::erf;
  for (const Precision precision : {Precision::fp32, Precision::bf16})
    for (const GeluProduct& shape : {GeluProduct{64, 256, 64, true, true, precision},
                                     {33, 40, 17, true, false, precision},
                                     {7, 5, 3, false, true, precision},
                                     {1, 8, 130, false, false, precision},
                                     {12, 24, 16, true, true, precision, kErf}})
      add_gelu_product(table, shape);
}

}  // namespace gpunode::parity
