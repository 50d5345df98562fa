#include "kernels/graph/differentiate.hpp"

#include <algorithm>

#include "kernels/graph/gradients.hpp"
#include "kernels/graph/op.hpp"

namespace gpunode::graph {

Result<void> differentiate(Graph& graph) {
  Gradients gradients(graph);
  const std::size_t stages = graph.forward_stages;
  const std::size_t forward_nodes = graph.nodes.size();
  for (Node& node : graph.measures) {
    node.stage = stages;
    graph.nodes.push_back(std::move(node));
  }
  graph.measures.clear();
  for (std::size_t at = forward_nodes; at-- > 0;) {
    const Node node = graph.nodes[at];  // a copy: the list grows
    // The losses are summed: their gradient is 1 each, and the rule of their operation knows it.
    const bool is_loss = node.out[0] == graph.losses;
    if (!is_loss && gradients.of(node.out[0]) == kNone) continue;
    const OpRow& row = row_of(node.op);
    if (!row.backward)
      return {ErrorCode::unsupported,
              "the operation " + std::string(row.name) +
                  " has no backward rule: a model that trains cannot use it"};
    gradients.set_stage(2 * stages - 1 - node.stage);
    row.backward(gradients, node);
  }
  for (const ValueId parameter : graph.parameters)
    if (graph[parameter].differentiable && gradients.so_far(parameter) == kNone)
      return {ErrorCode::invalid_argument, "the loss does not depend on the parameter '" +
                                               graph[parameter].name + "': leave it out"};
  graph.backward_stages = stages;
  return {};
}

}  // namespace gpunode::graph
