#include "kernels/model/detail/gpt_pass.hpp"

namespace gpunode::model {

void normalise(OperationSequence& sequence, tensor::ConstTensor x, tensor::ConstTensor weight,
               tensor::ConstTensor bias, const GptNorm& norm) {
  sequence.run(sequence.ops.layernorm, {.x = x,
                                        .weight = weight,
                                        .bias = bias,
                                        .y = norm.out,
                                        .mean = norm.mean,
                                        .rstd = norm.rstd});
}

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

void forward_to_attention(OperationSequence& sequence, const GptBlockWeights& weights,
                          tensor::ConstTensor stream, const GptBlockActivations& block) {
  normalise(sequence, stream, weights.norm1_weight, weights.norm1_bias, block.norm1);
  linear(sequence, block.norm1.out, weights.attention_weight, weights.attention_bias, block.qkv);
}

void forward_from_attention(OperationSequence& sequence, const GptBlockWeights& weights,
                            tensor::ConstTensor stream, const GptBlockActivations& block) {
  linear(sequence, block.attended, weights.projection_weight, weights.projection_bias,
         block.residual1);
  sequence.run(sequence.ops.add, {.a = stream, .b = block.residual1, .out = block.residual1});
}

void forward_through_network(OperationSequence& sequence, const GptBlockWeights& weights,
                             const GptBlockActivations& block) {
  const ops::Operations& ops = sequence.ops;
  normalise(sequence, block.residual1, weights.norm2_weight, weights.norm2_bias, block.norm2);
  linear(sequence, block.norm2.out, weights.expand_weight, weights.expand_bias, block.expanded);
  sequence.run(ops.gelu, {.x = block.expanded, .y = block.activated});
  linear(sequence, block.activated, weights.reduce_weight, weights.reduce_bias, block.residual2);
  sequence.run(ops.add, {.a = block.residual1, .b = block.residual2, .out = block.residual2});
}

void GptPass::forward_of_embedding() {
  sequence.run(sequence.ops.embedding, {.tokens = batch.tokens,
                                        .token_table = weights.token_table,
                                        .position_table = weights.position_table,
                                        .first = 0,
                                        .x = activations.embedded});
}

void GptPass::forward_of_attention(std::size_t layer) {
  const GptBlockActivations& block = activations.blocks[layer];
  forward_to_attention(sequence, weights.blocks[layer], entered(layer), block);
  sequence.run(sequence.ops.attention, {.qkv = block.qkv,
                                        .heads = config.heads,
                                        .probabilities = block.probabilities,
                                        .out = block.attended});
  forward_from_attention(sequence, weights.blocks[layer], entered(layer), block);
}

void GptPass::forward_of_network(std::size_t layer) {
  forward_through_network(sequence, weights.blocks[layer], activations.blocks[layer]);
}

void GptPass::forward_of_head(bool keep_gradient) {
  normalise(sequence, entered(activations.blocks.size()), weights.norm_weight, weights.norm_bias,
            activations.norm);
  linear(sequence, activations.norm.out, weights.token_table, {}, activations.logits);
  sequence.run(sequence.ops.cross_entropy,
               {.logits = activations.logits,
                .targets = batch.targets,
                .losses = activations.losses,
                .dlogits = keep_gradient ? activations.logits : tensor::Tensor{}});
}

}  // namespace gpunode::model
