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
  if (auto started = start_from(call, call.in(4), call.out(0)); !started) return started;
  return call.ops.rmsnorm_backward(call.stream, call.workspace,
                                   {.dy = call.in(0),
                                    .x = call.in(1),
                                    .weight = call.in(2),
                                    .rstd = call.in(3),
                                    .dx = call.out(0),
                                    .dweight = call.out(1)});
}

Result<void> run_swiglu(const Call& call) {
  return call.ops.swiglu(call.stream, call.workspace, {.x = call.in(0), .y = call.out(0)});
}

void swiglu_gradient(Gradients& gradients, const Node& node) {
  const ValueId dx = gradients.place(node.in[0]);
  gradients.run(Op::swiglu_backward, {gradients.of(node.out[0]), node.in[0]}, {dx});
  gradients.give(node.in[0], dx);
}

Result<void> run_swiglu_backward(const Call& call) {
  return call.ops.swiglu_backward(call.stream, call.workspace,
                                  {.dy = call.in(0), .x = call.in(1), .dx = call.out(0)});
}

// Turned where it lies; the plan has put both in one place if nobody else needs what is turned.
Result<void> run_rotary(const Call& call) {
  if (auto started = start_from(call, call.in(0), call.out(0)); !started) return started;
  return call.ops.rotary(call.stream, call.workspace,
                         {.angles = call.in(1),
                          .x = call.out(0),
                          .heads = call.attributes.heads,
                          .key_heads = call.attributes.kv_heads,
                          .inverse = call.attributes.inverse,
                          .positions = call.tokens(2)});
}

void rotary_gradient(Gradients& gradients, const Node& node) {
  const ValueId dx = gradients.place(node.in[0]);
  Attributes back = node.attributes;
  back.inverse = !back.inverse;
  gradients.run(Op::rotary, {gradients.of(node.out[0]), node.in[1]}, {dx}, back);
  gradients.give(node.in[0], dx);
}

// Relu and tanh: their gradients are made of their results, so that operands need not be kept.
template <auto Entry>
Result<void> run_of_x(const Call& call) {
  return (call.ops.*Entry)(call.stream, call.workspace, {.x = call.in(0), .y = call.out(0)});
}

template <Op backward>
void gradient_by_y(Gradients& gradients, const Node& node) {
  const ValueId dx = gradients.place(node.in[0]);
  gradients.run(backward, {gradients.of(node.out[0]), node.out[0]}, {dx});
  gradients.give(node.in[0], dx);
}

template <auto Entry>
Result<void> run_by_y(const Call& call) {
  return (call.ops.*Entry)(call.stream, call.workspace,
                           {.dy = call.in(0), .y = call.in(1), .dx = call.out(0)});
}

}  // namespace

OpRow rows::rmsnorm() {
  return {"rmsnorm", costs::each_result<4>, is_on<&O::rmsnorm>, run_rmsnorm, rmsnorm_gradient};
}
OpRow rows::rmsnorm_backward() {
  return {"rmsnorm_backward",
          costs::each_result_added<9>,
          is_on<&O::rmsnorm_backward>,
          run_rmsnorm_backward,
          nullptr,
          {{0, 4}},
          norm_backward_bytes};
}
OpRow rows::swiglu() {
  return {"swiglu", costs::each_result<5>, is_on<&O::swiglu>, run_swiglu, swiglu_gradient};
}
OpRow rows::swiglu_backward() {
  return {"swiglu_backward",
          costs::each_operand<12>,
          is_on<&O::swiglu_backward>,
          run_swiglu_backward,
          nullptr,
          {{0, 1}}};
}
OpRow rows::rotary() {
  return {"rotary", costs::rotary, is_on<&O::rotary>, run_rotary, rotary_gradient, {{0, 0}}};
}
OpRow rows::relu() {
  return {"relu",
          costs::each_result<1>,
          is_on<&O::relu>,
          run_of_x<&O::relu>,
          gradient_by_y<Op::relu_backward>,
          {{0, 0}}};
}
OpRow rows::relu_backward() {
  return {"relu_backward",
          costs::each_result<1>,
          is_on<&O::relu_backward>,
          run_by_y<&O::relu_backward>,
          nullptr,
          {{0, 0}}};
}
OpRow rows::tanh() {
  return {"tanh",
          costs::each_result<1>,
          is_on<&O::tanh>,
          run_of_x<&O::tanh>,
          gradient_by_y<Op::tanh_backward>,
          {{0, 0}}};
}
OpRow rows::tanh_backward() {
  return {"tanh_backward",
          costs::each_result<3>,
          is_on<&O::tanh_backward>,
          run_by_y<&O::tanh_backward>,
          nullptr,
          {{0, 0}}};
}

}  // namespace gpunode::graph
