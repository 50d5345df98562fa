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

void backward_of_head(OperationSequence& sequence, const GptViews<const float>& weights,
                      const GptActivations& activations, GptScratch& scratch,
                      tensor::Tensor dnorm_weight, tensor::Tensor dnorm_bias) {
  sequence.run(sequence.ops.matmul,
               {.a = activations.logits, .b = weights.token_table, .c = scratch.dnorm});
  const tensor::Tensor& dstream = activations.dstream;
  std::fill_n(dstream.data, dstream.element_count(), 0.0f);
  sequence.run(sequence.ops.layernorm_backward,
               {.dy = scratch.dnorm,
                .x = entered(activations, activations.blocks.size()),
                .weight = weights.norm_weight,
                .mean = activations.mean,
                .rstd = activations.rstd,
                .dx = dstream,
                .dweight = dnorm_weight,
                .dbias = dnorm_bias});
}

void backward_of_reduce(OperationSequence& sequence, std::size_t layer,
                        const GptBlockViews<const float>& weights,
                        const GptActivations& activations, const GptBlockViews<float>& gradients) {
  const GptBlockActivations& block = activations.blocks[layer];
  linear_backward(sequence, {.dy = activations.dstream,
                             .x = block.activated,
                             .weight = weights.reduce_weight,
                             .dx = block.activated,
                             .dweight = gradients.reduce_weight,
                             .dbias = gradients.reduce_bias});
}

void backward_of_expand(OperationSequence& sequence, std::size_t layer,
                        const GptBlockViews<const float>& weights,
                        const GptActivations& activations, GptScratch& scratch,
                        const GptBlockViews<float>& gradients) {
  const ops::Operations& ops = sequence.ops;
  const GptBlockActivations& block = activations.blocks[layer];
  const tensor::Tensor& dexpanded = block.activated;
  sequence.run(ops.gelu_backward, {.dy = dexpanded, .x = block.expanded, .dx = dexpanded});
  linear_backward(sequence, {.dy = dexpanded,
                             .x = block.norm2,
                             .weight = weights.expand_weight,
                             .dx = scratch.dnorm,
                             .dweight = gradients.expand_weight,
                             .dbias = gradients.expand_bias});
  sequence.run(ops.layernorm_backward, {.dy = scratch.dnorm,
                                        .x = block.residual1,
                                        .weight = weights.norm2_weight,
                                        .mean = block.mean2,
                                        .rstd = block.rstd2,
                                        .dx = activations.dstream,
                                        .dweight = gradients.norm2_weight,
                                        .dbias = gradients.norm2_bias});
}

void backward_of_attention(OperationSequence& sequence, const GptConfig& config, std::size_t layer,
                           const GptBlockViews<const float>& weights,
                           const GptActivations& activations, GptScratch& scratch,
                           const GptBlockViews<float>& gradients) {
  const ops::Operations& ops = sequence.ops;
  const GptBlockActivations& block = activations.blocks[layer];
  linear_backward(sequence, {.dy = activations.dstream,
                             .x = block.attended,
                             .weight = weights.projection_weight,
                             .dx = scratch.dnorm,
                             .dweight = gradients.projection_weight,
                             .dbias = gradients.projection_bias});
  sequence.run(ops.attention_backward, {.dout = {scratch.dnorm.data, block.attended.shape},
                                        .qkv = block.qkv,
                                        .probabilities = block.probabilities,
                                        .heads = config.heads,
                                        .dqkv = scratch.dqkv});
  linear_backward(sequence, {.dy = scratch.dqkv,
                             .x = block.norm1,
                             .weight = weights.attention_weight,
                             .dx = scratch.dnorm,
                             .dweight = gradients.attention_weight,
                             .dbias = gradients.attention_bias});
  sequence.run(ops.layernorm_backward, {.dy = scratch.dnorm,
                                        .x = entered(activations, layer),
                                        .weight = weights.norm1_weight,
                                        .mean = block.mean1,
                                        .rstd = block.rstd1,
                                        .dx = activations.dstream,
                                        .dweight = gradients.norm1_weight,
                                        .dbias = gradients.norm1_bias});
}

void backward_of_embedding(OperationSequence& sequence, const GptBatch& batch,
                           const GptActivations& activations, tensor::Tensor dtoken_table,
                           tensor::Tensor dposition_table) {
  sequence.run(
      sequence.ops.matmul,
      {.a = activations.logits, .b = activations.norm, .c = dtoken_table, .transpose_a = true});
  sequence.run(sequence.ops.embedding_backward,
               {.tokens = batch.tokens,
                .dx = {activations.dstream.data, activations.embedded.shape},
                .dtoken_table = dtoken_table,
                .dposition_table = dposition_table});
}

}  // namespace gpunode::model
