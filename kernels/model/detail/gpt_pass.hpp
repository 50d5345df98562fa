// GPT's forward and backward pass over one slice, as sequences of operations. No memory is
// allocated and nothing is kept: weights, activations and gradients are the caller's.
#pragma once

#include "kernels/model/detail/gpt_activations.hpp"
#include "kernels/model/detail/gpt_views.hpp"
#include "kernels/model/detail/operation_sequence.hpp"

namespace gpunode::model {

struct GptBatch {
  tensor::TokenTensor tokens, targets;  // (B, T) each
};

struct GptPass {
  OperationSequence sequence;
  const GptConfig& config;
  const GptWeights& weights;
  const GptBatch batch;
  GptActivations& activations;
  GptScratch& scratch;

  // Forward in parts, in this order: the embedding, of each block its attention (with norm1), then
  // its network (with norm2), the head up to the losses. With `keep_gradient` the logits become
  // their gradient.
  void forward_of_embedding();
  void forward_of_attention(std::size_t layer);
  void forward_of_network(std::size_t layer);
  void forward_of_head(bool keep_gradient);

  // After forward with keep_gradient, in this order: the head, the blocks from the last to the
  // first, the embedding. Each overwrites the gradients it is given. activations.dstream is the
  // gradient of the stream at the place that backward has come to. What the head adds to the token
  // table's gradient is the embedding's work, as nothing before it needs that.
  void backward_of_head(tensor::Tensor dnorm_weight, tensor::Tensor dnorm_bias);
  // A block in three parts: the network's second layer, its first (with norm2), attention (with
  // norm1). From the first part on `activated` holds its own gradient.
  void backward_of_reduce(std::size_t layer, const GptBlockGradients& gradients);
  void backward_of_expand(std::size_t layer, const GptBlockGradients& gradients);
  void backward_of_attention(std::size_t layer, const GptBlockGradients& gradients);
  void backward_of_embedding(tensor::Tensor dtoken_table, tensor::Tensor dposition_table);

 private:
  // What enters block `layer`, or the last norm.
  tensor::ConstTensor entered(std::size_t layer) const {
    return layer == 0 ? activations.embedded : activations.blocks[layer - 1].residual2;
  }
  // Of the norm of `x`, from scratch.dnorm to dstream.
  void norm_backward(const GptNorm& norm, tensor::ConstTensor x, tensor::ConstTensor weight,
                     tensor::Tensor dweight, tensor::Tensor dbias);
};

// A block's attention without the attention step: what comes before it, and what comes after; and
// its network.
void forward_to_attention(OperationSequence& sequence, const GptBlockWeights& weights,
                          tensor::ConstTensor stream, const GptBlockActivations& block);
void forward_from_attention(OperationSequence& sequence, const GptBlockWeights& weights,
                            tensor::ConstTensor stream, const GptBlockActivations& block);
void forward_through_network(OperationSequence& sequence, const GptBlockWeights& weights,
                             const GptBlockActivations& block);

// norm.out = the norm of x (R, C), with what the backward pass needs.
void normalise(OperationSequence& sequence, tensor::ConstTensor x, tensor::ConstTensor weight,
               tensor::ConstTensor bias, const GptNorm& norm);

// y (R, N) = x (R, K) weight^T + bias; x and y may have more dimensions.
void linear(OperationSequence& sequence, tensor::ConstTensor x, tensor::ConstTensor weight,
            tensor::ConstTensor bias, tensor::Tensor y);

}  // namespace gpunode::model
