// Takes nodes that one pass over memory can do together for one node. A fused node gives the bits of
// its parts (tests/parity/graph_test.cpp runs each model with the pass and without).
#pragma once

#include "kernels/graph/graph.hpp"

namespace gpunode::graph {

// Cross-entropy and its backward: the exponentials are there already.
void fuse(Graph& graph);

}  // namespace gpunode::graph
