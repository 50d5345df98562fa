// Forward operations of the parity table.
#include <algorithm>
#include <cmath>

#include "tests/parity/references.hpp"

namespace gpunode::parity {
namespace {

struct MatmulShape {
  std::int64_t rows, columns, inner;
  bool transpose_a, transpose_b, accumulate, bias;
  Precision precision = Precision::fp32;
  bool packed = false;
  bool independent_rows = false;
};

// To bf16, to nearest, ties to even; of numbers that are not on the edge of their range.
double rounded_to_bf16(double value) {
  const double unit = std::ldexp(1.0, std::ilogb(value == 0 ? 1.0 : value) - 7);
  return std::nearbyint(value / unit) * unit;
}

void add_matmul(std::vector<Case>& table, const MatmulShape& s) {
  Case one;
  one.name = "matmul " + shape_text({s.rows, s.columns, s.inner}) + (s.transpose_a ? " ta" : "") +
             (s.transpose_b ? " tb" : "") + (s.accumulate ? " accumulate" : "") +
             (s.bias ? " bias" : "") +
             (s.precision == Precision::fp32 ? "" : " " + std::string(to_string(s.precision))) +
             (s.packed ? " packed" : "") + (s.independent_rows ? " independent rows" : "");
  one.operation = s.precision == Precision::fp32 ? "matmul" : "matmul_bf16";
  one.inputs = {numbers(1, s.rows * s.inner), numbers(2, s.inner * s.columns),
                numbers(3, s.columns)};
  one.output_sizes = {static_cast<std::size_t>(s.rows * s.columns)};
  one.tolerance = 2e-7 * static_cast<double>(s.inner) + 1e-6;
  one.run = [s](Run& run) {
    ops::MatmulArgs args;
    args.a = {run.in[0],
              s.transpose_a ? tensor::Shape{s.inner, s.rows} : tensor::Shape{s.rows, s.inner}};
    args.b = {run.in[1], s.transpose_b ? tensor::Shape{s.columns, s.inner}
                                       : tensor::Shape{s.inner, s.columns}};
    args.c = {run.out[0], {s.rows, s.columns}};
    args.transpose_a = s.transpose_a;
    args.transpose_b = s.transpose_b;
    args.accumulate = s.accumulate;
    if (s.bias) args.bias = {run.in[2], {s.columns}};
    args.precision = s.precision;
    args.independent_rows = s.independent_rows;
    tensor::Workspace::Scope scope(run.workspace);
    if (s.packed) {
      const std::size_t bytes = ops::packed_bytes(s.inner, s.columns);
      const MutableByteView packed(run.workspace.take<std::byte>(bytes), bytes);
      auto done = run.ops.pack_product(run.stream, run.workspace,
                                       {.b = args.b, .transpose_b = s.transpose_b, .out = packed});
      if (!done) return done;
      args.packed_b = packed;
    }
    return run.ops.matmul(run.stream, run.workspace, args);
  };
  one.reference = [s](std::vector<Vector64> in) {
    if (s.precision == Precision::bf16)
      for (Vector64* factor : {&in[0], &in[1]})
        std::ranges::transform(*factor, factor->begin(), rounded_to_bf16);
    Vector64 c(static_cast<std::size_t>(s.rows * s.columns), s.accumulate ? 0.5 : 0.0);
    for (std::int64_t m = 0; m < s.rows; ++m)
      for (std::int64_t n = 0; n < s.columns; ++n) {
        double& sum = c[static_cast<std::size_t>(m * s.columns + n)];
        if (s.bias) sum += in[2][static_cast<std::size_t>(n)];
        for (std::int64_t k = 0; k < s.inner; ++k)
          sum +=
              in[0][static_cast<std::size_t>(s.transpose_a ? k * s.rows + m : m * s.inner + k)] *
              in[1][static_cast<std::size_t>(s.transpose_b ? n * s.inner + k : k * s.columns + n)];
      }
    return std::vector<Vector64>{c};
  };
  table.push_back(std::move(one));
}

void add_layernorm(std::vector<Case>& table, std::int64_t rows, std::int64_t columns) {
  Case one;
  one.name = "layernorm " + shape_text({rows, columns});
  one.operation = "layernorm";
  one.inputs = {numbers(1, rows * columns, 3), numbers(2, columns), numbers(3, columns)};
  const auto count = static_cast<std::size_t>(rows);
  one.output_sizes = {one.inputs[0].size(), count, count};
  one.run = [rows, columns](Run& run) {
    return run.ops.layernorm(run.stream, run.workspace,
                             {.x = {run.in[0], {rows, columns}},
                              .weight = {run.in[1], {columns}},
                              .bias = {run.in[2], {columns}},
                              .y = {run.out[0], {rows, columns}},
                              .mean = {run.out[1], {rows}},
                              .rstd = {run.out[2], {rows}}});
  };
  one.reference = [count](const std::vector<Vector64>& in) {
    const Vector64 ungraded(count, std::nan(""));
    return std::vector<Vector64>{reference_layernorm(in[0], in[1], in[2]), ungraded, ungraded};
  };
  table.push_back(std::move(one));
}

void add_gelu(std::vector<Case>& table, std::int64_t count) {
  Case one;
  one.name = "gelu " + shape_text({count});
  one.operation = "gelu";
  one.inputs = {numbers(1, count, 12)};
  one.output_sizes = {one.inputs[0].size()};
  one.tolerance = 1e-6;
  one.run = [count](Run& run) {
    return run.ops.gelu(run.stream, run.workspace,
                        {.x = {run.in[0], {count}}, .y = {run.out[0], {count}}});
  };
  one.reference = [](const std::vector<Vector64>& in) {
    return std::vector<Vector64>{reference_gelu(in[0])};
  };
  table.push_back(std::move(one));
}

void add_attention(std::vector<Case>& table, const AttentionShape& s) {
  Case one;
  one.name = "attention " + s.text();
  one.operation = "attention";
  one.inputs = {numbers(1, s.qkv().element_count(), 2)};
  one.tokens = s.lengths;
  one.output_sizes = {static_cast<std::size_t>(s.out().element_count()),
                      static_cast<std::size_t>(s.statistics().element_count())};
  one.run = [s](Run& run) {
    return run.ops.attention(run.stream, run.workspace,
                             {.qkv = {run.in[0], s.qkv()},
                              .heads = s.heads,
                              .kv_heads = s.kv_heads(),
                              .causal = s.causal,
                              .lengths = s.length_tensor(run.tokens),
                              .out = {run.out[0], s.out()},
                              .statistics = {run.out[1], s.statistics()}});
  };
  one.reference = [s](const std::vector<Vector64>& in) { return reference_attention(s, in[0]); };
  table.push_back(one);
}

void add_cross_entropy(std::vector<Case>& table, std::int64_t rows, std::int64_t columns) {
  Case one;
  one.name = "cross_entropy " + shape_text({rows, columns});
  one.operation = "cross_entropy";
  one.inputs = {numbers(1, rows * columns, 8)};
  one.output_sizes = {static_cast<std::size_t>(rows), one.inputs[0].size()};
  const auto targets = token_numbers(2, rows, columns);
  one.tokens = targets;
  one.tolerance = 1e-6;
  one.run = [=](Run& run) {
    return run.ops.cross_entropy(run.stream, run.workspace,
                                 {.logits = {run.in[0], {rows, columns}},
                                  .targets = {run.tokens, {rows}},
                                  .losses = {run.out[0], {rows}},
                                  .dlogits = {run.out[1], {rows, columns}}});
  };
  one.reference = [=](const std::vector<Vector64>& in) {
    const Function64 losses = [&](const std::vector<Vector64>& x) {
      return reference_losses(x[0], targets);
    };
    const Vector64 ones(static_cast<std::size_t>(rows), 1.0);
    return std::vector<Vector64>{losses(in), differentiate(losses, in, 0, ones)};
  };
  table.push_back(one);

  // The gradient in the place of the logits, which run() copies there.
  one.name += " in place";
  one.inputs.push_back(Vector(one.inputs[0].size()));
  one.run = [=](Run& run) -> Result<void> {
    const tensor::Tensor scores{run.out[1], {rows, columns}};
    auto copied = run.ops.add(
        run.stream, run.workspace,
        {.a = {run.in[0], scores.shape}, .b = {run.in[1], scores.shape}, .out = scores});
    if (!copied) return copied;
    return run.ops.cross_entropy(run.stream, run.workspace,
                                 {.logits = scores,
                                  .targets = {run.tokens, {rows}},
                                  .losses = {run.out[0], {rows}},
                                  .dlogits = scores});
  };
  one.reference = [grade = one.reference](const std::vector<Vector64>& in) {
    return grade({in[0]});
  };
  table.push_back(std::move(one));
}

void add_sums(std::vector<Case>& table, std::int64_t rows, std::int64_t columns) {
  const std::int64_t count = rows * columns;
  for (bool three : {false, true}) {
    Case one;
    one.name = std::string(three ? "add three " : "add two ") + shape_text({rows, columns});
    one.operation = "add";
    one.inputs = {numbers(1, count), numbers(2, count), numbers(3, count)};
    one.output_sizes = {static_cast<std::size_t>(count)};
    one.tolerance = 1e-7;
    one.run = [=](Run& run) {
      return run.ops.add(
          run.stream, run.workspace,
          {.a = {run.in[0], {count}},
           .b = {run.in[1], {count}},
           .c = three ? tensor::ConstTensor{run.in[2], {count}} : tensor::ConstTensor{},
           .out = {run.out[0], {count}}});
    };
    one.reference = [three](const std::vector<Vector64>& in) {
      Vector64 sum;
      for (std::size_t i = 0; i < in[0].size(); ++i)
        sum.push_back(in[0][i] + in[1][i] + (three ? in[2][i] : 0));
      return std::vector<Vector64>{sum};
    };
    table.push_back(std::move(one));
  }
  Case one;
  one.name = "column_sum " + shape_text({rows, columns});
  one.operation = "column_sum";
  one.inputs = {numbers(1, count)};
  one.output_sizes = {static_cast<std::size_t>(columns)};
  one.run = [=](Run& run) {
    return run.ops.column_sum(run.stream, run.workspace,
                              {.x = {run.in[0], {rows, columns}}, .out = {run.out[0], {columns}}});
  };
  one.reference = [columns](const std::vector<Vector64>& in) {
    Vector64 sums(static_cast<std::size_t>(columns));
    for (std::size_t i = 0; i < in[0].size(); ++i) sums[i % sums.size()] += in[0][i];
    return std::vector<Vector64>{sums};
  };
  table.push_back(std::move(one));
}

void add_embedding(std::vector<Case>& table, std::int64_t samples, std::int64_t positions,
                   std::int64_t channels) {
  constexpr std::int64_t kVocabulary = 11, kMore = 2;  // positions that the table has beyond T
  Case one;
  one.name = "embedding " + shape_text({samples, positions, channels});
  one.operation = "embedding";
  one.inputs = {numbers(1, kVocabulary * channels), numbers(2, (kMore + positions) * channels)};
  one.output_sizes = {static_cast<std::size_t>(samples * positions * channels)};
  const auto tokens = token_numbers(3, samples * positions, kVocabulary);
  const auto places = token_numbers(4, samples * positions, kMore + positions);
  const bool placed = samples % 2 == 0;  // positions are given, or each row's number
  one.tokens = tokens;
  if (placed) one.tokens.insert(one.tokens.end(), places.begin(), places.end());
  one.run = [=](Run& run) {
    return run.ops.embedding(
        run.stream, run.workspace,
        {.tokens = {run.tokens, {samples, positions}},
         .token_table = {run.in[0], {kVocabulary, channels}},
         .position_table = {run.in[1], {kMore + positions, channels}},
         .x = {run.out[0], {samples, positions, channels}},
         .positions = {placed ? run.tokens + samples * positions : nullptr, {samples, positions}}});
  };
  one.reference = [=](const std::vector<Vector64>& in) {
    Vector64 x;
    for (std::size_t place = 0; place < tokens.size(); ++place) {
      const std::int64_t position =
          placed ? places[place] : static_cast<std::int64_t>(place) % positions;
      for (std::int64_t c = 0; c < channels; ++c)
        x.push_back(in[0][static_cast<std::size_t>(tokens[place] * channels + c)] +
                    in[1][static_cast<std::size_t>(position * channels + c)]);
    }
    return std::vector<Vector64>{x};
  };
  table.push_back(std::move(one));
}

void add_adamw(std::vector<Case>& table, std::int64_t count) {
  Case one;
  one.name = "adamw " + shape_text({count});
  one.operation = "adamw";
  one.inputs = {numbers(1, count, 5)};
  one.output_sizes.assign(3, static_cast<std::size_t>(count));  // weights, first, second: from 0.5
  one.run = [count](Run& run) {
    return run.ops.adamw(run.stream, run.workspace,
                         {.gradient = {run.in[0], {count}},
                          .weights = {run.out[0], {count}},
                          .first = {run.out[1], {count}},
                          .second = {run.out[2], {count}},
                          .scale = 0.25f,
                          .rate = 0.125f,
                          .beta1 = 0.875f,
                          .beta2 = 0.984375f,
                          .epsilon = 0.0009765625f,
                          .decay = 0.125f,
                          .upscale1 = 2.0f,
                          .upscale2 = 4.0f});
  };
  one.reference = [](const std::vector<Vector64>& in) {
    std::vector<Vector64> state(3);
    for (double raw : in[0]) {
      const double g = raw * 0.25, first = 0.875 * 0.5 + 0.125 * g;
      const double second = 0.984375 * 0.5 + 0.015625 * g * g;
      state[0].push_back(
          0.5 - 0.125 * (first / 0.5 / (std::sqrt(second / 0.25) + 0.0009765625) + 0.125 * 0.5));
      state[1].push_back(first);
      state[2].push_back(second);
    }
    return state;
  };
  table.push_back(std::move(one));
}

void add_square_sum(std::vector<Case>& table, std::int64_t count) {
  Case one;
  one.name = "square_sum " + shape_text({count});
  one.operation = "square_sum";
  one.inputs = {numbers(1, count, 100)};
  one.sums = 1;
  one.tolerance = 1e-7;  // of the first of the floats that the table carries
  one.run = [count](Run& run) {
    return run.ops.square_sum(run.stream, run.workspace,
                              {.x = {run.in[0], {count}}, .sum = run.sums});
  };
  one.reference = [](const std::vector<Vector64>& in) {
    double sum = 0;
    for (double x : in[0]) sum += x * x;
    return std::vector<Vector64>{{sum, std::nan(""), std::nan("")}};
  };
  table.push_back(std::move(one));
}

}  // namespace

void add_forward_cases(std::vector<Case>& table) {
  for (const MatmulShape& shape : {MatmulShape{192, 384, 128, false, true, false, true},
                                   {192, 128, 512, false, true, false, true},
                                   {512, 128, 192, true, false, false, false},
                                   {192, 512, 128, false, false, false, false},
                                   {1, 256, 128, false, true, false, false},
                                   {7, 5, 3, false, false, true, true},
                                   {33, 17, 65, true, true, true, false},
                                   {62, 1027, 517, false, true, false, true},  // through weights
                                   {157, 1031, 511, false, true, false, false}})
    add_matmul(table, shape);
  for (MatmulShape shape : {MatmulShape{1, 256, 128, false, true, false, false},
                            {1, 1, 1, false, true, false, true},
                            {2, 97, 1031, false, true, false, true},
                            {7, 50, 517, false, true, false, false},
                            {67, 149, 2051, false, true, false, true},
                            {192, 384, 128, false, true, false, true}}) {
    shape.independent_rows = true;
    add_matmul(table, shape);
  }
  for (MatmulShape shape : {MatmulShape{192, 384, 128, false, true, false, true},
                            {512, 128, 192, true, false, true, false},
                            {192, 512, 128, false, false, false, false},
                            {1, 256, 128, false, true, false, false},
                            {7, 5, 3, false, false, true, true},
                            {33, 17, 65, true, true, true, false},
                            {62, 1027, 517, false, true, false, true},
                            {65, 67, 1029, true, false, false, true}}) {
    shape.precision = Precision::bf16;
    for (const bool packed : {false, true}) {
      shape.packed = packed;
      add_matmul(table, shape);
    }
  }
  for (auto [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{192, 128}, {3, 37}, {5, 8}, {1, 768}})
    add_layernorm(table, rows, columns);
  for (std::int64_t count : {1, 15, 4096, 4099}) add_gelu(table, count);
  for (const AttentionShape& shape :
       std::initializer_list<AttentionShape>{{3, 64, 4, 32},
                                             {1, 64, 1, 32},
                                             {1, 19, 3, 8},
                                             {2, 33, 2, 20},
                                             {1, 1, 1, 64},
                                             {1, 1, 2, 8, 2, false},
                                             {2, 5, 2, 8, 2, false},
                                             {1, 16, 4, 20, 2},
                                             {1, 17, 2, 64, 1, false},
                                             {1, 63, 4, 32, 4},
                                             {3, 65, 6, 20, 3, false, {65, 1, 40}},
                                             {1, 130, 2, 64, 2},
                                             {2, 130, 4, 8, 2, true, {130, 77}},
                                             {2, 130, 2, 32, 1, false, {129, 0}}})
    add_attention(table, shape);
  for (auto [rows, columns] : {std::pair<std::int64_t, std::int64_t>{192, 256}, {5, 65}, {3, 2}})
    add_cross_entropy(table, rows, columns);
  for (auto [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{192, 512}, {7, 67}, {1, 3}, {2151, 5}})
    add_sums(table, rows, columns);
  add_embedding(table, 3, 64, 128);
  add_embedding(table, 2, 5, 7);
  for (std::int64_t count : {1, 31, 1000, 32768}) add_adamw(table, count);
  for (std::int64_t count : {1, 31, 32768}) add_square_sum(table, count);
}

}  // namespace gpunode::parity
