// OpenAI's embeddings as JSON: requests read strictly, answers written. Pure.
// Source: OpenAI's API reference, embeddings.
#pragma once

#include <string>
#include <string_view>

#include "actors/inference/infer_codec.hpp"

namespace gpunode::inference::openai {

struct EmbeddingsRequest {
  std::string model;
  InferRequest texts;      // for the model, as vector_answers.hpp has it
  bool in_base64 = false;  // little-endian float32, as their client asks for it
};
// Fails with: invalid_argument, naming the field, which `wrong_field` is set to too.
Result<EmbeddingsRequest> read_embeddings(std::string_view body, std::string* wrong_field);
// Fails with: corrupted (an answer of no encoder).
struct EmbeddingsAnswer {
  std::string body;
  std::uint64_t tokens = 0;
};
Result<EmbeddingsAnswer> embeddings(const EmbeddingsRequest& request, const InferAnswer& answer);

}  // namespace gpunode::inference::openai
