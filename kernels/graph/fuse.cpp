#include "kernels/graph/fuse.hpp"

#include <algorithm>

namespace gpunode::graph {
namespace {

void fuse_loss(Graph& graph) {
  const auto forward = std::ranges::find(graph.nodes, Op::cross_entropy, &Node::op);
  const auto backward = std::ranges::find(graph.nodes, Op::cross_entropy_backward, &Node::op);
  if (forward == graph.nodes.end() || backward == graph.nodes.end()) return;
  forward->op = Op::cross_entropy_both;
  forward->out.push_back(backward->out[0]);
  graph.nodes.erase(backward);
}

bool reads(const Node& node, ValueId value) {
  return std::ranges::find(node.in, value) != node.in.end();
}

// Whether something else than the node that it goes to needs the value.
bool is_kept(const Graph& graph, ValueId value, const Node& goes_to) {
  if (value == graph.logits || value == graph.losses) return true;
  return std::ranges::any_of(
      graph.nodes, [&](const Node& one) { return &one != &goes_to && reads(one, value); });
}

// One node for a sum and the norm of it, where the norm is: what is added waits until then.
bool join_sum(const Graph&, const Node& sum, Node& norm) {
  if (sum.op != Op::add || (norm.op != Op::layernorm && norm.op != Op::rmsnorm)) return false;
  norm.op = norm.op == Op::layernorm ? Op::add_layernorm : Op::add_rmsnorm;
  norm.in.insert(norm.in.begin(), sum.in[0]);
  norm.in[1] = sum.in[1];
  norm.out.insert(norm.out.begin(), sum.out[0]);
  return true;
}

// One node for a linear layer and GELU of it. What was before GELU is kept for who needs it.
bool join_gelu(const Graph& graph, const Node& linear, Node& gelu) {
  if (linear.op != Op::linear || gelu.op != Op::gelu || linear.stage != gelu.stage) return false;
  const ValueId before = linear.out[0];
  gelu.out.push_back(is_kept(graph, before, gelu) ? before : kNone);
  gelu.op = Op::linear_gelu;
  gelu.in = linear.in;
  return true;
}

}  // namespace

void fuse(Graph& graph) {
  fuse_loss(graph);
  for (std::size_t at = 0; at < graph.nodes.size();) {
    const ValueId value = graph.nodes[at].out[0];
    const auto next =
        std::find_if(graph.nodes.begin() + static_cast<std::ptrdiff_t>(at) + 1, graph.nodes.end(),
                     [&](const Node& one) { return reads(one, value); });
    if (next != graph.nodes.end() && next->in[0] == value &&
        (join_sum(graph, graph.nodes[at], *next) || join_gelu(graph, graph.nodes[at], *next)))
      graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(at));
    else
      ++at;
  }
}

}  // namespace gpunode::graph
