// Named views into GPT's flat parameter vector, of weights (const) and of gradients alike.
#pragma once

#include "kernels/model/gpt.hpp"
#include "kernels/tensor/tensor.hpp"

namespace gpunode::model {

using GptBlockWeights = GptBlock<tensor::ConstTensor>;
using GptBlockGradients = GptBlock<tensor::Tensor>;
using GptWeights = GptParameters<tensor::ConstTensor>;

// Gives the view of what lies at a place. `part` holds the elements of `range`; what lies outside
// it is null.
template <class T>
auto viewer_of(T* part, ElementRange range) {
  return [part, range](const GptPlace& at) -> tensor::View<T> {
    const bool inside = at.first >= range.first && at.first - range.first < range.count;
    return {inside ? part + (at.first - range.first) : nullptr, at.shape};
  };
}

}  // namespace gpunode::model
