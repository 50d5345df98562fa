// Softmax and cross-entropy in one pass, summed over tokens (not their mean).
//   loss[t] = log(sum_v exp(logits[t, v])) - logits[t, target[t]]
//   dlogits = softmax(logits) - one_hot(target)
#pragma once

#include "kernels/ops/operation.hpp"

namespace gpunode::ops {

struct CrossEntropyArgs {
  tensor::ConstTensor logits;   // (T, V)
  tensor::TokenTensor targets;  // (T), each in [0, V)
  tensor::Tensor losses;        // (T)
  tensor::Tensor dlogits;       // (T, V), may be logits itself; not computed if null
};

}  // namespace gpunode::ops
