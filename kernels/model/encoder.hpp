// Texts as vectors: what an encoder makes of each token of a text, read whole. Each text alone, so that what
// comes of it depends on nothing else.
#pragma once

#include <span>

#include "kernels/model/model.hpp"

namespace gpunode::model {

class Encoder {
 public:
  virtual ~Encoder() = default;

  // Tokens that a text may have.
  virtual std::size_t context() const = 0;
  // Writes Model::representation() numbers for each token. Thread: one at a time. Fails with:
  // invalid_argument (no token, too many, one outside the vocabulary, wrong size of `out`).
  virtual Result<void> read(std::span<const Token> text, std::span<float> out) = 0;
};

// Model::program(...)->encoder(), whose success is not null. Fails with: what it fails with.
Result<std::unique_ptr<Encoder>> make_encoder(Program& program);

}  // namespace gpunode::model
