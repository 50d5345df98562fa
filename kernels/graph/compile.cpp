#include "kernels/graph/compile.hpp"

#include <algorithm>

#include "kernels/graph/differentiate.hpp"
#include "kernels/graph/fuse.hpp"
#include "kernels/graph/keep_weights.hpp"
#include "kernels/graph/stages.hpp"

namespace gpunode::graph {
namespace {

void set_precision(Graph& graph, Precision precision) {
  constexpr Op kWithProducts[] = {Op::linear,       Op::linear_gelu, Op::linear_weight,
                                  Op::linear_input, Op::attention,   Op::attention_backward};
  for (Node& node : graph.nodes)
    if (std::ranges::find(kWithProducts, node.op) != std::end(kWithProducts))
      node.attributes.precision = precision;
}

void set_independent_rows(Graph& graph) {
  for (Node& node : graph.nodes)
    if (node.op == Op::linear || node.op == Op::linear_gelu)
      node.attributes.independent_rows = true;
}

// Leaves out what comes behind it.
void keep_representation(Graph& graph) {
  std::vector<bool> needed(graph.values.size());
  needed[graph.represented] = true;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node)
    if (std::ranges::any_of(node->out, [&](ValueId id) { return id != kNone && needed[id]; }))
      for (const ValueId id : node->in)
        if (id != kNone) needed[id] = true;
  std::erase_if(graph.nodes, [&](const Node& node) {
    return std::ranges::none_of(node.out, [&](ValueId id) { return id != kNone && needed[id]; });
  });
  graph.logits = graph.represented;
  graph.losses = kNone;
}

}  // namespace

Result<std::shared_ptr<const Executable>> compile(Graph graph, Purpose purpose, Passes passes) {
  choose_formats(graph, passes.weights);
  if (purpose == Purpose::represent) keep_representation(graph);
  if (passes.part)
    if (auto done = keep_stages(graph, *passes.part); !done) return done.error();
  if (purpose == Purpose::train) {
    if (auto done = differentiate(graph); !done) return done.error();
  } else {
    for (Node& node : graph.nodes) node.stage = 0;
    graph.forward_stages = 1;
  }
  if (passes.fuse) fuse(graph);
  set_precision(graph, passes.precision);
  if (passes.independent_rows) set_independent_rows(graph);
  arrange_stages(graph);
  if (passes.part)
    place_part(graph);
  else
    place_weights(graph, passes.weights);
  return std::make_shared<const Executable>(std::move(graph));
}

}  // namespace gpunode::graph
