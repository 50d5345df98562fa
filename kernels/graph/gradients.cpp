#include "kernels/graph/gradients.hpp"

namespace gpunode::graph {

ValueId Gradients::of_parameter_or_like(ValueId operand) {
  const Value& of = graph_[operand];
  if (of.role != Role::parameter) return like(operand);
  return graph_.add({.shape = of.shape, .role = Role::gradient, .first = of.first});
}

ValueId Gradients::place(ValueId operand) {
  return so_far(operand) == kNone ? of_parameter_or_like(operand) : like(operand);
}

ValueId Gradients::extended(ValueId operand) {
  const ValueId gradient = of_parameter_or_like(operand);
  set(operand, gradient);
  return gradient;
}

void Gradients::give(ValueId operand, ValueId gradient) {
  const ValueId before = so_far(operand);
  if (before == kNone) return set(operand, gradient);
  run(Op::add, {before, gradient}, {extended(operand)});
}

}  // namespace gpunode::graph
