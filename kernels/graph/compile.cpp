#include "kernels/graph/compile.hpp"

#include "kernels/graph/differentiate.hpp"
#include "kernels/graph/fuse.hpp"
#include "kernels/graph/stages.hpp"

namespace gpunode::graph {

Result<std::shared_ptr<const Executable>> compile(Graph graph, Purpose purpose, Passes passes) {
  if (purpose == Purpose::train) {
    if (auto done = differentiate(graph); !done) return done.error();
    if (passes.fuse) fuse(graph);
  } else {
    for (Node& node : graph.nodes) node.stage = 0;
    graph.forward_stages = 1;
  }
  arrange_stages(graph);
  return std::make_shared<const Executable>(std::move(graph));
}

}  // namespace gpunode::graph
