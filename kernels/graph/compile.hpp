// From a forward pass to something that runs: the passes over a graph, in their order.
#pragma once

#include <memory>

#include "kernels/graph/executable.hpp"

namespace gpunode::graph {

enum class Purpose : std::uint8_t {
  train,   // with the gradient of the loss by every parameter, in stages
  forward  // losses or logits alone, in one stage
};

// Passes that change speed and memory, never a result; tests leave them out.
struct Passes {
  bool fuse = true;
};

// Fails with: what differentiate() fails with.
Result<std::shared_ptr<const Executable>> compile(Graph forward, Purpose purpose,
                                                  Passes passes = {});

}  // namespace gpunode::graph
