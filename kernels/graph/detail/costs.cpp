// The rules of cost that are more than a number an element.
#include "kernels/graph/detail/costs.hpp"

#include <algorithm>

namespace gpunode::graph::costs {
namespace {

struct AttentionShape {
  double matrices;  // B * heads
  double rows;      // queries of each
  double width;     // of a head
  double pairs;     // of queries and keys that see each other
};

AttentionShape attention_shape(const Graph& graph, const Node& node, ValueId qkv) {
  const tensor::Shape& shape = graph[qkv].shape;  // (B, T, (heads + 2*kv_heads) * width)
  const std::int64_t heads = node.attributes.heads;
  const std::int64_t kv_heads = node.attributes.kv_heads == 0 ? heads : node.attributes.kv_heads;
  const auto T = static_cast<double>(shape[shape.rank() - 2]);
  const auto width = static_cast<double>(shape[shape.rank() - 1] / (heads + 2 * kv_heads));
  const double samples = shape.rank() == 3 ? static_cast<double>(shape[0]) : 1;
  const double pairs = node.attributes.causal ? T * (T + 1) / 2 : T * T;
  return {samples * static_cast<double>(heads), T, width, pairs};
}

// Of a score: its scale, the largest, the distance from it, its exponential, the sum of these.
constexpr double kSoftmax = 5;

}  // namespace

double none(const Graph&, const Node&) {
  return 0;
}

// A sum of rows of the tables that are there.
double embedding(const Graph& graph, const Node& node) {
  const double sums = (node.in[2] == kNone ? 0 : 1) + (node.in.size() > 4 ? 1 : 0);
  return sums * elements(graph, node.out[0]);
}

// Each row of dx is added to one row of each table.
double embedding_backward(const Graph& graph, const Node& node) {
  const auto tables = std::ranges::count_if(node.out, [](ValueId id) { return id != kNone; });
  return static_cast<double>(tables) * elements(graph, node.in[1]);
}

double linear(const Graph& graph, const Node& node) {
  const auto inner = static_cast<double>(graph[node.in[1]].shape[1]);
  return elements(graph, node.out[0]) * (2 * inner + (node.in[2] == kNone ? 0 : 1));
}

double linear_weight(const Graph& graph, const Node& node) {
  // dy (R, N): the product's inner length is R.
  const double rows =
      elements(graph, node.in[0]) / static_cast<double>(graph[node.out[0]].shape[0]);
  return elements(graph, node.out[0]) * 2 * rows;
}

double linear_input(const Graph& graph, const Node& node) {
  return elements(graph, node.out[0]) * 2 * static_cast<double>(graph[node.in[1]].shape[0]);
}

double gelu(const Graph& graph, const Node& node) {
  return elements(graph, node.out[0]) * (node.attributes.form == ops::GeluForm::tanh ? 9 : 5);
}

double linear_gelu(const Graph& graph, const Node& node) {
  return linear(graph, node) + gelu(graph, node);
}

double gelu_backward(const Graph& graph, const Node& node) {
  return elements(graph, node.out[0]) * (node.attributes.form == ops::GeluForm::tanh ? 18 : 11);
}

// Scores and the weighted sum of values.
double attention(const Graph& graph, const Node& node) {
  const AttentionShape shape = attention_shape(graph, node, node.in[0]);
  return shape.matrices * shape.pairs * (2 * 2 * shape.width + kSoftmax);
}

// The gradients of values, weights, queries and keys; through the softmax, a row's product of dout
// and out, then a difference, a product and the scale.
double attention_backward(const Graph& graph, const Node& node) {
  const AttentionShape shape = attention_shape(graph, node, node.in[1]);
  return shape.matrices * (shape.pairs * (4 * 2 * shape.width + 3) + shape.rows * 2 * shape.width);
}

double attention_paged(const Graph& graph, const Node& node) {
  const AttentionShape shape = attention_shape(graph, node, node.in[0]);
  const auto most = static_cast<double>(graph[node.in[5]].shape[1] * node.attributes.page);
  return shape.matrices * shape.rows * most * (2 * 2 * shape.width + kSoftmax);
}

// A pair of a query's or key's elements is turned by four products and two sums.
double rotary(const Graph& graph, const Node& node) {
  const double heads = static_cast<double>(node.attributes.heads);
  const double kv_heads =
      node.attributes.kv_heads == 0 ? heads : static_cast<double>(node.attributes.kv_heads);
  return 3 * elements(graph, node.out[0]) * (heads + kv_heads) / (heads + 2 * kv_heads);
}

// The kernel's elements by channels, at each place of the result; padding is counted as work.
double conv2d(const Graph& graph, const Node& node) {
  const Value& weight = graph[node.in[1]];  // (N, ...)
  const double inner = elements(graph, node.in[1]) / static_cast<double>(weight.shape[0]);
  return elements(graph, node.out[0]) * 2 * inner;
}

double conv2d_backward(const Graph& graph, const Node& node) {
  const Value& weight = graph[node.in[2]];
  const double inner = elements(graph, node.in[2]) / static_cast<double>(weight.shape[0]);
  const auto products = std::ranges::count_if(node.out, [](ValueId id) { return id != kNone; });
  return static_cast<double>(products) * elements(graph, node.in[0]) * 2 * inner;
}

double max_pool2d(const Graph& graph, const Node& node) {
  const auto window = static_cast<double>(node.attributes.window);
  return elements(graph, node.out[0]) * window * window;
}

double all_bytes(const Graph& graph, const Node& node) {
  double sum = 0;
  for (const ValueId id : node.in) sum += bytes(graph, id);
  for (const ValueId id : node.out) sum += bytes(graph, id);
  return sum;
}

// Of the large tables only the rows that are asked for.
double embedding_bytes(const Graph& graph, const Node& node) {
  const double x = bytes(graph, node.out[0]);
  double sum = bytes(graph, node.in[0]) + x + x;
  if (node.in[2] != kNone) {
    const auto samples = static_cast<double>(graph[node.out[0]].shape[0]);
    sum += std::min(bytes(graph, node.in[2]), x / samples);
  }
  if (node.in.size() > 4) sum += bytes(graph, node.in[3]) + bytes(graph, node.in[4]);
  return sum;
}

// A table that is given is changed in the rows that were asked for; a new one is written in all.
double embedding_backward_bytes(const Graph& graph, const Node& node) {
  const double dx = bytes(graph, node.in[1]);
  double sum = bytes(graph, node.in[0]) + dx;
  sum += node.in[2] == kNone ? bytes(graph, node.out[0]) : 2 * dx;
  for (std::size_t at = 3; at < node.in.size(); ++at) sum += bytes(graph, node.in[at]);
  for (std::size_t at = 1; at < node.out.size(); ++at) sum += bytes(graph, node.out[at]);
  return sum;
}

double take_rows_bytes(const Graph& graph, const Node& node) {
  return 2 * bytes(graph, node.out[0]);
}

}  // namespace gpunode::graph::costs
