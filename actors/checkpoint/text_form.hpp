// How a model reads and writes texts and chats, as its folder's small files say it. Pure data.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/model/model.hpp"

namespace gpunode::checkpoint {

// What of an encoder's tokens stands for a text: their mean, or the first of them.
enum class Pooling : std::uint8_t { mean, first };

// How a model reads and writes texts, as a folder of transformers says it.
struct TextForm {
  std::string tokenizer;           // its tokenizer.json; empty: the folder has none
  std::vector<model::Token> ends;  // tokens behind which a text is over
  std::string chat_template = {};  // of its chats, in Jinja; empty: none
  std::map<std::string, std::string> special_tokens = {};  // by name, as "bos_token"
  Pooling pooling = Pooling::mean;  // as a folder of sentence-transformers says it
};

}  // namespace gpunode::checkpoint
