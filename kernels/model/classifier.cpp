#include "kernels/model/classifier.hpp"

#include <cstring>

namespace gpunode::model {

std::vector<SampleField> Classifier::sample_fields() const {
  return {{"features", SampleDtype::f32, static_cast<std::uint32_t>(features())},
          {"label", SampleDtype::i32, 1}};
}

Result<void> Classifier::read(const Sample& sample, std::span<const InputPart> inputs) const {
  const std::size_t bytes = inputs[0].count * sizeof(float);
  if (sample.bytes.size() != bytes + sizeof(std::int32_t))
    return {ErrorCode::invalid_argument, "sample " + std::to_string(sample.index) + " has " +
                                             std::to_string(sample.bytes.size()) +
                                             " bytes, the model reads " +
                                             std::to_string(bytes + sizeof(std::int32_t))};
  std::memcpy(inputs[0].data, sample.bytes.data(), bytes);
  std::memcpy(inputs[1].data, sample.bytes.data() + bytes, sizeof(std::int32_t));
  const std::int32_t label = inputs[1].tokens()[0];
  if (label >= 0 && static_cast<std::size_t>(label) < vocabulary()) return {};
  return {ErrorCode::invalid_argument,
          "sample " + std::to_string(sample.index) + " has the label " + std::to_string(label) +
              ", but classes = " + std::to_string(vocabulary()) + ": raise it"};
}

Classifier::Inputs Classifier::inputs_of(graph::Builder& builder,
                                         std::initializer_list<std::int64_t> shape) const {
  const graph::ValueId rows = builder.input("features", graph::Dtype::f32, shape);
  return {rows, builder.input("label", graph::Dtype::i32, {1})};
}

}  // namespace gpunode::model
