// Rows of the parity table: what models of text other than GPT need.
#include <algorithm>
#include <cmath>

#include "kernels/ops/rotary.hpp"
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

struct RotaryCase {
  std::int64_t samples, length, heads, key_heads, depth, first;
  // Given where they do not begin at 0: then every row has one of its own.
  std::int64_t position(std::int64_t row) const {
    return first == 0 ? row % length : first + (3 * row + row / length) % length;
  }
  std::int64_t width() const { return (heads + 2 * key_heads) * depth; }
};
constexpr double kTheta = 500;

// (B, T, (H + 2*K) * D) -> the same
Vector64 reference_rotary(const RotaryCase& s, Vector64 x) {
  for (std::int64_t row = 0; row < s.samples * s.length; ++row)
    for (std::int64_t head = 0; head < s.heads + s.key_heads; ++head)
      for (std::int64_t i = 0; i < s.depth / 2; ++i) {
        const auto position = static_cast<double>(s.position(row));
        const double angle = position * std::pow(kTheta, -2.0 * static_cast<double>(i) /
                                                             static_cast<double>(s.depth));
        double& a = x[size_of(row * s.width() + head * s.depth + i)];
        double& b = x[size_of(row * s.width() + head * s.depth + i + s.depth / 2)];
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = b * std::cos(angle) + a * std::sin(angle);
        a = turned;
      }
  return x;
}

// Forward; and the other way, which is the gradient of forward.
void add_rotary(std::vector<Case>& table, const RotaryCase& s) {
  const std::int64_t length = s.first + s.length, count = s.samples * s.length * s.width();
  for (const bool inverse : {false, true}) {
    Case one;
    one.name = std::string(inverse ? "rotary inverse " : "rotary ") +
               shape_text({s.samples, s.length, s.heads, s.key_heads, s.depth});
    one.operation = "rotary";
    one.inputs = {numbers(1, count),
                  *ops::rotary_angles({.length = length, .head_size = s.depth, .theta = kTheta}),
                  Vector(size_of(count))};
    one.output_sizes = {size_of(count)};
    one.tolerance = 1e-6;
    if (s.first > 0)
      for (std::int64_t row = 0; row < s.samples * s.length; ++row)
        one.tokens.push_back(static_cast<std::int32_t>(s.position(row)));
    one.run = [=](Run& run) -> Result<void> {
      const tensor::Tensor x{run.out[0], {s.samples, s.length, s.width()}};
      auto copied = run.ops.add(run.stream, run.workspace,
                                {.a = {run.in[0], x.shape}, .b = {run.in[2], x.shape}, .out = x});
      if (!copied) return copied;
      return run.ops.rotary(
          run.stream, run.workspace,
          {.angles = {run.in[1], {length, s.depth / 2, 2}},
           .x = x,
           .heads = s.heads,
           .key_heads = s.key_heads,
           .inverse = inverse,
           .positions = {s.first > 0 ? run.tokens : nullptr, {s.samples, s.length}}});
    };
    one.reference = [=](const std::vector<Vector64>& in) {
      if (!inverse) return std::vector<Vector64>{reference_rotary(s, in[0])};
      const Function64 function = [=](const std::vector<Vector64>& x) {
        return reference_rotary(s, x[0]);
      };
      return std::vector<Vector64>{differentiate(function, {in[2]}, 0, in[0])};
    };
    table.push_back(std::move(one));
  }
}

// Operations on each element alone, and their derivatives.
struct Curve {
  std::string name;
  double range, tolerance;
  double (*value)(double);
  Result<void> (*forward)(Run& run, tensor::ConstTensor x, tensor::Tensor y);
  // `x` and `y`: operand and result of forward
  Result<void> (*backward)(Run& run, tensor::ConstTensor dy, tensor::ConstTensor x,
                           tensor::ConstTensor y, tensor::Tensor dx);
};

const Curve kCurves[] = {
    {"gelu", 9, 3e-7, [](double x) { return x / 2 * std::erfc(-x / std::sqrt(2.0)); },
     [](Run& run, tensor::ConstTensor x, tensor::Tensor y) {
       return run.ops.gelu(run.stream, run.workspace, {.x = x, .y = y, .form = ops::GeluForm::erf});
     },
     [](Run& run, tensor::ConstTensor dy, tensor::ConstTensor x, tensor::ConstTensor,
        tensor::Tensor dx) {
       return run.ops.gelu_backward(run.stream, run.workspace,
                                    {.dy = dy, .x = x, .dx = dx, .form = ops::GeluForm::erf});
     }},
    {"relu", 3, 0, [](double x) { return x > 0 ? x : 0; },
     [](Run& run, tensor::ConstTensor x, tensor::Tensor y) {
       return run.ops.relu(run.stream, run.workspace, {.x = x, .y = y});
     },
     [](Run& run, tensor::ConstTensor dy, tensor::ConstTensor, tensor::ConstTensor y,
        tensor::Tensor dx) {
       return run.ops.relu_backward(run.stream, run.workspace, {.dy = dy, .y = y, .dx = dx});
     }},
    {"tanh", 4, 1e-7, [](double x) { return std::tanh(x); },
     [](Run& run, tensor::ConstTensor x, tensor::Tensor y) {
       return run.ops.tanh(run.stream, run.workspace, {.x = x, .y = y});
     },
     [](Run& run, tensor::ConstTensor dy, tensor::ConstTensor, tensor::ConstTensor y,
        tensor::Tensor dx) {
       return run.ops.tanh_backward(run.stream, run.workspace, {.dy = dy, .y = y, .dx = dx});
     }}};

