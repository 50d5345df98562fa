// Where each value of a graph lies: an offset in one of two pieces of memory. What lives from one
// stage to another belongs to the slice (its piece is kept while other slices run); what comes and
// goes within a stage lies in the scratch of whoever runs it. Values that are never needed at the
// same time share places, so the peak is known before the first step. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/graph/graph.hpp"

namespace gpunode::graph {

enum class Piece : std::uint8_t { none, slice, scratch };

struct Place {
  Piece piece = Piece::none;  // none: parameters, gradients, caches, and what nobody needs
  std::size_t offset = 0;     // bytes, a multiple of 64
};

struct MemoryPlan {
  std::vector<Place> places;  // by value
  std::size_t slice_bytes = 0, scratch_bytes = 0, workspace_bytes = 0;
};

// Inputs and the losses belong to the slice; inputs lie there from the start. Losses, and logits
// where there is no backward pass, stay until their stage has ended.
MemoryPlan plan_memory(const Graph& graph);

}  // namespace gpunode::graph
