#include "kernels/graph/compile.hpp"

#include <algorithm>

#include "kernels/graph/differentiate.hpp"
#include "kernels/graph/fuse.hpp"
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

}  // namespace

Result<std::shared_ptr<const Executable>> compile(Graph graph, Purpose purpose, Passes passes) {
  if (purpose == Purpose::train) {
    if (auto done = differentiate(graph); !done) return done.error();
  } else {
    for (Node& node : graph.nodes) node.stage = 0;
    graph.forward_stages = 1;
  }
  if (passes.fuse) fuse(graph);
  set_precision(graph, passes.precision);
  arrange_stages(graph);
  return std::make_shared<const Executable>(std::move(graph));
}

}  // namespace gpunode::graph
