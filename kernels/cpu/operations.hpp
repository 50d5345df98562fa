// The CPU's operations, one file each; contracts in kernels/ops. Each is run by the calling thread
// alone and has finished when it returns; shapes are checked, as a wrong one is our own bug.
#pragma once

#include "kernels/ops/backend.hpp"

namespace gpunode::cpu {

ops::Operation<ops::MatmulArgs> matmul;
ops::Operation<ops::PackProductArgs> pack_product;
ops::Operation<ops::LayernormArgs> layernorm;
ops::Operation<ops::LayernormBackwardArgs> layernorm_backward;
ops::Operation<ops::GeluArgs> gelu;
ops::Operation<ops::GeluBackwardArgs> gelu_backward;
ops::Operation<ops::AttentionArgs> attention;
ops::Operation<ops::AttentionBackwardArgs> attention_backward;
ops::Operation<ops::AttentionPagedArgs> attention_paged;
ops::Operation<ops::EmbeddingArgs> embedding;
ops::Operation<ops::EmbeddingBackwardArgs> embedding_backward;
ops::Operation<ops::CrossEntropyArgs> cross_entropy;
ops::Operation<ops::AddArgs> add;
ops::Operation<ops::ColumnSumArgs> column_sum;
ops::Operation<ops::AdamwArgs> adamw;
ops::Operation<ops::SquareSumArgs> square_sum;
ops::Operation<ops::RmsnormArgs> rmsnorm;
ops::Operation<ops::RmsnormBackwardArgs> rmsnorm_backward;
ops::Operation<ops::SwigluArgs> swiglu;
ops::Operation<ops::SwigluBackwardArgs> swiglu_backward;
ops::Operation<ops::RotaryArgs> rotary;
ops::Operation<ops::ReluArgs> relu;
ops::Operation<ops::ReluBackwardArgs> relu_backward;
ops::Operation<ops::TanhArgs> tanh;
ops::Operation<ops::TanhBackwardArgs> tanh_backward;
ops::Operation<ops::Conv2dArgs> conv2d;
ops::Operation<ops::Conv2dBackwardArgs> conv2d_backward;
ops::Operation<ops::BatchnormArgs> batchnorm;
ops::Operation<ops::BatchnormBackwardArgs> batchnorm_backward;
ops::Operation<ops::BatchnormStatisticsArgs> batchnorm_statistics;
ops::Operation<ops::FollowArgs> follow;
ops::Operation<ops::MaxPool2dArgs> max_pool2d;
ops::Operation<ops::MaxPool2dBackwardArgs> max_pool2d_backward;
ops::Operation<ops::MeanPoolArgs> mean_pool;
ops::Operation<ops::MeanPoolBackwardArgs> mean_pool_backward;
ops::Operation<ops::PackArgs> pack_bf16, pack_int8, pack_top;
ops::Operation<ops::PackCarryingArgs> pack_int8_carrying;
ops::Operation<ops::UnpackArgs> unpack_bf16, unpack_int8, unpack_top;
ops::Operation<ops::BlockDigestArgs> block_digest;

// out[c] = sum over rows of x (T, C), `block` of them at a time.
void sum_rows(tensor::ConstTensor x, std::int64_t block, tensor::Tensor out);

// out[r] += row for each row of out (T, N).
void add_row(tensor::ConstTensor row, tensor::Tensor out);

}  // namespace gpunode::cpu