void add_curve(std::vector<Case>& table, const Curve& curve, std::int64_t count) {
  const tensor::Shape shape{count};
  const auto reference = [value = curve.value](const std::vector<Vector64>& x) {
    Vector64 y;
    for (const double one : x[0]) y.push_back(value(one));
    return y;
  };
  Case one;
  one.name = curve.name + (curve.name == "gelu" ? " erf " : " ") + shape.text();
  one.operation = curve.name;
  one.inputs = {numbers(1, count, curve.range)};
  one.output_sizes = {size_of(count)};
  one.tolerance = curve.tolerance;
  one.run = [=, forward = curve.forward](Run& run) {
    return forward(run, {run.in[0], shape}, {run.out[0], shape});
  };
  one.reference = [=](const std::vector<Vector64>& in) {
    return std::vector<Vector64>{reference(in)};
  };
  table.push_back(one);

  one.name = curve.name + "_backward" + (curve.name == "gelu" ? " erf " : " ") + shape.text();
  one.operation = curve.name + "_backward";
  one.inputs.push_back(numbers(2, count));
  one.output_sizes.push_back(size_of(count));
  one.tolerance = 1e-6;
  one.run = [=](Run& run) -> Result<void> {
    const tensor::ConstTensor x{run.in[0], shape};
    const tensor::Tensor y{run.out[1], shape};
    if (auto done = curve.forward(run, x, y); !done) return done;
    return curve.backward(run, {run.in[1], shape}, x, y, {run.out[0], shape});
  };
  one.reference = [=](const std::vector<Vector64>& in) {
    return std::vector<Vector64>{differentiate(reference, {in[0]}, 0, in[1], 1000),
                                 Vector64(in[0].size(), std::nan(""))};
  };
  table.push_back(std::move(one));
}

// Each second row has no target.
void add_cross_entropy(std::vector<Case>& table, std::int64_t rows, std::int64_t columns) {
  Case one;
  one.name = "cross_entropy without some targets " + shape_text({rows, columns});
  one.operation = "cross_entropy";
  one.inputs = {numbers(1, rows * columns, 8)};
  one.output_sizes = {size_of(rows), one.inputs[0].size()};
  one.tolerance = kTolerance;
  auto targets = token_numbers(2, rows, columns);
  for (std::size_t row = 0; row < targets.size(); row += 2) targets[row] = ops::kNoTarget;
  one.tokens = targets;
  one.run = [=](Run& run) {
    return run.ops.cross_entropy(run.stream, run.workspace,
                                 {.logits = {run.in[0], {rows, columns}},
                                  .targets = {run.tokens, {rows}},
                                  .losses = {run.out[0], {rows}},
                                  .dlogits = {run.out[1], {rows, columns}}});
  };
  one.reference = [=](const std::vector<Vector64>& in) {
    const Function64 losses = [&](const std::vector<Vector64>& x) {
      auto all = targets;
      for (std::int32_t& target : all) target = std::max(target, 0);
      Vector64 values = reference_losses(x[0], all);
      for (std::size_t row = 0; row < all.size(); ++row)
        if (targets[row] < 0) values[row] = 0;
      return values;
    };
    return std::vector<Vector64>{losses(in),
                                 differentiate(losses, in, 0, Vector64(size_of(rows), 1.0))};
  };
  table.push_back(std::move(one));
}

struct EmbeddingCase {
  std::int64_t samples, positions, channels;
  bool has_positions, has_segments;
  std::int64_t more = 2;  // positions that the table has beyond T
  std::string text() const {
    return shape_text({samples, positions, channels}) + (has_positions ? " positions" : "") +
           (has_segments ? " segments" : "");
  }
};

// Three tables -> (B, T, C)
Vector64 reference_embedding(const EmbeddingCase& s, const std::vector<std::int32_t>& tokens,
                             const std::vector<std::int32_t>& segments,
                             const std::vector<Vector64>& in) {
  Vector64 x;
  for (std::int64_t place = 0; place < s.samples * s.positions; ++place)
    for (std::int64_t c = 0; c < s.channels; ++c) {
      double sum = in[0][size_of(tokens[size_of(place)] * s.channels + c)];
      if (s.has_positions) sum += in[1][size_of(place % s.positions * s.channels + c)];
      if (s.has_segments) sum += in[2][size_of(segments[size_of(place)] * s.channels + c)];
      x.push_back(sum);
    }
  return x;
}

