// The weights of a graph that only answers, in another format than fp32: those that nothing but linear
// layers and embeddings reads, where their rows allow it. A layer with such a weight has independent
// rows. All parameters keep their order, and each begins at 64 bytes: where, as Value::first says in words
// of 4 bytes, follows from the model's parameters alone, not from how much is read at once.
#pragma once

#include "kernels/graph/graph.hpp"

namespace gpunode::graph {

// Leaves the graph as it is where the format is fp32.
void keep_weights(Graph& graph, ops::WeightFormat format);

}  // namespace gpunode::graph
