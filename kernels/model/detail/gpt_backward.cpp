// GPT backward: the operations of the forward pass in reverse, each with its gradient.

#include <algorithm>

#include "kernels/model/detail/gpt_pass.hpp"

namespace gpunode::model {
namespace {

// Of y = x weight^T + bias: dx = dy weight, dweight = dy^T x, dbias = column sums of dy.
struct LinearBackward {
  tensor::ConstTensor dy, x, weight;
  tensor::Tensor dx, dweight, dbias;  // dbias absent if null
};

void linear_backward(OperationSequence& sequence, const LinearBackward& pass) {
  const std::int64_t columns = pass.weight.shape[0], inner = pass.weight.shape[1];
  const std::int64_t rows = pass.x.element_count() / inner;
  const tensor::ConstTensor dy{pass.dy.data, {rows, columns}};
  sequence.run(sequence.ops.matmul,
               {.a = dy, .b = pass.weight, .c = {pass.dx.data, {rows, inner}}});
  sequence.run(
      sequence.ops.matmul,
      {.a = dy, .b = {pass.x.data, {rows, inner}}, .c = pass.dweight, .transpose_a = true});
  if (pass.dbias) sequence.run(sequence.ops.column_sum, {.x = dy, .out = pass.dbias});
}

// `stream` is what entered the block; scratch.dstream holds the gradient of what left it and
// receives that of what entered.
void block_backward(OperationSequence& sequence, const GptConfig& config,
                    const GptBlockViews<const float>& weights, const GptBlockActivations& block,
                    tensor::ConstTensor stream, GptScratch& scratch,
                    GptBlockViews<float>& gradients) {
  const ops::Operations& ops = sequence.ops;
  linear_backward(sequence, {.dy = scratch.dstream,
                             .x = block.activated,
                             .weight = weights.reduce_weight,
                             .dx = scratch.dexpanded,
                             .dweight = gradients.reduce_weight,
                             .dbias = gradients.reduce_bias});
  sequence.run(ops.gelu_backward,
               {.dy = scratch.dexpanded, .x = block.expanded, .dx = scratch.dexpanded});
  linear_backward(sequence, {.dy = scratch.dexpanded,
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
                                        .dx = scratch.dstream,
                                        .dweight = gradients.norm2_weight,
                                        .dbias = gradients.norm2_bias});
  linear_backward(sequence, {.dy = scratch.dstream,
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
                                        .x = stream,
                                        .weight = weights.norm1_weight,
                                        .mean = block.mean1,
                                        .rstd = block.rstd1,
                                        .dx = scratch.dstream,
                                        .dweight = gradients.norm1_weight,
                                        .dbias = gradients.norm1_bias});
}

}  // namespace

void backward(OperationSequence& sequence, const GptConfig& config,
              const GptViews<const float>& weights, const GptBatch& batch,
              const GptActivations& activations, GptScratch& scratch, GptViews<float>& gradients) {
  const ops::Operations& ops = sequence.ops;
  linear_backward(sequence, {.dy = activations.logits,
                             .x = activations.norm,
                             .weight = weights.token_table,
                             .dx = scratch.dnorm,
                             .dweight = gradients.token_table,
                             .dbias = {}});
  const auto entered = [&](std::size_t layer) -> tensor::ConstTensor {
    return layer == 0 ? activations.embedded : activations.blocks[layer - 1].residual2;
  };
  std::fill_n(scratch.dstream.data, scratch.dstream.element_count(), 0.0f);
  sequence.run(ops.layernorm_backward, {.dy = scratch.dnorm,
                                        .x = entered(weights.blocks.size()),
                                        .weight = weights.norm_weight,
                                        .mean = activations.mean,
                                        .rstd = activations.rstd,
                                        .dx = scratch.dstream,
                                        .dweight = gradients.norm_weight,
                                        .dbias = gradients.norm_bias});
  for (std::size_t layer = weights.blocks.size(); layer-- > 0;)
    block_backward(sequence, config, weights.blocks[layer], activations.blocks[layer],
                   entered(layer), scratch, gradients.blocks[layer]);
  sequence.run(ops.embedding_backward, {.tokens = batch.tokens,
                                        .dx = {scratch.dstream.data, activations.embedded.shape},
                                        .dtoken_table = gradients.token_table,
                                        .dposition_table = gradients.position_table});
}

}  // namespace gpunode::model
