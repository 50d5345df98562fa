// Texts as vectors of length 1, which lie close to one another where texts mean alike: the mean of what an
// encoder makes of a text's tokens, or what it makes of the first one, as the model was trained for. A
// vector is a function of its text and the weights. No mailbox; owned by a served model, one thread.
// Source: Reimers and Gurevych, Sentence-BERT (2019).
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "actors/checkpoint/text_form.hpp"
#include "kernels/model/encoder.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

namespace gpunode::inference {

struct TextVector {
  std::vector<float> values;  // Model::representation()
  std::size_t tokens = 0;     // of the text, special ones included
};

class TextEncoder {
 public:
  struct Options {
    const model::Model* model = nullptr;
    std::shared_ptr<const tokenizer::Tokenizer> tokenizer;
    checkpoint::Pooling pooling = checkpoint::Pooling::mean;
  };
  // `program` has its weights and outlives this. Fails with: what making an encoder fails with.
  static Result<std::unique_ptr<TextEncoder>> open(model::Program& program, Options options);

  // Fails with: invalid_argument (a text that is empty, longer than the model reads, or no UTF-8; a token
  // outside the vocabulary), internal (numbers that are not finite), what reading fails with.
  Result<TextVector> represent(std::string_view text);
  Result<TextVector> represent(std::span<const model::Token> tokens);
  std::size_t width() const { return options_.model->representation(); }

 private:
  TextEncoder(Options options, std::unique_ptr<model::Encoder> encoder)
      : options_(std::move(options)), encoder_(std::move(encoder)) {}
  Options options_;
  std::unique_ptr<model::Encoder> encoder_;
  std::vector<float> rows_;
};

}  // namespace gpunode::inference
