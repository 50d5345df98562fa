#include "actors/inference/detail/openai_logprobs.hpp"

#include "runtime/base/utf8.hpp"

namespace gpunode::inference::openai {
namespace {

// As OpenAI writes what is no whole characters.
std::string text_of(const RatedToken& token) {
  std::string_view left = token.bytes;
  while (!left.empty()) {
    const std::size_t length = utf8_length(left);
    if (length == 0) break;
    left.remove_prefix(length);
  }
  if (left.empty()) return token.bytes;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "bytes:";
  for (const char one : token.bytes) {
    const auto byte = static_cast<unsigned char>(one);
    text += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

nlohmann::json number_of(const RatedToken& token) {
  return token.log_probability ? nlohmann::json(*token.log_probability) : nlohmann::json();
}

nlohmann::json of_completion(std::span<const TokenReport> reports) {
  nlohmann::json tokens = nlohmann::json::array(), numbers = nlohmann::json::array(),
                 likely = nlohmann::json::array(), places = nlohmann::json::array();
  for (const TokenReport& report : reports) {
    tokens.push_back(text_of(report.token));
    numbers.push_back(number_of(report.token));
    places.push_back(report.place);
    if (!report.token.log_probability) {
      likely.push_back(nullptr);
      continue;
    }
    // The token itself too, whatever its rank.
    nlohmann::json each{{text_of(report.token), number_of(report.token)}};
    for (const RatedToken& one : report.likely) each[text_of(one)] = number_of(one);
    likely.push_back(std::move(each));
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(numbers)},
          {"top_logprobs", std::move(likely)},
          {"text_offset", std::move(places)}};
}

nlohmann::json of_chat_token(const RatedToken& token) {
  auto bytes = nlohmann::json::array();
  for (const char byte : token.bytes) bytes.push_back(static_cast<unsigned char>(byte));
  return {{"token", text_of(token)}, {"logprob", number_of(token)}, {"bytes", std::move(bytes)}};
}

nlohmann::json of_chat(std::span<const TokenReport> reports) {
  auto content = nlohmann::json::array();
  for (const TokenReport& report : reports) {
    nlohmann::json token = of_chat_token(report.token);
    token["top_logprobs"] = nlohmann::json::array();
    for (const RatedToken& one : report.likely) token["top_logprobs"].push_back(of_chat_token(one));
    content.push_back(std::move(token));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

}  // namespace

nlohmann::json logprobs_of(std::span<const TokenReport> reports, bool is_chat) {
  if (reports.empty()) return nullptr;
  return is_chat ? of_chat(reports) : of_completion(reports);
}

}  // namespace gpunode::inference::openai
