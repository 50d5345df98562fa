// What a node costs by its shapes alone: multiplications and additions of its products, and bytes
// that it must read and write once. Operations without products have no flops here: memory bounds
// them. For benchmarks and for the share of a device's peak that a model makes use of.
#pragma once

#include "kernels/graph/graph.hpp"

namespace gpunode::graph {

struct Cost {
  double flops = 0;
  double bytes = 0;
  Cost& operator+=(const Cost& other) {
    flops += other.flops;
    bytes += other.bytes;
    return *this;
  }
};

Cost cost_of(const Graph& graph, const Node& node);
Cost cost_of(const Graph& graph);  // of all nodes: one slice

}  // namespace gpunode::graph
