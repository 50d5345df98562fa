// Texts that a request gives, each as it is or as the numbers of its tokens. Private to the parsers of
// OpenAI's requests.
#pragma once

#include <cstdint>

#include "actors/inference/detail/request_fields.hpp"

namespace gpunode::inference::openai {

struct Prompt {
  std::string text;
  std::vector<std::int32_t> tokens;  // not empty: in its place
};

// A text, a list of tokens, or a list of either, under this name; one at least, and at most `most`.
std::vector<Prompt> read_prompts(Fields& fields, const std::string& name, std::size_t most);

}  // namespace gpunode::inference::openai
