// From a forward pass to something that runs: the passes over a graph, in their order.
#pragma once

#include <memory>
#include <optional>

#include "kernels/graph/cut.hpp"
#include "kernels/graph/executable.hpp"

namespace gpunode::graph {

enum class Purpose : std::uint8_t {
  train,     // with the gradient of the loss by every parameter, in stages
  forward,   // losses or logits alone, in one stage
  represent  // what is represented alone, in the place of logits; the graph has it
};

struct Passes {
  // Changes speed and memory, never a result on the CPU (fuse.hpp); tests leave it out.
  bool fuse = true;
  // Of the products that a linear layer and its gradients are: set on their nodes. All else is fp32.
  Precision precision = Precision::fp32;
  // Of linear layers, in fp32: each row has the same bits whatever rows stand beside it.
  bool independent_rows = false;
  // Of a forward pass: what its weights are kept in.
  ops::WeightFormat weights = ops::WeightFormat::fp32;
  // Of a forward pass that decodes: these stages alone (cut.hpp), and no place for the weights of others.
  std::optional<StageSpan> part = {};
};

// Fails with: what differentiate() and keep_stages() fail with.
Result<std::shared_ptr<const Executable>> compile(Graph forward, Purpose purpose,
                                                  Passes passes = {});

}  // namespace gpunode::graph
