#include "kernels/graph/cost.hpp"

#include "kernels/graph/op.hpp"

namespace gpunode::graph {

Cost cost_of(const Graph& graph, const Node& node) {
  Cost cost;
  const OpRow& row = row_of(node.op);
  if (row.flops) cost.flops = row.flops(graph, node);
  if (row.bytes) return {cost.flops, row.bytes(graph, node)};
  for (const auto* operands : {&node.in, &node.out})
    for (const ValueId id : *operands)
      if (id != kNone) cost.bytes += static_cast<double>(graph[id].bytes());
  return cost;
}

Cost cost_of(const Graph& graph) {
  Cost cost;
  for (const Node& node : graph.nodes) cost += cost_of(graph, node);
  return cost;
}

}  // namespace gpunode::graph