// Without positions (Llama) or with segments (BERT); both tables of tokens have these rows.
void add_embedding(std::vector<Case>& table, const EmbeddingCase& s) {
  constexpr std::int64_t kVocabulary = 11, kSegments = 3;
  const std::int64_t places = s.samples * s.positions, length = s.more + s.positions;
  const auto tokens = token_numbers(3, places, kVocabulary);
  const auto segments = token_numbers(4, places, kSegments);
  const tensor::Shape shape{s.samples, s.positions}, wide{s.samples, s.positions, s.channels};
  Case one;
  one.tokens = tokens;  // then segments
  one.tokens.insert(one.tokens.end(), segments.begin(), segments.end());
  one.name = "embedding " + s.text();
  one.operation = "embedding";
  one.inputs = {numbers(1, kVocabulary * s.channels), numbers(2, length * s.channels),
                numbers(3, kSegments * s.channels)};
  one.output_sizes = {size_of(places * s.channels)};
  one.run = [=](Run& run) {
    ops::EmbeddingArgs args{.tokens = {run.tokens, shape},
                            .token_table = {run.in[0], {kVocabulary, s.channels}},
                            .position_table = {},
                            .x = {run.out[0], wide}};
    if (s.has_positions) args.position_table = {run.in[1], {length, s.channels}};
    if (s.has_segments) {
      args.segments = {run.tokens + places, shape};
      args.segment_table = {run.in[2], {kSegments, s.channels}};
    }
    return run.ops.embedding(run.stream, run.workspace, args);
  };
  const Function64 forward = [=](const std::vector<Vector64>& in) {
    return reference_embedding(s, tokens, segments, in);
  };
  one.reference = [=](const std::vector<Vector64>& in) {
    return std::vector<Vector64>{forward(in)};
  };
  table.push_back(one);

  one.name = "embedding_backward " + s.text();
  one.operation = "embedding_backward";
  one.inputs = {numbers(5, places * s.channels)};
  one.output_sizes = {size_of(kVocabulary * s.channels), size_of(length * s.channels),
                      size_of(kSegments * s.channels)};
  one.run = [=](Run& run) {
    ops::EmbeddingBackwardArgs args{.tokens = {run.tokens, shape},
                                    .dx = {run.in[0], wide},
                                    .dtoken_table = {run.out[0], {kVocabulary, s.channels}},
                                    .dposition_table = {}};
    // The gradient of a whole table; rows behind it are somebody else's.
    if (s.has_positions) args.dposition_table = {run.out[1], {s.positions, s.channels}};
    if (s.has_segments) {
      args.segments = {run.tokens + places, shape};
      args.dsegment_table = {run.out[2], {kSegments, s.channels}};
    }
    return run.ops.embedding_backward(run.stream, run.workspace, args);
  };
  one.tolerance = kTolerance;
  one.reference = [=](const std::vector<Vector64>& in) {
    std::vector<Vector64> tables = {Vector64(size_of(kVocabulary * s.channels)),
                                    Vector64(size_of(length * s.channels)),
                                    Vector64(size_of(kSegments * s.channels))};
    std::vector<Vector64> slopes;
    for (std::size_t which = 0; which < 3; ++which)
      slopes.push_back(differentiate(forward, tables, which, in[0]));
    for (double& slope : slopes[0]) slope += 0.5;
    const auto written = s.has_positions ? size_of(s.positions * s.channels) : 0;
    std::fill(slopes[1].begin() + static_cast<std::ptrdiff_t>(written), slopes[1].end(), 0.5);
    if (!s.has_segments) slopes[2].assign(slopes[2].size(), 0.5);
    return slopes;
  };
  table.push_back(std::move(one));
}

}  // namespace

void add_sequence_cases(std::vector<Case>& table) {
  add_rmsnorm(table, 64, 128, 1e-5f);
  add_rmsnorm(table, 3, 37, 1e-3f);
  add_rmsnorm(table, 2, 8, 1e-6f);
  add_rmsnorm(table, 130, 12, 1e-5f);
  add_rmsnorm(table, 603, 8, 1e-5f);
  add_rmsnorm(table, 1, 2052, 1e-5f);
  for (auto [rows, width] : {std::pair<std::int64_t, std::int64_t>{32, 96}, {3, 37}, {1, 1}})
    add_swiglu(table, rows, width);
  for (const RotaryCase& shape : {RotaryCase{2, 33, 4, 2, 64, 0}, {1, 5, 3, 1, 6, 4}})
    add_rotary(table, shape);
  for (const Curve& curve : kCurves)
    for (const std::int64_t count : {1, 31, 4099}) add_curve(table, curve, count);
  add_cross_entropy(table, 9, 65);
  for (const EmbeddingCase& shape :
       {EmbeddingCase{2, 9, 40, false, false}, {2, 5, 7, false, true}, {3, 9, 40, true, true}})
    add_embedding(table, shape);
}

}  // namespace gpunode::parity
