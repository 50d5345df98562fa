#include "kernels/ops/backend.hpp"

namespace gpunode::ops {
namespace {

using Names = std::vector<std::string_view>;

void note(Names& names, auto* operation, std::string_view name) {
  if (!operation) names.push_back(name);
}

}  // namespace

Names Operations::missing() const {
  Names names;
  note(names, matmul, "matmul");
  note(names, layernorm, "layernorm");
  note(names, layernorm_backward, "layernorm_backward");
  note(names, gelu, "gelu");
  note(names, gelu_backward, "gelu_backward");
  note(names, attention, "attention");
  note(names, attention_backward, "attention_backward");
  note(names, attention_cached, "attention_cached");
  note(names, embedding, "embedding");
  note(names, embedding_backward, "embedding_backward");
  note(names, cross_entropy, "cross_entropy");
  note(names, add, "add");
  note(names, column_sum, "column_sum");
  note(names, adamw, "adamw");
  note(names, square_sum, "square_sum");
  return names;
}

Names Operations::absent() const {
  Names names = missing();
  note(names, rmsnorm, "rmsnorm");
  note(names, rmsnorm_backward, "rmsnorm_backward");
  note(names, swiglu, "swiglu");
  note(names, swiglu_backward, "swiglu_backward");
  note(names, rotary, "rotary");
  note(names, relu, "relu");
  note(names, relu_backward, "relu_backward");
  note(names, tanh, "tanh");
  note(names, tanh_backward, "tanh_backward");
  note(names, conv2d, "conv2d");
  note(names, conv2d_backward, "conv2d_backward");
  note(names, batchnorm, "batchnorm");
  note(names, batchnorm_backward, "batchnorm_backward");
  note(names, max_pool2d, "max_pool2d");
  note(names, max_pool2d_backward, "max_pool2d_backward");
  note(names, mean_pool, "mean_pool");
  note(names, mean_pool_backward, "mean_pool_backward");
  return names;
}

}  // namespace gpunode::ops
