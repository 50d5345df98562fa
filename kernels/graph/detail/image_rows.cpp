// Rows of operations that models of images have.
#include "kernels/graph/detail/rows.hpp"

namespace gpunode::graph {
namespace {

using O = Operations;

std::size_t conv2d_bytes(const Graph& graph, const Node& node) {
  const tensor::Shape& kernel = graph[node.op == Op::conv2d ? node.in[1] : node.in[2]].shape;
  return ops::conv2d_workspace_bytes(kernel[1] * kernel[2] * kernel[3]);
}

Result<void> run_conv2d(const Call& call) {
  return call.ops.conv2d(call.stream, call.workspace,
                         {.x = call.in(0),
                          .weight = call.in(1),
                          .y = call.out(0),
                          .stride = call.attributes.stride,
                          .padding = call.attributes.padding});
}

void conv2d_gradient(Gradients& gradients, const Node& node) {
  const ValueId x = node.in[0], weight = node.in[1];
  Ids places{gradients.place(weight)};
  if (gradients.wanted(x)) places.push_back(gradients.place(x));
  gradients.run(Op::conv2d_backward, {gradients.of(node.out[0]), x, weight}, places,
                node.attributes);
  gradients.give(weight, places[0]);
  if (gradients.wanted(x)) gradients.give(x, places[1]);
}

Result<void> run_conv2d_backward(const Call& call) {
  return call.ops.conv2d_backward(call.stream, call.workspace,
                                  {.dy = call.in(0),
                                   .x = call.in(1),
                                   .weight = call.in(2),
                                   .dx = call.out(1),
                                   .dweight = call.out(0),
                                   .stride = call.attributes.stride,
                                   .padding = call.attributes.padding});
}

}  // namespace

OpRow rows::conv2d() {
  return {"conv2d", is_on<&O::conv2d>, run_conv2d, conv2d_gradient, {}, conv2d_bytes};
}
OpRow rows::conv2d_backward() {
  return {"conv2d_backward", is_on<&O::conv2d_backward>, run_conv2d_backward, nullptr, {},
          conv2d_bytes};
}

}  // namespace gpunode::graph
