// A forward pass in parts, which different devices run one after the other: where it can be cut, and what
// is left of it in one part. A cut lies where the builder paused and a single value goes on, as the
// residual stream between two blocks does; the part behind it has that as an input. What each node
// computes stays the same.
#pragma once

#include <vector>

#include "kernels/graph/graph.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::graph {

// Of the builder's stages, from `first` on; the last one of a part is `end` - 1.
struct StageSpan {
  std::size_t first = 0, end = 0;

  bool operator==(const StageSpan&) const = default;
};

// The stages before which the graph can be cut, ascending: behind them nothing else that was made before
// is read but one float value (1, rows, C), and none of the model's own inputs. Of a decoding graph that
// finish() gave.
std::vector<std::size_t> cuts_of(const Graph& graph);

// Leaves these stages alone: what goes into them is `carried`, an input behind all others; what goes on
// from them, where they are not the last, stands in the place of logits. All parameters stay declared.
// Fails with: invalid_argument (it cannot be cut there).
Result<void> keep_stages(Graph& graph, StageSpan stages);

// By place among graph.parameters: whether any node of these reads it.
std::vector<bool> read_parameters(const Graph& graph, StageSpan stages);

}  // namespace gpunode::graph
