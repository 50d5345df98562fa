// Rows of the table of operations (graph/op.cpp) that stand in files of their own, and what rows are
// made of.
#pragma once

#include "kernels/graph/detail/costs.hpp"
#include "kernels/graph/gradients.hpp"
#include "kernels/graph/op.hpp"

namespace gpunode::graph {

using ops::Operations;
using Ids = std::vector<ValueId>;

// `x` as a matrix whose rows have `columns` elements.
template <class T>
tensor::View<T> as_rows(tensor::View<T> x, std::int64_t columns) {
  return {x.data, {x.element_count() / columns, columns}};
}

// What is to be added lies in `to` already where the plan has put both in one place.
inline Result<void> start_from(const Call& call, tensor::ConstTensor before, tensor::Tensor to) {
  const auto bytes = static_cast<std::size_t>(to.element_count()) * sizeof(float);
  if (!before) return call.backend.clear(call.stream, to.data, bytes);
  if (before.data == to.data) return {};
  return call.backend.copy(call.stream, before.data, to.data, bytes);
}

// Of a norm's backward, whose operands are dy, x, weight and more.
inline std::size_t norm_backward_bytes(const Graph& graph, const Node& node) {
  const std::int64_t columns = graph[node.in[2]].shape.element_count();
  return ops::norm_backward_workspace_bytes(graph[node.in[0]].shape.element_count() / columns,
                                            columns);
}

template <auto Entry>
bool is_on(const Operations& operations) {
  return operations.*Entry != nullptr;
}

namespace rows {
OpRow cross_entropy_both();
OpRow add_layernorm();
OpRow add_rmsnorm();
OpRow rmsnorm();
OpRow rmsnorm_backward();
OpRow swiglu();
OpRow swiglu_backward();
OpRow rotary();
OpRow attention_paged();
OpRow take_rows();
OpRow relu();
OpRow relu_backward();
OpRow tanh();
OpRow tanh_backward();
OpRow conv2d();
OpRow conv2d_backward();
OpRow batchnorm();
OpRow batchnorm_backward();
OpRow batchnorm_inference();
OpRow batchnorm_statistics();
OpRow max_pool2d();
OpRow max_pool2d_backward();
OpRow mean_pool();
OpRow mean_pool_backward();
}  // namespace rows

}  // namespace gpunode::graph
