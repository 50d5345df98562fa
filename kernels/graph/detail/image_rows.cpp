// Rows of operations that models of images have.
#include "kernels/graph/detail/rows.hpp"

namespace gpunode::graph {
namespace {

using O = Operations;

std::size_t conv2d_bytes(const Graph& graph, const Node& node) {
  const bool forward = node.op == Op::conv2d;
  const tensor::Shape& kernel = graph[node.in[forward ? 1 : 2]].shape;
  const tensor::Shape& y = graph[forward ? node.out[0] : node.in[0]].shape;
  return ops::conv2d_workspace_bytes(kernel[1] * kernel[2] * kernel[3], kernel[0],
                                     y[0] * y[1] * y[2]);
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

std::size_t batchnorm_bytes(const Graph& graph, const Node& node) {
  const std::int64_t columns = graph[node.out[1]].shape.element_count();
  return ops::batchnorm_workspace_bytes(graph[node.in[0]].shape.element_count() / columns, columns);
}

// With the slice's statistics, or with given ones.
Result<void> run_batchnorm(const Call& call) {
  return call.ops.batchnorm(call.stream, call.workspace,
                            {.x = call.in(0),
                             .weight = call.in(1),
                             .bias = call.in(2),
                             .y = call.out(0),
                             .mean = call.out(1),
                             .rstd = call.out(2),
                             .epsilon = call.attributes.epsilon,
                             .running_mean = call.in(3),
                             .running_variance = call.in(4)});
}

void batchnorm_gradient(Gradients& gradients, const Node& node) {
  const Ids places{gradients.place(node.in[0]), gradients.place(node.in[1]),
                   gradients.place(node.in[2])};
  gradients.run(Op::batchnorm_backward,
                {gradients.of(node.out[0]), node.in[0], node.in[1], node.out[1], node.out[2]},
                places);
  for (std::size_t operand = 0; operand < places.size(); ++operand)
    gradients.give(node.in[operand], places[operand]);
}

Result<void> run_batchnorm_backward(const Call& call) {
  return call.ops.batchnorm_backward(call.stream, call.workspace,
                                     {.dy = call.in(0),
                                      .x = call.in(1),
                                      .weight = call.in(2),
                                      .mean = call.in(3),
                                      .rstd = call.in(4),
                                      .dx = call.out(0),
                                      .dweight = call.out(1),
                                      .dbias = call.out(2)});
}

Result<void> run_batchnorm_statistics(const Call& call) {
  return call.ops.batchnorm_statistics(call.stream, call.workspace,
                                       {.mean = call.in(0),
                                        .rstd = call.in(1),
                                        .mean_sum = call.out(0),
                                        .variance_sum = call.out(1),
                                        .epsilon = call.attributes.epsilon,
                                        .samples = call.attributes.samples,
                                        .rows = call.attributes.rows});
}

Result<void> run_max_pool2d(const Call& call) {
  return call.ops.max_pool2d(
      call.stream, call.workspace,
      {.x = call.in(0),
       .y = call.out(0),
       .places = {static_cast<std::int32_t*>(call.out_data[1]), call.out_values[1]->shape},
       .window = call.attributes.window,
       .stride = call.attributes.stride,
       .padding = call.attributes.padding});
}

void max_pool2d_gradient(Gradients& gradients, const Node& node) {
  const ValueId dx = gradients.place(node.in[0]);
  gradients.run(Op::max_pool2d_backward, {gradients.of(node.out[0]), node.out[1]}, {dx},
                node.attributes);
  gradients.give(node.in[0], dx);
}

Result<void> run_max_pool2d_backward(const Call& call) {
  return call.ops.max_pool2d_backward(call.stream, call.workspace,
                                      {.dy = call.in(0),
                                       .places = call.tokens(1),
                                       .dx = call.out(0),
                                       .window = call.attributes.window,
                                       .stride = call.attributes.stride,
                                       .padding = call.attributes.padding});
}

Result<void> run_mean_pool(const Call& call) {
  return call.ops.mean_pool(call.stream, call.workspace, {.x = call.in(0), .y = call.out(0)});
}

void mean_pool_gradient(Gradients& gradients, const Node& node) {
  const ValueId dx = gradients.place(node.in[0]);
  gradients.run(Op::mean_pool_backward, {gradients.of(node.out[0])}, {dx});
  gradients.give(node.in[0], dx);
}

Result<void> run_mean_pool_backward(const Call& call) {
  return call.ops.mean_pool_backward(call.stream, call.workspace,
                                     {.dy = call.in(0), .dx = call.out(0)});
}

}  // namespace

OpRow rows::conv2d() {
  return {"conv2d", costs::conv2d, is_on<&O::conv2d>, run_conv2d, conv2d_gradient,
          {},       conv2d_bytes};
}
OpRow rows::conv2d_backward() {
  return {"conv2d_backward",
          costs::conv2d_backward,
          is_on<&O::conv2d_backward>,
          run_conv2d_backward,
          nullptr,
          {},
          conv2d_bytes};
}
OpRow rows::batchnorm() {
  return {"batchnorm",    costs::each_result<7>, is_on<&O::batchnorm>,
          run_batchnorm,  batchnorm_gradient,    {{0, 0}},
          batchnorm_bytes};
}
OpRow rows::batchnorm_backward() {
  return {"batchnorm_backward",
          costs::each_result<13>,
          is_on<&O::batchnorm_backward>,
          run_batchnorm_backward,
          nullptr,
          {{0, 0}},
          batchnorm_bytes};
}
OpRow rows::batchnorm_inference() {
  return {"batchnorm_inference",
          costs::each_result<4>,
          is_on<&O::batchnorm>,
          run_batchnorm,
          nullptr,
          {{0, 0}}};
}
OpRow rows::batchnorm_statistics() {
  return {"batchnorm_statistics", costs::each_result<6>, is_on<&O::batchnorm_statistics>,
          run_batchnorm_statistics};
}
OpRow rows::max_pool2d() {
  return {"max_pool2d", costs::max_pool2d, is_on<&O::max_pool2d>, run_max_pool2d,
          max_pool2d_gradient};
}
OpRow rows::max_pool2d_backward() {
  return {"max_pool2d_backward", costs::each_operand<1>, is_on<&O::max_pool2d_backward>,
          run_max_pool2d_backward};
}
OpRow rows::mean_pool() {
  return {"mean_pool", costs::each_operand<1>, is_on<&O::mean_pool>, run_mean_pool,
          mean_pool_gradient};
}
OpRow rows::mean_pool_backward() {
  return {"mean_pool_backward", costs::each_result<1>, is_on<&O::mean_pool_backward>,
          run_mean_pool_backward};
}

}  // namespace gpunode::graph
