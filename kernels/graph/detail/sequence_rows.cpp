// Rows of operations that models of text other than GPT have.
#include "kernels/graph/detail/rows.hpp"

namespace gpunode::graph {
namespace {

using O = Operations;

Result<void> run_rmsnorm(const Call& call) {
  return call.ops.rmsnorm(call.stream, call.workspace,
                          {.x = call.in(0),
                           .weight = call.in(1),
                           .y = call.out(0),
                           .rstd = call.out(1),
                           .epsilon = call.attributes.epsilon});
}

void rmsnorm_gradient(Gradients& gradients, const Node& node) {
  const ValueId x = node.in[0], weight = node.in[1];
  const ValueId before = gradients.so_far(x);
  const Ids places{gradients.extended(x), gradients.place(weight)};
  gradients.run(Op::rmsnorm_backward, {gradients.of(node.out[0]), x, weight, node.out[1], before},
                places);
  gradients.give(weight, places[1]);
}

Result<void> run_rmsnorm_backward(const Call& call) {
  start_from(call.in(4), call.out(0));
  return call.ops.rmsnorm_backward(call.stream, call.workspace,
                                   {.dy = call.in(0),
                                    .x = call.in(1),
                                    .weight = call.in(2),
                                    .rstd = call.in(3),
                                    .dx = call.out(0),
                                    .dweight = call.out(1)});
}

}  // namespace

OpRow rows::rmsnorm() {
  return {"rmsnorm", is_on<&O::rmsnorm>, run_rmsnorm, rmsnorm_gradient};
}
OpRow rows::rmsnorm_backward() {
  return {"rmsnorm_backward", is_on<&O::rmsnorm_backward>, run_rmsnorm_backward, nullptr, {{0, 4}}};
}

}  // namespace gpunode::graph
