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

// Fills the activations up to the losses. With `keep_gradient` the logits become their gradient.
void forward(OperationSequence& sequence, const GptConfig& config,
             const GptViews<const float>& weights, const GptBatch& batch,
             GptActivations& activations, bool keep_gradient);

// After forward with keep_gradient: overwrites every element of `gradients`.
void backward(OperationSequence& sequence, const GptConfig& config,
              const GptViews<const float>& weights, const GptBatch& batch,
              const GptActivations& activations, GptScratch& scratch, GptViews<float>& gradients);

// One block without its attention step: what comes before it, and what comes after.
void forward_to_attention(OperationSequence& sequence, const GptBlockViews<const float>& weights,
                          tensor::ConstTensor stream, GptBlockActivations& block);
void forward_from_attention(OperationSequence& sequence, const GptBlockViews<const float>& weights,
                            tensor::ConstTensor stream, GptBlockActivations& block);

// y (R, N) = x (R, K) weight^T + bias; x and y may have more dimensions.
void linear(OperationSequence& sequence, tensor::ConstTensor x, tensor::ConstTensor weight,
            tensor::ConstTensor bias, tensor::Tensor y);

}  // namespace gpunode::model
