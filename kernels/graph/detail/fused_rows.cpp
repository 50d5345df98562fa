// Rows of operations that only fuse() makes: two that one pass over memory does together. They come
// after differentiate(), so they have no gradients of their own.
#include "kernels/graph/detail/rows.hpp"

namespace gpunode::graph {
namespace {

using O = Operations;

Result<void> run_add_layernorm(const Call& call) {
  return call.ops.layernorm(call.stream, call.workspace,
                            {.x = call.in(0),
                             .weight = call.in(2),
                             .bias = call.in(3),
                             .y = call.out(1),
                             .mean = call.out(2),
                             .rstd = call.out(3),
                             .epsilon = call.attributes.epsilon,
                             .residual = call.in(1),
                             .sum = call.out(0)});
}

Result<void> run_add_rmsnorm(const Call& call) {
  return call.ops.rmsnorm(call.stream, call.workspace,
                          {.x = call.in(0),
                           .weight = call.in(2),
                           .y = call.out(1),
                           .rstd = call.out(2),
                           .epsilon = call.attributes.epsilon,
                           .residual = call.in(1),
                           .sum = call.out(0)});
}

Result<void> run_cross_entropy_both(const Call& call) {
  return call.ops.cross_entropy(call.stream, call.workspace,
                                {.logits = call.in(0),
                                 .targets = call.tokens(1),
                                 .losses = call.out(0),
                                 .dlogits = call.out(1)});
}

}  // namespace

OpRow rows::add_layernorm() {
  return {"add_layernorm", costs::each_result<8>, is_on<&O::layernorm>, run_add_layernorm,
          nullptr,         {{0, 1}, {0, 0}}};
}
OpRow rows::add_rmsnorm() {
  return {"add_rmsnorm", costs::each_result<5>, is_on<&O::rmsnorm>, run_add_rmsnorm,
          nullptr,       {{0, 1}, {0, 0}}};
}
OpRow rows::cross_entropy_both() {
  return {"cross_entropy_both",
          costs::each_operand<5>,
          is_on<&O::cross_entropy>,
          run_cross_entropy_both,
          nullptr,
          {{1, 0}}};
}

}  // namespace gpunode::graph
