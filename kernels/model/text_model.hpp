// What all models that predict the next byte share: a sample is context + 1 bytes, each of the first
// `context` of which predicts its successor.
#pragma once

#include "kernels/model/graph_model.hpp"

namespace gpunode::model {

class TextModel : public GraphModel {
 public:
  std::vector<SampleField> sample_fields() const final {
    return {{"text", SampleDtype::u8, static_cast<std::uint32_t>(context() + 1)}};
  }
  std::size_t tokens_per_sample() const final { return static_cast<std::size_t>(context()); }
  Result<void> read(const Sample& sample, std::span<const InputPart> inputs) const final;

 protected:
  struct Inputs {
    graph::ValueId tokens, targets;  // (B, T) each
  };
  // The inputs that read() fills; the first call of a forward pass.
  static Inputs inputs_of(graph::Builder& builder);
};

}  // namespace gpunode::model
