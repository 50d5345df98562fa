// What a test in another language asks of our tokenizers: reads a tokenizer.json, then texts from
// standard input, a JSON string a line, and writes an object a line for each: "ids", the tokens;
// "text" and "all", what they are as text without and with special tokens; "streamed", the same as
// "text", token by token; or "error".
// usage: tokenizer_probe TOKENIZER_JSON
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "runtime/tokenizer/text_stream.hpp"

namespace gpunode {
namespace {

using Json = nlohmann::json;

Result<std::string> streamed(std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                             const std::vector<tokenizer::Token>& tokens) {
  tokenizer::TextStream stream(std::move(tokenizer));
  std::string whole;
  for (const tokenizer::Token token : tokens) {
    auto more = stream.add(token);
    if (!more) return more;
    whole += *more;
  }
  auto rest = stream.end();
  return rest ? whole + *rest : rest;
}

Json answer(const std::shared_ptr<const tokenizer::Tokenizer>& tokenizer, const std::string& text) {
  const auto tokens = tokenizer->encode(text);
  if (!tokens) return {{"error", tokens.error().message()}};
  const auto plain = tokenizer->decode(*tokens), all = tokenizer->decode(*tokens, true);
  const auto pieces = streamed(tokenizer, *tokens);
  if (!plain || !all || !pieces) return {{"error", "the tokens are no text"}};
  return {{"ids", *tokens}, {"text", *plain}, {"all", *all}, {"streamed", *pieces}};
}

int run(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string json{std::istreambuf_iterator<char>(file), {}};
  const auto tokenizer = tokenizer::Tokenizer::parse(json);
  if (!tokenizer) {
    std::fprintf(stderr, "tokenizer_probe: %s\n", tokenizer.error().message().c_str());
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);)
    std::cout << answer(*tokenizer, Json::parse(line).get<std::string>()).dump() << '\n';
  return 0;
}

}  // namespace
}  // namespace gpunode

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: tokenizer_probe TOKENIZER_JSON\n"), 2;
  return gpunode::run(argv[1]);
}
