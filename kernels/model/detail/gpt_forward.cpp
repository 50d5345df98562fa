#include "kernels/model/detail/gpt_pass.hpp"

namespace gpunode::model {

void linear(OperationSequence& sequence, tensor::ConstTensor x, tensor::ConstTensor weight,
            tensor::ConstTensor bias, tensor::Tensor y) {
  const std::int64_t columns = weight.shape[0], inner = weight.shape[1];
  const std::int64_t rows = x.element_count() / inner;
  sequence.run(sequence.ops.matmul, {.a = {x.data, {rows, inner}},
                                     .b = weight,
                                     .c = {y.data, {rows, columns}},
                                     .transpose_b = true,
                                     .bias = bias});
}

void forward_to_attention(OperationSequence& sequence, const GptBlockViews<const float>& weights,
                          tensor::ConstTensor stream, GptBlockActivations& block) {
  sequence.run(sequence.ops.layernorm, {.x = stream,
                                        .weight = weights.norm1_weight,
                                        .bias = weights.norm1_bias,
                                        .y = block.norm1,
                                        .mean = block.mean1,
                                        .rstd = block.rstd1});
  linear(sequence, block.norm1, weights.attention_weight, weights.attention_bias, block.qkv);
}

void forward_from_attention(OperationSequence& sequence, const GptBlockViews<const float>& weights,
                            tensor::ConstTensor stream, GptBlockActivations& block) {
  const ops::Operations& ops = sequence.ops;
  linear(sequence, block.attended, weights.projection_weight, weights.projection_bias,
         block.residual1);
  sequence.run(ops.add, {.a = stream, .b = block.residual1, .out = block.residual1});
}

void forward_through_network(OperationSequence& sequence, const GptBlockViews<const float>& weights,
                             GptBlockActivations& block) {
  const ops::Operations& ops = sequence.ops;
  sequence.run(ops.layernorm, {.x = block.residual1,
                               .weight = weights.norm2_weight,
                               .bias = weights.norm2_bias,
                               .y = block.norm2,
                               .mean = block.mean2,
                               .rstd = block.rstd2});
  linear(sequence, block.norm2, weights.expand_weight, weights.expand_bias, block.expanded);
  sequence.run(ops.gelu, {.x = block.expanded, .y = block.activated});
  linear(sequence, block.activated, weights.reduce_weight, weights.reduce_bias, block.residual2);
  sequence.run(ops.add, {.a = block.residual1, .b = block.residual2, .out = block.residual2});
}

void forward_of_embedding(OperationSequence& sequence, const GptViews<const float>& weights,
                          const GptBatch& batch, GptActivations& activations) {
  sequence.run(sequence.ops.embedding, {.tokens = batch.tokens,
                                        .token_table = weights.token_table,
                                        .position_table = weights.position_table,
                                        .first = 0,
                                        .x = activations.embedded});
}

void forward_of_attention(OperationSequence& sequence, const GptConfig& config, std::size_t layer,
                          const GptBlockViews<const float>& weights, GptActivations& activations) {
  const tensor::ConstTensor stream = entered(activations, layer);
  GptBlockActivations& block = activations.blocks[layer];
  forward_to_attention(sequence, weights, stream, block);
  sequence.run(sequence.ops.attention, {.qkv = block.qkv,
                                        .heads = config.heads,
                                        .probabilities = block.probabilities,
                                        .out = block.attended});
  forward_from_attention(sequence, weights, stream, block);
}

void forward_of_head(OperationSequence& sequence, const GptViews<const float>& weights,
                     const GptBatch& batch, GptActivations& activations, bool keep_gradient) {
  const ops::Operations& ops = sequence.ops;
  sequence.run(ops.layernorm, {.x = entered(activations, activations.blocks.size()),
                               .weight = weights.norm_weight,
                               .bias = weights.norm_bias,
                               .y = activations.norm,
                               .mean = activations.mean,
                               .rstd = activations.rstd});
  linear(sequence, activations.norm, weights.token_table, {}, activations.logits);
  sequence.run(ops.cross_entropy,
               {.logits = activations.logits,
                .targets = batch.targets,
                .losses = activations.losses,
                .dlogits = keep_gradient ? activations.logits : tensor::Tensor{}});
}

}  // namespace gpunode::model
