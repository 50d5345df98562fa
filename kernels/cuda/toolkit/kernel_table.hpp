// The operations that run kernels of ours, one row each: on a GPU through kernel_operations.cpp, in
// the tests' emulation through the same rows.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/cuda/toolkit/attention_precision.hpp"
#include "kernels/cuda/toolkit/image_work.hpp"
#include "kernels/cuda/toolkit/product_precision.hpp"

namespace gpunode::cuda {

struct KernelName {  // what an error says has failed
  char text[32] = {};
  template <std::size_t kSize>
  consteval KernelName(const char (&name)[kSize]) {
    std::copy_n(name, kSize, text);
  }
};

// Runner::run<name, work>(stream, workspace, args) starts launch(work(args)), see start_work().
template <class Runner>
void enter_kernels(ops::Operations& table) {
  table.matmul = ProductInPrecision<Runner>::multiply;
  table.pack_product = ProductInPrecision<Runner>::pack;
  table.layernorm = Runner::template run<"layernorm", layernorm_work>;
  table.layernorm_backward = Runner::template run<"layernorm_backward", layernorm_backward_work>;
  table.gelu = Runner::template run<"gelu", gelu_work>;
  table.gelu_backward = Runner::template run<"gelu_backward", gelu_backward_work>;
  table.attention = AttentionInPrecision<Runner>::forward;
  table.attention_backward = AttentionInPrecision<Runner>::backward;
  table.attention_paged = Runner::template run<"attention_paged", attention_paged_work>;
  table.embedding = Runner::template run<"embedding", embedding_work>;
  table.embedding_backward = Runner::template run<"embedding_backward", embedding_backward_work>;
  table.cross_entropy = Runner::template run<"cross_entropy", cross_entropy_work>;
  table.add = Runner::template run<"add", add_work>;
  table.column_sum = Runner::template run<"column_sum", column_sum_work>;
  table.adamw = Runner::template run<"adamw", adamw_work>;
  table.square_sum = Runner::template run<"square_sum", square_sum_work>;
  table.batchnorm_statistics =
      Runner::template run<"batchnorm_statistics", batchnorm_statistics_work>;
  table.follow = Runner::template run<"follow", follow_work>;
  table.rmsnorm = Runner::template run<"rmsnorm", rmsnorm_work>;
  table.rmsnorm_backward = Runner::template run<"rmsnorm_backward", rmsnorm_backward_work>;
  table.swiglu = Runner::template run<"swiglu", swiglu_work>;
  table.swiglu_backward = Runner::template run<"swiglu_backward", swiglu_backward_work>;
  table.relu = Runner::template run<"relu", relu_work>;
  table.relu_backward = Runner::template run<"relu_backward", relu_backward_work>;
  table.tanh = Runner::template run<"tanh", tanh_work>;
  table.tanh_backward = Runner::template run<"tanh_backward", tanh_backward_work>;
  table.rotary = Runner::template run<"rotary", rotary_work>;
  table.conv2d = Runner::template run<"conv2d", conv2d_work>;
  table.conv2d_backward = Runner::template run<"conv2d_backward", conv2d_backward_work>;
  table.batchnorm = Runner::template run<"batchnorm", batchnorm_work>;
  table.batchnorm_backward = Runner::template run<"batchnorm_backward", batchnorm_backward_work>;
  table.max_pool2d = Runner::template run<"max_pool2d", max_pool2d_work>;
  table.max_pool2d_backward = Runner::template run<"max_pool2d_backward", max_pool2d_backward_work>;
  table.mean_pool = Runner::template run<"mean_pool", mean_pool_work>;
  table.mean_pool_backward = Runner::template run<"mean_pool_backward", mean_pool_backward_work>;
  table.pack_bf16 = Runner::template run<"pack_bf16", pack_bf16_work>;
  table.unpack_bf16 = Runner::template run<"unpack_bf16", unpack_bf16_work>;
  table.pack_int8 = Runner::template run<"pack_int8", pack_int8_work>;
  table.pack_int8_carrying = Runner::template run<"pack_int8_carrying", pack_int8_carrying_work>;
  table.unpack_int8 = Runner::template run<"unpack_int8", unpack_int8_work>;
  table.block_digest = Runner::template run<"block_digest", block_digest_work>;
}

}  // namespace gpunode::cuda
