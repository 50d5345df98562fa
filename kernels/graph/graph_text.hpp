// A graph as text, a node a line, for a reader and for the files that tests hold graphs against
// (tests/parity/graphs).
#pragma once

#include <string>

#include "kernels/graph/graph.hpp"

namespace gpunode::graph {

// "  %7 (4, 64, 128), %8, %9 = layernorm(%3, norm1.weight, norm1.bias)", under a line for each stage
// with the elements of the flat vector that it reads first or makes final.
std::string text_of(const Graph& graph);

}  // namespace gpunode::graph
