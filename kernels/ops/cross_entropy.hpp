// Softmax and cross-entropy in one pass, summed over tokens (not their mean).
//   loss[t] = log(sum_v exp(logits[t, v])) - logits[t, target[t]]
//   dlogits = softmax(logits) - one_hot(target)
// A token whose target is kNoTarget counts nothing: its loss and its row of dlogits are zero.
#pragma once

#include "kernels/ops/operation.hpp"

namespace gpunode::ops {

inline constexpr std::int32_t kNoTarget = -1;

struct CrossEntropyArgs {
  tensor::ConstTensor logits;   // (T, V)
  tensor::TokenTensor targets;  // (T), each in [0, V) or kNoTarget
  tensor::Tensor losses;        // (T)
  tensor::Tensor dlogits;       // (T, V), may be logits itself; not computed if null
};

}  // namespace gpunode::ops
