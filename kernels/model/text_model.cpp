#include "kernels/model/text_model.hpp"

#include <algorithm>

namespace gpunode::model {

Result<void> TextModel::read(const Sample& sample, std::span<const InputPart> inputs) const {
  const auto largest = *std::max_element(sample.bytes.begin(), sample.bytes.end());
  if (largest >= vocabulary())
    return {ErrorCode::invalid_argument,
            "sample " + std::to_string(sample.index) + " holds byte " + std::to_string(largest) +
                ", but vocabulary = " + std::to_string(vocabulary()) + ": raise it to 256"};
  std::copy(sample.bytes.begin(), sample.bytes.end() - 1, inputs[0].tokens().begin());
  std::copy(sample.bytes.begin() + 1, sample.bytes.end(), inputs[1].tokens().begin());
  return {};
}

TextModel::Inputs TextModel::inputs_of(graph::Builder& builder) {
  const graph::ValueId tokens = builder.input("tokens", graph::Dtype::i32, {builder.positions()});
  return {tokens, builder.input("targets", graph::Dtype::i32, {builder.positions()})};
}

}  // namespace gpunode::model
