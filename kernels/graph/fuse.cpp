#include "kernels/graph/fuse.hpp"

#include <algorithm>

namespace gpunode::graph {

void fuse(Graph& graph) {
  const auto forward = std::ranges::find(graph.nodes, Op::cross_entropy, &Node::op);
  const auto backward = std::ranges::find(graph.nodes, Op::cross_entropy_backward, &Node::op);
  if (forward == graph.nodes.end() || backward == graph.nodes.end()) return;
  forward->op = Op::cross_entropy_both;
  forward->out.push_back(backward->out[0]);
  graph.nodes.erase(backward);
}

}  // namespace gpunode::graph
