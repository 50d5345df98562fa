// A planned graph and how its stages run: a flat list of calls on one stream, whose operands lie
// where the memory plan and the caller say. Nothing is allocated. Immutable: any number of threads
// may run it at once, each with memory of its own.
#pragma once

#include <span>

#include "kernels/graph/memory_plan.hpp"
#include "kernels/graph/op.hpp"
#include "kernels/ops/backend.hpp"

namespace gpunode::graph {

// The caller's memory for one run.
struct Places {
  std::byte* slice = nullptr;    // plan().slice_bytes
  std::byte* scratch = nullptr;  // plan().scratch_bytes
  const float* parameters = nullptr;
  const float* constants = nullptr;  // graph().constant_count elements
  float* gradient = nullptr;         // of the backward stage's range alone: made_final
  std::span<float* const> caches = {};
  PackedOperands* packed = nullptr;  // null: nothing is
};

class Executable {
 public:
  // Plans the memory of a graph that is complete.
  explicit Executable(Graph graph);

  const Graph& graph() const { return graph_; }
  const MemoryPlan& plan() const { return plan_; }
  std::size_t stages() const { return graph_.forward_stages + graph_.backward_stages; }
  // Those that run(stage) queues, in its order.
  std::span<const Node> nodes_of(std::size_t stage) const {
    return std::span(graph_.nodes)
        .subspan(first_node_[stage], first_node_[stage + 1] - first_node_[stage]);
  }
  // Names of the operations that the device lacks.
  std::vector<std::string_view> missing(const ops::Backend& backend) const;

  // Queues the nodes of one stage; backward's follow forward's. Fails with: what an operation fails
  // with.
  Result<void> run(std::size_t stage, ops::Backend& backend, tensor::Stream& stream,
                   tensor::Workspace& workspace, const Places& places) const;
  // Queues one of graph().nodes, with the same places as its stage: to measure it alone.
  Result<void> run_node(std::size_t node, ops::Backend& backend, tensor::Stream& stream,
                        tensor::Workspace& workspace, const Places& places) const;
  // Where an input, the losses or the logits lie.
  void* place_of(ValueId id, const Places& places) const;
  // Where a node's operand or result lies in a run of the node's stage; null: it is absent.
  void* operand_place(const Node& node, ValueId id, const Places& places) const;

 private:
  Graph graph_;
  MemoryPlan plan_;
  std::vector<std::size_t> first_node_;  // by stage, and the end
};

}  // namespace gpunode::graph
