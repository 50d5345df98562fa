// The weights of a graph that only answers, in another format than fp32: those that nothing but linear
// layers and embeddings reads, where their rows allow it. A layer with such a weight has independent
// rows. All parameters keep their order, and each begins at 64 bytes: where, as Value::first says in words
// of 4 bytes, follows from the model's whole forward pass, not from how much is read at once.
#pragma once

#include "kernels/graph/graph.hpp"

namespace gpunode::graph {

// Of a graph from which nothing was left out yet.
void choose_formats(Graph& graph, ops::WeightFormat format);
// Once its nodes are final. Both leave the graph as it is where the format is fp32.
void place_weights(Graph& graph, ops::WeightFormat format);
// The same of one part of a graph, in any format: parameters that its nodes do not read take no room.
void place_part(Graph& graph);

}  // namespace gpunode::graph
