// Backward operations of the parity table; their references are finite differences of the forward
// definitions. Outputs start at 0.5, which operations that add to them must keep.
#include <algorithm>
#include <cmath>

#include "tests/parity/references.hpp"

namespace gpunode::parity {
namespace {

constexpr double kTolerance = 3e-5;

void add_layernorm(std::vector<Case>& table, std::int64_t rows, std::int64_t columns) {
  Case one;
  one.name = "layernorm_backward " + shape_text({rows, columns});
  one.operation = "layernorm_backward";
  // dy, x, weight, then mean and rstd computed here
  one.inputs = {numbers(1, rows * columns), numbers(2, rows * columns, 3), numbers(3, columns)};
  Vector mean, rstd;
  for (std::int64_t row = 0; row < rows; ++row) {
    double sum = 0, square = 0;
    for (std::int64_t i = 0; i < columns; ++i)
      sum += one.inputs[1][static_cast<std::size_t>(row * columns + i)];
    const double center = sum / static_cast<double>(columns);
    for (std::int64_t i = 0; i < columns; ++i)
      square += std::pow(one.inputs[1][static_cast<std::size_t>(row * columns + i)] - center, 2);
    mean.push_back(static_cast<float>(center));
    rstd.push_back(static_cast<float>(1 / std::sqrt(square / static_cast<double>(columns) + 1e-5)));
  }
  one.inputs.push_back(mean);
  one.inputs.push_back(rstd);
  const auto width = static_cast<std::size_t>(columns);
  one.output_sizes = {one.inputs[0].size(), width, width};
  one.tolerance = kTolerance;
  one.run = [rows, columns](Run& run) {
    return run.ops.layernorm_backward(run.stream, run.workspace,
                                      {.dy = {run.in[0], {rows, columns}},
                                       .x = {run.in[1], {rows, columns}},
                                       .weight = {run.in[2], {columns}},
                                       .mean = {run.in[3], {rows}},
                                       .rstd = {run.in[4], {rows}},
                                       .dx = {run.out[0], {rows, columns}},
                                       .dweight = {run.out[1], {columns}},
                                       .dbias = {run.out[2], {columns}}});
  };
  one.reference = [width](const std::vector<Vector64>& in) {
    const Function64 forward = [](const std::vector<Vector64>& x) {
      return reference_layernorm(x[0], x[1], x[2]);
    };
    const std::vector<Vector64> at = {in[1], in[2], Vector64(width)};
    std::vector<Vector64> derivatives;
    for (std::size_t which = 0; which < 3; ++which)
      derivatives.push_back(differentiate(forward, at, which, in[0]));
    for (double& value : derivatives[0]) value += 0.5;
    return derivatives;
  };
  table.push_back(std::move(one));
}

void add_gelu(std::vector<Case>& table, std::int64_t count) {
  Case one;
  one.name = "gelu_backward " + shape_text({count});
  one.operation = "gelu_backward";
  one.inputs = {numbers(1, count), numbers(2, count, 9)};
  one.output_sizes = {one.inputs[0].size()};
  one.tolerance = kTolerance;
  one.run = [count](Run& run) {
    return run.ops.gelu_backward(
        run.stream, run.workspace,
        {.dy = {run.in[0], {count}}, .x = {run.in[1], {count}}, .dx = {run.out[0], {count}}});
  };
  one.reference = [](const std::vector<Vector64>& in) {
    const Function64 forward = [](const std::vector<Vector64>& x) { return reference_gelu(x[0]); };
    return std::vector<Vector64>{differentiate(forward, {in[1]}, 0, in[0])};
  };
  table.push_back(std::move(one));
}

void add_attention(std::vector<Case>& table, const AttentionShape& s) {
  Case one;
  one.name = "attention_backward " + s.text();
  one.operation = "attention_backward";
  one.inputs = {numbers(1, s.out().element_count()), numbers(2, s.qkv().element_count(), 2)};
  one.tokens = s.lengths;
  one.output_sizes = {one.inputs[1].size(),
                      static_cast<std::size_t>(s.statistics().element_count()),
                      one.inputs[0].size()};
  one.tolerance = kTolerance;
  one.run = [s](Run& run) -> Result<void> {
    auto done = run.ops.attention(run.stream, run.workspace,
                                  {.qkv = {run.in[1], s.qkv()},
                                   .heads = s.heads,
                                   .kv_heads = s.kv_heads(),
                                   .causal = s.causal,
                                   .lengths = s.length_tensor(run.tokens),
                                   .out = {run.out[2], s.out()},
                                   .statistics = {run.out[1], s.statistics()}});
    if (!done) return done;
    return run.ops.attention_backward(run.stream, run.workspace,
                                      {.dout = {run.in[0], s.out()},
                                       .qkv = {run.in[1], s.qkv()},
                                       .out = {run.out[2], s.out()},
                                       .statistics = {run.out[1], s.statistics()},
                                       .heads = s.heads,
                                       .kv_heads = s.kv_heads(),
                                       .causal = s.causal,
                                       .lengths = s.length_tensor(run.tokens),
                                       .dqkv = {run.out[0], s.qkv()}});
  };
  // Each place costs two evaluations of the definition: fewer of them where it is large.
  const std::int64_t cost = s.samples * s.heads * s.length * s.length * s.depth;
  const std::int64_t places = std::clamp<std::int64_t>(20'000'000 / cost, 16, 120);
  one.reference = [=](const std::vector<Vector64>& in) {
    const Function64 forward = [&](const std::vector<Vector64>& x) {
      return reference_attention(s, x[0])[0];
    };
    const Vector64 derivative =
        differentiate(forward, {in[1]}, 0, in[0], static_cast<std::size_t>(places));
    std::vector<Vector64> kept = reference_attention(s, in[1]);
    return std::vector<Vector64>{derivative, kept[1], kept[0]};
  };
  table.push_back(std::move(one));
}

void add_embedding(std::vector<Case>& table, std::int64_t samples, std::int64_t positions,
                   std::int64_t channels) {
  constexpr std::int64_t kVocabulary = 11;
  Case one;
  one.name = "embedding_backward " + shape_text({samples, positions, channels});
  one.operation = "embedding_backward";
  one.inputs = {numbers(1, samples * positions * channels)};
  one.output_sizes = {static_cast<std::size_t>(kVocabulary * channels),
                      static_cast<std::size_t>(positions * channels)};
  const auto tokens = token_numbers(2, samples * positions, kVocabulary);
  one.tokens = tokens;
  one.tolerance = kTolerance;
  one.run = [=](Run& run) {
    return run.ops.embedding_backward(run.stream, run.workspace,
                                      {.tokens = {run.tokens, {samples, positions}},
                                       .dx = {run.in[0], {samples, positions, channels}},
                                       .dtoken_table = {run.out[0], {kVocabulary, channels}},
                                       .dposition_table = {run.out[1], {positions, channels}}});
  };
  one.reference = [=](const std::vector<Vector64>& in) {
    std::vector<Vector64> sums = {Vector64(static_cast<std::size_t>(kVocabulary * channels), 0.5),
                                  Vector64(static_cast<std::size_t>(positions * channels), 0.0)};
    for (std::size_t place = 0; place < tokens.size(); ++place)
      for (std::int64_t c = 0; c < channels; ++c) {
        const double dx =
            in[0][place * static_cast<std::size_t>(channels) + static_cast<std::size_t>(c)];
        const auto position = static_cast<std::int64_t>(place) % positions;
        sums[0][static_cast<std::size_t>(tokens[place] * channels + c)] += dx;
        sums[1][static_cast<std::size_t>(position * channels + c)] += dx;
      }
    return sums;
  };
  table.push_back(std::move(one));
}

}  // namespace

void add_backward_cases(std::vector<Case>& table) {
  add_layernorm(table, 192, 128);
  add_layernorm(table, 4, 37);
  add_layernorm(table, 2, 8);
  add_layernorm(table, 603, 8);  // more parts of the weights' gradient than are added at a time
  for (std::int64_t columns : {513, 770, 1028}) add_layernorm(table, 3, columns);
  for (std::int64_t columns : {2051, 4100, 8196}) add_layernorm(table, 1, columns);
  for (std::int64_t count : {3, 1000, 4099}) add_gelu(table, count);
  for (const AttentionShape& shape :
       std::initializer_list<AttentionShape>{{1, 64, 1, 32},
                                             {2, 19, 3, 8},
                                             {1, 33, 2, 20},
                                             {1, 2, 1, 16},
                                             {2, 1, 2, 8, 2, false},
                                             {2, 5, 2, 8, 2, false},
                                             {1, 16, 4, 20, 2},
                                             {1, 17, 2, 64, 1, false},
                                             {1, 63, 4, 32, 4},
                                             {3, 65, 6, 20, 3, false, {65, 1, 40}},
                                             {1, 130, 2, 64, 2},
                                             {2, 130, 2, 8, 2, true, {130, 77}},
                                             {2, 130, 1, 32, 1, false, {129, 0}}})
    add_attention(table, shape);
  add_embedding(table, 3, 64, 128);
  add_embedding(table, 2, 5, 7);
  add_embedding(table, 3, 700, 4);  // more places than are looked through at a time
}

}  // namespace gpunode::parity
