// The gradients that come together while a graph is walked backwards: what the backward rule of an
// operation (op.cpp) reads and gives. An operand that several nodes use gets a sum; an
// operation that can add to what is there already takes it as an operand, else a node adds.
#pragma once

#include <initializer_list>

#include "kernels/graph/graph.hpp"

namespace gpunode::graph {

class Gradients {
 public:
  explicit Gradients(Graph& graph) : graph_(graph) {}

  // Of a node's result; kNone where the loss does not depend on it.
  ValueId of(ValueId result) const { return at(result); }
  // Whether the loss's gradient by this operand is needed.
  bool wanted(ValueId operand) const { return operand != kNone && graph_[operand].differentiable; }
  // What other users of the operand have given so far, for a node that adds to it.
  ValueId so_far(ValueId operand) const { return at(operand); }

  // A place for the operand's gradient by a node that overwrites it; given when the node is there.
  ValueId place(ValueId operand);
  void give(ValueId operand, ValueId gradient);
  // The same by a node that takes so_far() as an operand and adds it: given with this call.
  ValueId extended(ValueId operand);

  void run(Op op, std::vector<ValueId> in, std::vector<ValueId> out, Attributes attributes = {}) {
    graph_.nodes.push_back({op, std::move(in), std::move(out), attributes, stage_});
  }
  ValueId like(ValueId value) {
    return graph_.add({.shape = graph_[value].shape, .role = Role::interim});
  }
  // The stage of nodes to come.
  void set_stage(std::size_t stage) { stage_ = stage; }
  // The gradient that all begins with.
  void set(ValueId value, ValueId gradient) {
    if (of_.size() <= value) of_.resize(value + 1, kNone);
    of_[value] = gradient;
  }

 private:
  ValueId of_parameter_or_like(ValueId operand);
  ValueId at(ValueId value) const { return value < of_.size() ? of_[value] : kNone; }
  Graph& graph_;
  std::vector<ValueId> of_;  // by value
  std::size_t stage_ = 0;
};

}  // namespace gpunode::graph
