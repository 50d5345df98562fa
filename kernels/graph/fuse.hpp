// Takes nodes that one pass over memory can do together for one node. A fused node gives the bits of
// its parts on the CPU (tests/parity/model_graph_test.cpp runs each model with the pass and without);
// on a GPU a product in bf16 may end in the library's GELU, whose last bits are its own.
#pragma once

#include "kernels/graph/graph.hpp"

namespace gpunode::graph {

// Cross-entropy and its backward: the exponentials are there already. A residual's sum and the norm
// that reads it; a linear layer and its GELU. For graphs that differentiate() is done with.
void fuse(Graph& graph);

}  // namespace gpunode::graph
