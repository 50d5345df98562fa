// The table of operations, entry by entry with its name: for whatever does the same to all of them.
#pragma once

#include <string_view>

#include "kernels/ops/backend.hpp"

namespace gpunode::ops {

// Calls  each.operator()<&Operations::matmul>("matmul")  and so on, in the table's order.
template <class Each>
void for_each_operation(Each&& each) {
#define GPUNODE_ENTRY(name) each.template operator()<&Operations::name>(std::string_view(#name))
  GPUNODE_ENTRY(matmul);
  GPUNODE_ENTRY(layernorm);
  GPUNODE_ENTRY(layernorm_backward);
  GPUNODE_ENTRY(gelu);
  GPUNODE_ENTRY(gelu_backward);
  GPUNODE_ENTRY(attention);
  GPUNODE_ENTRY(attention_backward);
  GPUNODE_ENTRY(attention_paged);
  GPUNODE_ENTRY(embedding);
  GPUNODE_ENTRY(embedding_backward);
  GPUNODE_ENTRY(cross_entropy);
  GPUNODE_ENTRY(add);
  GPUNODE_ENTRY(column_sum);
  GPUNODE_ENTRY(adamw);
  GPUNODE_ENTRY(square_sum);
  GPUNODE_ENTRY(rmsnorm);
  GPUNODE_ENTRY(rmsnorm_backward);
  GPUNODE_ENTRY(swiglu);
  GPUNODE_ENTRY(swiglu_backward);
  GPUNODE_ENTRY(rotary);
  GPUNODE_ENTRY(relu);
  GPUNODE_ENTRY(relu_backward);
  GPUNODE_ENTRY(tanh);
  GPUNODE_ENTRY(tanh_backward);
  GPUNODE_ENTRY(conv2d);
  GPUNODE_ENTRY(conv2d_backward);
  GPUNODE_ENTRY(batchnorm);
  GPUNODE_ENTRY(batchnorm_backward);
  GPUNODE_ENTRY(batchnorm_statistics);
  GPUNODE_ENTRY(follow);
  GPUNODE_ENTRY(max_pool2d);
  GPUNODE_ENTRY(max_pool2d_backward);
  GPUNODE_ENTRY(mean_pool);
  GPUNODE_ENTRY(mean_pool_backward);
  GPUNODE_ENTRY(pack_product);
  GPUNODE_ENTRY(pack_bf16);
  GPUNODE_ENTRY(pack_int8);
  GPUNODE_ENTRY(pack_top);
  GPUNODE_ENTRY(pack_int8_carrying);
  GPUNODE_ENTRY(unpack_bf16);
  GPUNODE_ENTRY(unpack_int8);
  GPUNODE_ENTRY(unpack_top);
  GPUNODE_ENTRY(block_digest);
#undef GPUNODE_ENTRY
  static_assert(sizeof(Operations) == 43 * sizeof(void*), "an operation is missing in this list");
}

}  // namespace gpunode::ops
