#include "kernels/model/text_model.hpp"

#include <cstring>

namespace gpunode::model {

std::vector<SampleField> TextModel::sample_fields() const {
  const auto count = static_cast<std::uint32_t>(context() + 1);
  if (vocabulary() <= 256) return {{"text", SampleDtype::u8, count}};
  return {{"tokens", SampleDtype::i32, count}};
}

Result<void> TextModel::read(const Sample& sample, std::span<const InputPart> inputs) const {
  const std::span<std::int32_t> tokens = inputs[0].tokens(), targets = inputs[1].tokens();
  const bool bytes = vocabulary() <= 256;
  for (std::size_t at = 0; at <= tokens.size(); ++at) {
    std::int32_t token = 0;
    if (bytes)
      token = sample.bytes[at];
    else
      std::memcpy(&token, sample.bytes.data() + at * sizeof token, sizeof token);
    if (token < 0 || static_cast<std::size_t>(token) >= vocabulary())
      return {ErrorCode::invalid_argument,
              "sample " + std::to_string(sample.index) + " holds " + (bytes ? "byte " : "token ") +
                  std::to_string(token) + " at its position " + std::to_string(at) +
                  ", but vocabulary = " + std::to_string(vocabulary()) +
                  (bytes ? ": raise it to 256" : "")};
    if (at < tokens.size()) tokens[at] = token;
    if (at > 0) targets[at - 1] = token;
  }
  return {};
}

TextModel::Inputs TextModel::inputs_of(graph::Builder& builder) {
  const graph::ValueId tokens = builder.input("tokens", graph::Dtype::i32, {builder.positions()});
  return {tokens, builder.input("targets", graph::Dtype::i32, {builder.positions()})};
}

}  // namespace gpunode::model
