// What a call of each operation costs at least: the rules that the rows of the table name. Flops are
// those of the formulas in kernels/ops (an addition, a product, a comparison, a root, an
// exponential: one each), of the arithmetic and not of an implementation: what attention's backward
// computes again is not counted, nor are terms that are one a row. Bytes are what must cross to
// memory once if no cache held anything before: operands read, results written.
#pragma once

#include "kernels/graph/op.hpp"

namespace gpunode::graph::costs {

inline double elements(const Graph& graph, ValueId id) {
  return id == kNone ? 0 : static_cast<double>(graph[id].element_count());
}
inline double bytes(const Graph& graph, ValueId id) {
  return id == kNone ? 0 : static_cast<double>(graph[id].bytes());
}

// So many for each element of the first result, or of the first operand.
template <int kFlops>
double each_result(const Graph& graph, const Node& node) {
  return kFlops * elements(graph, node.out[0]);
}
template <int kFlops>
double each_operand(const Graph& graph, const Node& node) {
  return kFlops * elements(graph, node.in[0]);
}
// The same, and an addition where the result starts from a given one, which is the last operand.
template <int kFlops>
double each_result_added(const Graph& graph, const Node& node) {
  const bool adds = node.in.back() != kNone;
  return (kFlops + (adds ? 1 : 0)) * elements(graph, node.out[0]);
}

double none(const Graph& graph, const Node& node);
double embedding(const Graph& graph, const Node& node);
double embedding_backward(const Graph& graph, const Node& node);
double linear(const Graph& graph, const Node& node);
double linear_gelu(const Graph& graph, const Node& node);
double linear_weight(const Graph& graph, const Node& node);
double linear_input(const Graph& graph, const Node& node);
double gelu(const Graph& graph, const Node& node);
double gelu_backward(const Graph& graph, const Node& node);
double attention(const Graph& graph, const Node& node);
double attention_backward(const Graph& graph, const Node& node);
double attention_paged(const Graph& graph, const Node& node);  // of a full cache
double rotary(const Graph& graph, const Node& node);
double conv2d(const Graph& graph, const Node& node);
double conv2d_backward(const Graph& graph, const Node& node);
double max_pool2d(const Graph& graph, const Node& node);

// Every operand and result once: the rule of a row that names no other.
double all_bytes(const Graph& graph, const Node& node);
double embedding_bytes(const Graph& graph, const Node& node);
double embedding_backward_bytes(const Graph& graph, const Node& node);
double take_rows_bytes(const Graph& graph, const Node& node);

}  // namespace gpunode::graph::costs
