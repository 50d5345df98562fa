#include "kernels/graph/graph_text.hpp"

#include <cstdio>

#include "kernels/graph/op.hpp"

namespace gpunode::graph {
namespace {

std::string name_of(const Graph& graph, ValueId id) {
  if (id == kNone) return "-";
  const Value& value = graph[id];
  if (value.role == Role::gradient) {
    for (const ValueId parameter : graph.parameters)
      if (graph[parameter].first == value.first)
        return (graph[parameter].differentiable ? "d:" : "sum:") + graph[parameter].name;
  }
  return value.name.empty() ? "%" + std::to_string(id) : value.name;
}

std::string list_of(const Graph& graph, const std::vector<ValueId>& ids, bool shapes) {
  std::string text;
  for (const ValueId id : ids) {
    text += (text.empty() ? "" : ", ") + name_of(graph, id);
    if (shapes && id != kNone) text += " " + graph[id].shape.text();
  }
  return text;
}

std::string attributes_text(const Attributes& attributes) {
  std::string text;
  if (attributes.heads > 0) text += " heads=" + std::to_string(attributes.heads);
  if (attributes.kv_heads > 0) text += " kv_heads=" + std::to_string(attributes.kv_heads);
  if (attributes.causal) text += " causal";
  if (attributes.window > 0) text += " window=" + std::to_string(attributes.window);
  if (attributes.stride > 0) text += " stride=" + std::to_string(attributes.stride);
  if (attributes.padding > 0) text += " padding=" + std::to_string(attributes.padding);
  if (attributes.samples > 0) text += " samples=" + std::to_string(attributes.samples);
  if (attributes.rows > 0) text += " rows=" + std::to_string(attributes.rows);
  if (attributes.inverse) text += " inverse";
  if (attributes.form == ops::GeluForm::erf) text += " erf";
  if (attributes.precision != Precision::fp32)
    text += " " + std::string(to_string(attributes.precision));
  if (attributes.epsilon > 0) {
    char number[32];
    std::snprintf(number, sizeof number, " epsilon=%g", double{attributes.epsilon});
    text += number;
  }
  return text;
}

std::string stage_text(const Graph& graph, std::size_t stage) {
  const bool forward = stage < graph.forward_stages;
  const std::size_t number = forward ? stage : stage - graph.forward_stages;
  const auto& ranges = forward ? graph.read_first : graph.made_final;
  std::string text = (forward ? "forward " : "backward ") + std::to_string(number);
  if (number < ranges.size())
    text += std::string(forward ? " reads " : " makes ") + std::to_string(ranges[number].first) +
            "+" + std::to_string(ranges[number].count);
  return text + "\n";
}

}  // namespace

std::string text_of(const Graph& graph) {
  std::string text;
  for (const ValueId id : graph.inputs)
    text += "input " + graph[id].name + (graph[id].dtype == Dtype::i32 ? " i32 " : " f32 ") +
            graph[id].shape.text() + "\n";
  for (const Constant& one : graph.constants)
    text += "constant " + graph[one.value].name + " " + graph[one.value].shape.text() + "\n";
  for (const ValueId id : graph.parameters)
    text += (graph[id].differentiable ? "parameter " : "buffer ") + graph[id].name + " " +
            graph[id].shape.text() + " at " + std::to_string(graph[id].first) + "\n";
  std::size_t stage = ~std::size_t{0};
  for (const Node& node : graph.nodes) {
    if (node.stage != stage) text += stage_text(graph, stage = node.stage);
    text += "  " + list_of(graph, node.out, true) + " = " + std::string(row_of(node.op).name) +
            "(" + list_of(graph, node.in, false) + ")" + attributes_text(node.attributes) + "\n";
  }
  return text;
}

}  // namespace gpunode::graph
