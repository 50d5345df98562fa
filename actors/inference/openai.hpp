// OpenAI's completions, of texts and of chats, as JSON: requests read strictly, and answers written whole
// or in pieces. A field that is not known here is refused, never ignored. Pure.
// Source: OpenAI's API reference, completions and chat completions; with top_k, min_p and
// repetition_penalty as vLLM has them, and a priority (0 to 100, higher ones first).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/inference/generate_codec.hpp"

namespace gpunode::inference::openai {

struct CompletionRequest {
  std::string model;
  std::vector<GenerateRequest> texts;  // one a choice, in their order
  std::size_t choices_a_prompt = 1;
  bool is_chat = false;
  bool stream = false;
  bool include_usage = false;  // in the stream's last piece but [DONE]
};
// `random` is the seed where the request names none; each choice of a prompt has another one.
// Fails with: invalid_argument, naming the field, which `wrong_field` is set to too.
Result<CompletionRequest> read_completion(std::string_view body, std::uint64_t random,
                                          std::string* wrong_field = nullptr);
Result<CompletionRequest> read_chat(std::string_view body, std::uint64_t random,
                                    std::string* wrong_field = nullptr);

// What all pieces of one answer have in common.
struct AnswerHead {
  std::string id;            // "cmpl-...", "chatcmpl-..."
  std::int64_t created = 0;  // seconds since 1970
  std::string model;
  bool is_chat = false;
};
std::string completion(const AnswerHead& head, const CompletionRequest& request,
                       const std::vector<GenerateAnswer>& texts);
// Events of a stream, each with the empty line behind it. The first of a chat's choice says who speaks.
std::string start_event(const AnswerHead& head, std::size_t choice);
// With what is told of its tokens, where that is asked for.
std::string text_event(const AnswerHead& head, std::size_t choice, const TextPiece& piece);
std::string finish_event(const AnswerHead& head, std::size_t choice, const GenerateAnswer& answer);
std::string usage_event(const AnswerHead& head, const CompletionRequest& request,
                        const std::vector<GenerateAnswer>& texts);
std::string error_event(const Error& error);
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

std::string model(const std::string& name, std::int64_t created);
std::string models(const std::vector<std::string>& names, std::int64_t created);

int status_of(const Error& error);
// {"error": {message, type, param, code}}; `param`: the field that it is about, if it is about one.
std::string error_body(const Error& error, const std::string& param = "");

}  // namespace gpunode::inference::openai
