// What all models that predict the next token share: a sample is context + 1 of them, each of the
// first `context` of which predicts its successor. A vocabulary of up to 256 is of bytes (field
// "text" u8), a larger one of tokens (field "tokens" i32).
#pragma once

#include "kernels/model/graph_model.hpp"

namespace gpunode::model {

inline constexpr std::int64_t kVocabularyLimit = 1 << 20;

class TextModel : public GraphModel {
 public:
  std::vector<SampleField> sample_fields() const final;
  std::size_t tokens_per_sample() const final { return static_cast<std::size_t>(context()); }
  // Fails with: invalid_argument (a token outside the vocabulary, and where it stands).
  Result<void> read(const Sample& sample, std::span<const InputPart> inputs) const final;

 protected:
  struct Inputs {
    graph::ValueId tokens, targets;  // (B, T) each
  };
  // The inputs that read() fills; the first call of a forward pass.
  static Inputs inputs_of(graph::Builder& builder);
};

}  // namespace gpunode::model
