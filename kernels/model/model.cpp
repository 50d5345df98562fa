#include "kernels/model/model.hpp"

#include "kernels/model/decoder_part.hpp"
#include "kernels/model/encoder.hpp"
#include "kernels/model/weight_layout.hpp"

namespace gpunode::model {

std::size_t trained_count(const std::vector<ParameterSpec>& parameters) {
  std::size_t count = 0;
  for (const ParameterSpec& one : parameters)
    if (one.kind == ParameterKind::trained) count += one.element_count();
  return count;
}

Result<void> Model::use_precision(Precision precision) {
  if (precision == Precision::fp32) return {};
  return {ErrorCode::unsupported, name() + " computes in fp32 alone: leave train.precision out"};
}

Result<WeightLayout> Model::weight_layout(ops::WeightFormat format) const {
  if (format == ops::WeightFormat::fp32) return flat_layout(*this);
  return Error{ErrorCode::unsupported,
               name() + " reads its weights as fp32 alone: leave the weights' format out"};
}

Result<void> Program::load_image(ops::WeightFormat, ByteView) {
  return {ErrorCode::unsupported, "the model reads its weights as fp32 alone"};
}

// Not called where stages() gives none; a model that names stages has its own.
Result<LossSum> Program::forward(int, std::size_t, std::size_t, std::span<const Sample>) {
  return {ErrorCode::unsupported, "the model has no stages"};
}

Result<void> Program::scores(int, std::span<const Sample>, std::span<float>) {
  return {ErrorCode::unsupported, "the model tells no scores"};
}

Result<std::unique_ptr<Decoder>> Program::decoder(const DecoderOptions&) {
  return std::unique_ptr<Decoder>();
}

Result<std::unique_ptr<DecoderPart>> Program::part(const ModelPart&, ByteView,
                                                   const DecoderOptions&) {
  return {ErrorCode::unsupported, "the model has no parts"};
}

Result<std::vector<ModelPart>> Model::parts(ops::WeightFormat, std::size_t) const {
  return {ErrorCode::unsupported, name() + " cannot be divided among nodes"};
}

Result<std::unique_ptr<Encoder>> Program::encoder() {
  return {ErrorCode::unsupported, "the model does not represent texts"};
}

Result<void> Program::load_part(std::span<const float>, ElementRange) {
  return {ErrorCode::unsupported, "the model has no stages"};
}

Result<void> Program::backward(int, std::size_t, std::size_t, std::span<float>) {
  return {ErrorCode::unsupported, "the model has no stages"};
}

}  // namespace gpunode::model
