#include "kernels/graph/keep_weights.hpp"

#include <algorithm>

#include "kernels/graph/cut.hpp"

namespace gpunode::graph {
namespace {

bool is_linear(const Node& node) {
  return node.op == Op::linear || node.op == Op::linear_gelu;
}

// Whether this is the place of an operand that may be packed.
bool takes_packed(const Node& node, std::size_t operand) {
  return operand == 1 && (is_linear(node) || node.op == Op::embedding);
}

std::vector<bool> packable(const Graph& graph, ops::WeightFormat format) {
  std::vector<bool> may(graph.values.size());
  for (const ValueId id : graph.parameters) {
    const tensor::Shape& shape = graph[id].shape;
    may[id] = graph[id].differentiable && shape.rank() == 2 && ops::takes_rows_of(format, shape[1]);
  }
  for (const Node& node : graph.nodes)
    for (std::size_t operand = 0; operand < node.in.size(); ++operand)
      if (node.in[operand] != kNone && !takes_packed(node, operand)) may[node.in[operand]] = false;
  return may;
}

// Those parameters one behind the other; and layers with packed ones as these need them.
template <class Takes>
void place(Graph& graph, Takes takes) {
  constexpr std::size_t kWord = 4, kAlignment = 64;
  std::size_t bytes = 0;
  for (std::size_t at = 0; at < graph.parameters.size(); ++at) {
    Value& parameter = graph[graph.parameters[at]];
    parameter.first = bytes / kWord;
    if (takes(at)) bytes += (parameter.bytes() + kAlignment - 1) / kAlignment * kAlignment;
  }
  graph.parameter_count = bytes / kWord;
  for (Node& node : graph.nodes)
    if (is_linear(node) && graph[node.in[1]].format != ops::WeightFormat::fp32) {
      node.attributes.independent_rows = true;
      node.attributes.precision = Precision::fp32;
    }
}

}  // namespace

void choose_formats(Graph& graph, ops::WeightFormat format) {
  if (format == ops::WeightFormat::fp32) return;
  const std::vector<bool> may = packable(graph, format);
  for (const ValueId id : graph.parameters)
    if (may[id]) graph[id].format = format;
}

void place_weights(Graph& graph, ops::WeightFormat format) {
  if (format == ops::WeightFormat::fp32) return;
  place(graph, [](std::size_t) { return true; });
}

void place_part(Graph& graph) {
  const std::vector<bool> is_read =
      read_parameters(graph, {0, graph.forward_stages + graph.backward_stages});
  place(graph, [&](std::size_t at) { return is_read[at]; });
}

}  // namespace gpunode::graph
