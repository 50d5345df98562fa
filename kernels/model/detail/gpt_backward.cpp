// GPT backward: the operations of the forward pass in reverse, each with its gradient.

#include <algorithm>

#include "kernels/model/detail/gpt_pass.hpp"

namespace gpunode::model {
namespace {

// Of y = x weight^T + bias: dweight = dy^T x, dbias = column sums of dy, dx = dy weight, in this
// order, so dx may take the place of x.
struct LinearBackward {
  tensor::ConstTensor dy, x, weight;
  tensor::Tensor dx, dweight, dbias;
};

void linear_backward(OperationSequence& sequence, const LinearBackward& pass) {
  const std::int64_t columns = pass.weight.shape[0], inner = pass.weight.shape[1];
  const std::int64_t rows = pass.x.element_count() / inner;
  const tensor::ConstTensor dy{pass.dy.data, {rows, columns}};
  sequence.run(
      sequence.ops.matmul,
      {.a = dy, .b = {pass.x.data, {rows, inner}}, .c = pass.dweight, .transpose_a = true});
  sequence.run(sequence.ops.column_sum, {.x = dy, .out = pass.dbias});
  sequence.run(sequence.ops.matmul,
               {.a = dy, .b = pass.weight, .c = {pass.dx.data, {rows, inner}}});
}

}  // namespace

void GptPass::norm_backward(const GptNorm& norm, tensor::ConstTensor x, tensor::ConstTensor weight,
                            tensor::Tensor dweight, tensor::Tensor dbias) {
  sequence.run(sequence.ops.layernorm_backward, {.dy = scratch.dnorm,
                                                 .x = x,
                                                 .weight = weight,
                                                 .mean = norm.mean,
                                                 .rstd = norm.rstd,
                                                 .dx = activations.dstream,
                                                 .dweight = dweight,
                                                 .dbias = dbias});
}

void GptPass::backward_of_head(tensor::Tensor dnorm_weight, tensor::Tensor dnorm_bias) {
  sequence.run(sequence.ops.matmul,
               {.a = activations.logits, .b = weights.token_table, .c = scratch.dnorm});
  std::fill_n(activations.dstream.data, activations.dstream.element_count(), 0.0f);
  norm_backward(activations.norm, entered(activations.blocks.size()), weights.norm_weight,
                dnorm_weight, dnorm_bias);
}

void GptPass::backward_of_reduce(std::size_t layer, const GptBlockGradients& gradients) {
  const tensor::Tensor& activated = activations.blocks[layer].activated;
  linear_backward(sequence, {.dy = activations.dstream,
                             .x = activated,
                             .weight = weights.blocks[layer].reduce_weight,
                             .dx = activated,
                             .dweight = gradients.reduce_weight,
                             .dbias = gradients.reduce_bias});
}

void GptPass::backward_of_expand(std::size_t layer, const GptBlockGradients& gradients) {
  const GptBlockActivations& block = activations.blocks[layer];
  const tensor::Tensor& dexpanded = block.activated;
  sequence.run(sequence.ops.gelu_backward, {.dy = dexpanded, .x = block.expanded, .dx = dexpanded});
  linear_backward(sequence, {.dy = dexpanded,
                             .x = block.norm2.out,
                             .weight = weights.blocks[layer].expand_weight,
                             .dx = scratch.dnorm,
                             .dweight = gradients.expand_weight,
                             .dbias = gradients.expand_bias});
  norm_backward(block.norm2, block.residual1, weights.blocks[layer].norm2_weight,
                gradients.norm2_weight, gradients.norm2_bias);
}

void GptPass::backward_of_attention(std::size_t layer, const GptBlockGradients& gradients) {
  const GptBlockActivations& block = activations.blocks[layer];
  linear_backward(sequence, {.dy = activations.dstream,
                             .x = block.attended,
                             .weight = weights.blocks[layer].projection_weight,
                             .dx = scratch.dnorm,
                             .dweight = gradients.projection_weight,
                             .dbias = gradients.projection_bias});
  sequence.run(sequence.ops.attention_backward, {.dout = {scratch.dnorm.data, block.attended.shape},
                                                 .qkv = block.qkv,
                                                 .probabilities = block.probabilities,
                                                 .heads = config.heads,
                                                 .dqkv = scratch.dqkv});
  linear_backward(sequence, {.dy = scratch.dqkv,
                             .x = block.norm1.out,
                             .weight = weights.blocks[layer].attention_weight,
                             .dx = scratch.dnorm,
                             .dweight = gradients.attention_weight,
                             .dbias = gradients.attention_bias});
  norm_backward(block.norm1, entered(layer), weights.blocks[layer].norm1_weight,
                gradients.norm1_weight, gradients.norm1_bias);
}

void GptPass::backward_of_embedding(tensor::Tensor dtoken_table, tensor::Tensor dposition_table) {
  sequence.run(
      sequence.ops.matmul,
      {.a = activations.logits, .b = activations.norm.out, .c = dtoken_table, .transpose_a = true});
  sequence.run(sequence.ops.embedding_backward,
               {.tokens = batch.tokens,
                .dx = {activations.dstream.data, activations.embedded.shape},
                .dtoken_table = dtoken_table,
                .dposition_table = dposition_table});
}

}  // namespace gpunode::model
