// Where forward and backward may pause. A builder's pauses are wishes: stages become such that the
// parameters that each reads first, and the gradients that each makes final, are one range of the
// flat vector, and none is so small that its own message costs more than waiting for the next.
#pragma once

#include "kernels/graph/graph.hpp"

namespace gpunode::graph {

// Puts a part of a gradient to which a later node adds (tied weights) right before that node, so
// that it is written in the stage in which it is final; then joins stages and fills in read_first
// and made_final. After differentiate(); a graph without backward gets read_first alone.
void arrange_stages(Graph& graph);

}  // namespace gpunode::graph
