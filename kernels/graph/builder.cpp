#include "kernels/graph/builder.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/graph/op.hpp"
#include "kernels/ops/conv2d.hpp"
#include "kernels/ops/rotary.hpp"

namespace gpunode::graph {
namespace {

std::int64_t last_extent(const tensor::Shape& shape) {
  return shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
}

tensor::Shape with_last(const tensor::Shape& shape, std::int64_t extent) {
  std::vector<std::int64_t> extents;
  for (int at = 0; at + 1 < shape.rank(); ++at) extents.push_back(shape[at]);
  extents.push_back(extent);
  return tensor::Shape(extents);
}

tensor::Shape rows_of(const tensor::Shape& shape) {
  return {shape.element_count() / std::max<std::int64_t>(last_extent(shape), 1)};
}

// Which operands are whole numbers; all others are floats.
bool takes_whole_numbers(Op op, std::size_t operand) {
  switch (op) {
    case Op::embedding:
      return operand == 0 || operand == 3 || operand == 5;  // tokens, segments, positions
    case Op::attention_paged:
      return operand >= 3;  // positions, texts, pages
    case Op::take_rows:
      return operand == 0;
    case Op::rotary:
      return operand == 2;  // positions
    case Op::attention:
      return operand == 1;  // lengths
    case Op::cross_entropy:
      return operand == 1;  // targets
    default:
      return false;
  }
}

bool is_epsilon(float epsilon) {
  return std::isfinite(epsilon) && epsilon >= 0;
}

constexpr std::int64_t kMostSteps = 1 << 20;  // of a stride, a padding, a window

bool moves(const Builder::Steps& steps) {
  return steps.stride > 0 && steps.stride <= kMostSteps && steps.padding >= 0 &&
         steps.padding <= kMostSteps;
}

}  // namespace

Builder::Builder(Options options) : options_(options) {
  if (!is_decoding()) return;
  const auto whole = [&](const char* name, tensor::Shape shape) {
    graph_.inputs.push_back(
        graph_.add({.name = name, .shape = shape, .dtype = Dtype::i32, .role = Role::input}));
    return graph_.inputs.back();
  };
  const Decoding& one = options_.decoding;
  const std::int64_t most = (one.context + one.page - 1) / one.page;
  graph_.decoding = {.positions = whole("positions", {1, options_.positions}),
                     .texts = whole("texts", {options_.positions}),
                     .pages = whole("pages", {one.texts, most}),
                     .chosen = whole("chosen", {1, one.chosen})};
}

void Builder::refuse(std::string text) {
  if (!failure_) failure_ = Error{ErrorCode::invalid_argument, std::move(text)};
}

tensor::Shape Builder::shape(ValueId operand) {
  if (knows(operand)) return graph_[operand].shape;
  if (bad_operand_.empty())
    bad_operand_ =
        operand == kNone ? "an operand is missing (kNone)" : "an operand is no value of this graph";
  return {};
}

tensor::Shape Builder::declared_shape(const std::string& name,
                                      std::span<const std::int64_t> extents) {
  if (extents.size() <= tensor::Shape::kMaxRank) return tensor::Shape(extents);
  refuse("'" + name + "' has " + std::to_string(extents.size()) +
         " dimensions, a tensor has at most four");
  return {1};
}

ValueId Builder::input(std::string name, Dtype dtype, std::initializer_list<std::int64_t> shape) {
  std::vector<std::int64_t> extents{options_.samples};
  extents.insert(extents.end(), shape);
  for (const ValueId other : graph_.inputs)
    if (graph_[other].name == name) refuse("two inputs are called '" + name + "'");
  const tensor::Shape all = declared_shape(name, extents);
  graph_.inputs.push_back(
      graph_.add({.name = std::move(name), .shape = all, .dtype = dtype, .role = Role::input}));
  return graph_.inputs.back();
}

ValueId Builder::parameter(std::string name, std::initializer_list<std::int64_t> shape,
                           Initial initial) {
  const tensor::Shape all = declared_shape(name, shape);
  const ValueId id = graph_.add({.name = prefix_ + std::move(name),
                                 .shape = all,
                                 .role = Role::parameter,
                                 .first = graph_.parameter_count,
                                 .differentiable = true});
  graph_.parameter_count += graph_[id].element_count();
  graph_.parameters.push_back(id);
  declared_.push_back({.value = id, .initial = initial, .decay = shape.size() > 1});
  return id;
}

ValueId Builder::buffer(std::string name, std::initializer_list<std::int64_t> shape,
                        Initial initial, float momentum) {
  const tensor::Shape all = declared_shape(name, shape);
  const ValueId id =
      graph_.add({.name = prefix_ + std::move(name), .shape = all, .role = Role::parameter});
  buffers_.push_back({.value = id, .initial = initial, .momentum = momentum});
  return id;
}

void Builder::place_buffers() {
  for (const Declared& one : buffers_) {
    Value& value = graph_[one.value];
    value.first = graph_.parameter_count;
    graph_.parameter_count += value.element_count();
    graph_.parameters.push_back(one.value);
    declared_.push_back(one);
  }
  // Until here such a gradient's `first` was the number of its buffer's value.
  for (const Node& node : graph_.measures)
    for (const ValueId sum : node.out) graph_[sum].first = graph_[graph_[sum].first].first;
  buffers_.clear();
}

ValueId Builder::constant(std::string name, std::initializer_list<std::int64_t> shape,
                          std::shared_ptr<const std::vector<float>> contents) {
  for (const Constant& one : graph_.constants)
    if (graph_[one.value].name == name) return one.value;
  if (!contents) {
    refuse("the constant '" + name + "' has no contents");
    contents = std::make_shared<const std::vector<float>>();
  }
  const tensor::Shape all = declared_shape(name, shape);
  constexpr std::size_t kAlignment = 16;  // elements, so that each begins at 64 bytes
  const ValueId id = graph_.add({.name = std::move(name),
                                 .shape = all,
                                 .role = Role::constant,
                                 .first = graph_.constant_count});
  if (contents->size() != graph_[id].element_count())
    refuse("the constant '" + graph_[id].name + "' has " + std::to_string(contents->size()) +
           " elements, its shape is " + graph_[id].shape.text());
  graph_.constant_count += (contents->size() + kAlignment - 1) / kAlignment * kAlignment;
  graph_.constants.push_back({id, std::move(contents)});
  return id;
}

std::vector<ValueId> Builder::node(Op op, std::vector<ValueId> in,
                                   std::vector<tensor::Shape> results, bool fits,
                                   Attributes attributes) {
  const std::string name(row_of(op).name);
  for (std::size_t at = 0; at < in.size(); ++at) {
    if (in[at] == kNone) continue;
    if (!knows(in[at])) {
      (void)shape(in[at]);
      in[at] = kNone;
    } else if (const bool whole = takes_whole_numbers(op, at);
               (graph_[in[at]].dtype == Dtype::i32) != whole) {
      refuse(name + " takes " + (whole ? "whole numbers (i32)" : "floats (f32)") +
             " as its operand " + std::to_string(at + 1));
    }
  }
  if (!bad_operand_.empty()) refuse(name + ": " + std::exchange(bad_operand_, {}));
  if (!fits) {
    std::string text = name + " cannot take";
    for (const ValueId id : in)
      if (id != kNone)
        text += " " + graph_[id].name + (graph_[id].name.empty() ? "" : " ") + shape(id).text();
    refuse(std::move(text));
  }
  const bool differentiable = std::any_of(
      in.begin(), in.end(), [&](ValueId id) { return id != kNone && graph_[id].differentiable; });
  Node made{
      .op = op, .in = std::move(in), .attributes = attributes, .stage = graph_.forward_stages - 1};
  for (const tensor::Shape& shape : results)
    made.out.push_back(graph_.add({.shape = shape, .differentiable = differentiable}));
  graph_.nodes.push_back(made);
  return made.out;
}

ValueId Builder::embedding(ValueId tokens, ValueId token_table, ValueId position_table,
                           ValueId segments, ValueId segment_table) {
  const std::int64_t channels = last_extent(shape(token_table));
  const auto is_table = [&](ValueId table) {
    return shape(table).rank() == 2 && shape(table)[1] == channels;
  };
  bool fits = shape(tokens).rank() == 2 && is_table(token_table);
  std::vector<ValueId> in{tokens, token_table, position_table};
  if (position_table != kNone)
    fits =
        fits && is_table(position_table) &&
        shape(position_table)[0] >= (is_decoding() ? options_.decoding.context : shape(tokens)[1]);
  if (segments != kNone) {
    fits = fits && segment_table != kNone && is_table(segment_table) &&
           shape(segments) == shape(tokens);
    in.insert(in.end(), {segments, segment_table});
  }
  if (is_decoding() && position_table != kNone) {
    in.resize(5, kNone);
    in.push_back(graph_.decoding.positions);
  }
  const tensor::Shape joined =
      fits ? tensor::Shape{shape(tokens)[0], shape(tokens)[1], channels} : tensor::Shape{};
  return node(Op::embedding, std::move(in), {joined}, fits)[0];
}

ValueId Builder::layernorm(ValueId x, ValueId weight, ValueId bias, float epsilon) {
  const std::int64_t channels = last_extent(shape(x));
  const tensor::Shape vector{channels}, rows = rows_of(shape(x));
  return node(Op::layernorm, {x, weight, bias}, {shape(x), rows, rows},
              shape(weight) == vector && shape(bias) == vector && is_epsilon(epsilon),
              {.epsilon = epsilon})[0];
}

ValueId Builder::rmsnorm(ValueId x, ValueId weight, float epsilon) {
  return node(Op::rmsnorm, {x, weight}, {shape(x), rows_of(shape(x))},
              shape(weight) == tensor::Shape{last_extent(shape(x))} && is_epsilon(epsilon),
              {.epsilon = epsilon})[0];
}

ValueId Builder::linear(ValueId x, ValueId weight, ValueId bias) {
  const tensor::Shape w = shape(weight);
  const bool fits = w.rank() == 2 && w[1] == last_extent(shape(x)) &&
                    (bias == kNone || shape(bias) == tensor::Shape{w[0]});
  return node(Op::linear, {x, weight, bias}, {with_last(shape(x), w.rank() == 2 ? w[0] : 1)},
              fits)[0];
}

ValueId Builder::gelu(ValueId x, ops::GeluForm form) {
  const bool fits = form == ops::GeluForm::tanh || form == ops::GeluForm::erf;
  return node(Op::gelu, {x}, {shape(x)}, fits, {.form = form})[0];
}

ValueId Builder::relu(ValueId x) {
  return node(Op::relu, {x}, {shape(x)}, true)[0];
}

ValueId Builder::tanh(ValueId x) {
  return node(Op::tanh, {x}, {shape(x)}, true)[0];
}

ValueId Builder::swiglu(ValueId x) {
  const std::int64_t width = last_extent(shape(x));
  return node(Op::swiglu, {x}, {with_last(shape(x), width / 2)}, width % 2 == 0 && width > 0)[0];
}

ValueId Builder::add(ValueId a, ValueId b) {
  return node(Op::add, {a, b}, {shape(a)}, shape(a) == shape(b))[0];
}

ValueId Builder::conv2d(ValueId x, ValueId weight, Steps steps) {
  const tensor::Shape image = shape(x), kernel = shape(weight);
  const bool fits = image.rank() == 4 && kernel.rank() == 4 && moves(steps) && kernel[0] > 0 &&
                    kernel[1] > 0 && kernel[2] > 0 && image[3] == kernel[3];
  const auto extent = [&](int at) {
    return ops::WindowExtent{image[at], kernel[at], steps.stride, steps.padding}.output();
  };
  tensor::Shape out;
  if (fits) out = {image[0], extent(1), extent(2), kernel[0]};
  return node(Op::conv2d, {x, weight}, {out}, fits && out[1] > 0 && out[2] > 0,
              {.stride = steps.stride, .padding = steps.padding})[0];
}

ValueId Builder::batchnorm(ValueId x, ValueId weight, ValueId bias, Statistics running,
                           float epsilon) {
  if (!options_.training && running.mean != kNone)
    return batchnorm_inference(x, weight, bias, running, epsilon);
  const tensor::Shape vector{last_extent(shape(x))};
  bool fits = shape(weight) == vector && shape(bias) == vector && is_epsilon(epsilon) &&
              (running.mean == kNone || running.mean != running.variance);
  for (const ValueId buffer : {running.mean, running.variance})
    fits = fits && (buffer == kNone) == (running.mean == kNone) &&
           (buffer == kNone || shape(buffer) == vector);
  const auto made = node(Op::batchnorm, {x, weight, bias}, {shape(x), vector, vector}, fits,
                         {.epsilon = epsilon});
  if (running.mean == kNone || !fits) return made[0];
  Node& measure = graph_.measures.emplace_back(
      Node{.op = Op::batchnorm_statistics,
           .in = {made[1], made[2]},
           .attributes = {.epsilon = epsilon,
                          .samples = options_.samples,
                          .rows = shape(x).element_count() / last_extent(shape(x))}});
  for (const ValueId buffer : {running.mean, running.variance})
    measure.out.push_back(graph_.add({.shape = vector, .role = Role::gradient, .first = buffer}));
  return made[0];
}

ValueId Builder::batchnorm_inference(ValueId x, ValueId weight, ValueId bias, Statistics statistics,
                                     float epsilon) {
  const tensor::Shape vector{last_extent(shape(x))};
  const bool fits = shape(weight) == vector && shape(bias) == vector &&
                    shape(statistics.mean) == vector && shape(statistics.variance) == vector &&
                    is_epsilon(epsilon);
  return node(Op::batchnorm_inference, {x, weight, bias, statistics.mean, statistics.variance},
              {shape(x), vector, vector}, fits, {.epsilon = epsilon})[0];
}

ValueId Builder::max_pool2d(ValueId x, std::int64_t window, Steps steps) {
  const tensor::Shape image = shape(x);
  const bool fits = image.rank() == 4 && window > 0 && window <= kMostSteps && moves(steps) &&
                    steps.padding < window;
  const auto extent = [&](int at) {
    return ops::WindowExtent{image[at], window, steps.stride, steps.padding}.output();
  };
  tensor::Shape out;
  if (fits) out = {image[0], extent(1), extent(2), image[3]};
  const auto results = node(Op::max_pool2d, {x}, {out, out}, fits && out[1] > 0 && out[2] > 0,
                            {.window = window, .stride = steps.stride, .padding = steps.padding});
  graph_[results[1]].dtype = Dtype::i32;
  return results[0];
}

ValueId Builder::mean_pool(ValueId x) {
  const bool fits = shape(x).rank() >= 2;
  tensor::Shape out;
  if (fits) out = {shape(x)[0], last_extent(shape(x))};
  return node(Op::mean_pool, {x}, {out}, fits)[0];
}

ValueId Builder::rotary(ValueId qkv, std::int64_t heads, std::int64_t kv_heads, double theta) {
  const tensor::Shape joined = shape(qkv);
  const std::int64_t all = heads + 2 * kv_heads;
  const std::int64_t head_size = all > 0 ? last_extent(joined) / all : 0;
  const bool fits = joined.rank() == 3 && heads > 0 && kv_heads > 0 && head_size > 0 &&
                    head_size % 2 == 0 && head_size * all == last_extent(joined);
  // In decoding the table reaches as far as a text may: it is that of training.
  const std::int64_t length = is_decoding() ? options_.decoding.context : options_.positions;
  ValueId angles = kNone;
  if (fits)
    angles =
        constant("angles." + std::to_string(head_size) + "." + std::to_string(std::llround(theta)),
                 {length, head_size / 2, 2},
                 ops::rotary_angles({.length = length, .head_size = head_size, .theta = theta}));
  std::vector<ValueId> in{qkv, angles};
  if (is_decoding()) in.push_back(graph_.decoding.positions);
  return node(Op::rotary, std::move(in), {joined}, fits, {.heads = heads, .kv_heads = kv_heads})[0];
}

ValueId Builder::attention(ValueId qkv, const AttentionOptions& options) {
  const tensor::Shape joined = shape(qkv);
  const std::int64_t H = options.heads, K = options.kv_heads == 0 ? H : options.kv_heads;
  bool fits = joined.rank() == 3 && H > 0 && K > 0 && H % K == 0 &&
              last_extent(joined) % (H + 2 * K) == 0 && (options.causal || !is_decoding());
  if (options.lengths != kNone)
    fits = fits && shape(options.lengths).element_count() == options_.samples &&
           graph_[options.lengths].dtype == Dtype::i32;
  const std::int64_t D = fits ? last_extent(joined) / (H + 2 * K) : 1;
  const tensor::Shape out = with_last(joined, H * D);
  Attributes attributes{.heads = H, .kv_heads = options.kv_heads, .causal = options.causal};
  if (!is_decoding())
    return node(Op::attention, {qkv, options.lengths},
                {out, {options_.samples, H, fits ? joined[1] : 1, 2}}, fits, attributes)[0];
  const Decoding& decoding = options_.decoding;
  std::vector<ValueId> in{qkv};
  for (const char* name : {"keys.", "values."}) {
    in.push_back(graph_.add({.name = name + std::to_string(graph_.caches.size() / 2),
                             .shape = {decoding.pages * decoding.page, K * D},
                             .role = Role::cache}));
    graph_.caches.push_back(in.back());
  }
  in.insert(in.end(), {graph_.decoding.positions, graph_.decoding.texts, graph_.decoding.pages});
  attributes.page = decoding.page;
  return node(Op::attention_paged, std::move(in), {out}, fits, attributes)[0];
}

ValueId Builder::predicting(ValueId x) {
  if (!is_decoding()) return x;
  return node(Op::take_rows, {graph_.decoding.chosen, x},
              {tensor::Shape{1, options_.decoding.chosen, last_extent(shape(x))}}, true)[0];
}

void Builder::represent(ValueId x) {
  if (graph_.represented != kNone) refuse("the model's forward pass calls represent() twice");
  if (shape(x).rank() != 3) refuse("represent: its operand is no (B, T, C)");
  if (!bad_operand_.empty()) refuse("represent: " + std::exchange(bad_operand_, {}));
  graph_.represented = x;
}

void Builder::predict(ValueId logits, ValueId targets) {
  if (graph_.logits != kNone) refuse("the model's forward pass calls predict() twice");
  graph_.logits = logits;
  graph_.targets = targets;
  const tensor::Shape rows = rows_of(shape(logits));
  // Decoding predicts what nobody knows yet.
  const tensor::Shape wanted = is_decoding() ? rows : shape(targets);
  if (!bad_operand_.empty()) return refuse("predict: " + std::exchange(bad_operand_, {}));
  if (is_decoding()) return;
  graph_.losses = node(
      Op::cross_entropy, {logits, targets}, {rows},
      graph_[targets].role == Role::input && rows.element_count() == wanted.element_count())[0];
}

Result<Graph> Builder::finish() {
  if (failure_) return *failure_;
  if (graph_.logits == kNone)
    return Error{ErrorCode::invalid_argument, "the model's forward pass never calls predict()"};
  if (options_.training)
    for (const Declared& one : buffers_)
      if (std::ranges::none_of(graph_.measures, [&](const Node& node) {
            return std::ranges::any_of(node.out,
                                       [&](ValueId sum) { return graph_[sum].first == one.value; });
          }))
        return Error{ErrorCode::invalid_argument,
                     "the buffer '" + graph_[one.value].name +
                         "' is measured by no batchnorm: declare it as a parameter"};
  place_buffers();
  return std::move(graph_);
}

}  // namespace gpunode::graph
