// The backward pass of a forward graph, made of the backward rule of each of its operations (see
// op.cpp), last node first. The pass runs in the stages of the forward one, in reverse.
#pragma once

#include "kernels/graph/graph.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::graph {

// Appends the nodes that make the gradient of the sum of graph.losses by each parameter. Fails
// with: unsupported (an operation without a backward rule), invalid_argument (a parameter on which
// the loss does not depend).
Result<void> differentiate(Graph& graph);

}  // namespace gpunode::graph
