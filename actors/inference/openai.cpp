#include "actors/inference/openai.hpp"

#include <algorithm>
#include <span>

#include <nlohmann/json.hpp>

#include "actors/inference/detail/openai_logprobs.hpp"
#include "actors/inference/http_status.hpp"
#include "actors/inference/model_name.hpp"

namespace gpunode::inference::openai {
namespace {

// "deadline" is no word of theirs: the text was cut as by a length.
const char* finish_of(const GenerateAnswer& answer) {
  return answer.finish == "stop" ? "stop" : "length";
}

// What is no UTF-8, as a model over bytes may write it, becomes U+FFFD.
std::string dumped(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

nlohmann::json head_of(const AnswerHead& head, bool is_piece) {
  const char* const kind = head.is_chat && is_piece ? "chat.completion.chunk"
                           : head.is_chat           ? "chat.completion"
                                                    : "text_completion";
  return {{"id", head.id}, {"object", kind}, {"created", head.created}, {"model", head.model}};
}

// Which model the texts are of, "NAME@VERSION/DIGEST", the digest by its first 12 digits; several, where
// nodes of different versions wrote them.
nlohmann::json fingerprint_of(const AnswerHead& head, std::span<const GenerateAnswer> texts) {
  std::vector<std::string> models;
  for (const GenerateAnswer& text : texts) {
    if (text.model_digest.empty()) continue;
    std::string one = versioned(std::string(name_in(head.model)), text.version) + "/" +
                      text.model_digest.substr(0, 12);
    if (std::ranges::find(models, one) == models.end()) models.push_back(std::move(one));
  }
  if (models.empty()) return nullptr;
  std::string joined = models.front();
  for (const std::string& one : std::span(models).subspan(1)) joined += ", " + one;
  return joined;
}

nlohmann::json choice_of(std::size_t choice, nlohmann::json content, const char* finish) {
  nlohmann::json made{{"index", choice}, {"logprobs", nullptr}, {"finish_reason", nullptr}};
  made.update(content);
  if (finish) made["finish_reason"] = finish;
  return made;
}

// Of a text's piece, or of a chat's.
nlohmann::json content_of(const AnswerHead& head, std::string_view text) {
  if (!head.is_chat) return {{"text", text}};
  return {{"delta", text.empty() ? nlohmann::json::object() : nlohmann::json{{"content", text}}}};
}

nlohmann::json whole_of(const AnswerHead& head, const std::string& text) {
  if (!head.is_chat) return {{"text", text}};
  return {{"message", {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}}}};
}

// A prompt counts once, whatever it has choices.
nlohmann::json usage_of(const CompletionRequest& request,
                        const std::vector<GenerateAnswer>& texts) {
  std::uint64_t prompts = 0, tokens = 0;
  for (std::size_t choice = 0; choice < texts.size(); ++choice) {
    if (choice % request.choices_a_prompt == 0) prompts += texts[choice].prompt_tokens;
    tokens += texts[choice].tokens;
  }
  return {{"prompt_tokens", prompts},
          {"completion_tokens", tokens},
          {"total_tokens", prompts + tokens}};
}

nlohmann::json model_of(const std::string& name, std::int64_t created) {
  return {{"id", name}, {"object", "model"}, {"created", created}, {"owned_by", "gpunode"}};
}

std::string event(const nlohmann::json& json) {
  return "data: " + dumped(json) + "\n\n";
}

// By the status that it has.
const char* type_of(ErrorCode code) {
  switch (http_status_of(code)) {
    case 400:
    case 401:
      return "invalid_request_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "service_unavailable_error";
    case 504:
      return "timeout_error";
    default:
      return "server_error";
  }
}

// `param`: the field that it is about; empty: none.
nlohmann::json error_json_of(const Error& error, const std::string& param = "") {
  return {{"error",
           {{"message", error.detail},
            {"type", type_of(error.code)},
            {"param", param.empty() ? nlohmann::json() : nlohmann::json(param)},
            {"code", error.code == ErrorCode::unauthenticated ? "invalid_api_key"
                                                              : to_string(error.code)}}}};
}

}  // namespace

std::string completion(const AnswerHead& head, const CompletionRequest& request,
                       const std::vector<GenerateAnswer>& texts) {
  nlohmann::json answer = head_of(head, false);
  auto choices = nlohmann::json::array();
  for (std::size_t choice = 0; choice < texts.size(); ++choice) {
    choices.push_back(
        choice_of(choice, whole_of(head, texts[choice].text), finish_of(texts[choice])));
    choices.back()["logprobs"] = logprobs_of(texts[choice].reports, head.is_chat);
  }
  answer["choices"] = std::move(choices);
  answer["system_fingerprint"] = fingerprint_of(head, texts);
  answer["usage"] = usage_of(request, texts);
  return dumped(answer);
}

namespace {

// `texts`: of which is known by now what wrote them.
std::string piece_event(const AnswerHead& head, nlohmann::json choice,
                        std::span<const GenerateAnswer> texts = {}) {
  nlohmann::json answer = head_of(head, true);
  if (!texts.empty()) answer["system_fingerprint"] = fingerprint_of(head, texts);
  answer["choices"] = nlohmann::json::array({std::move(choice)});
  return event(answer);
}

}  // namespace

std::string start_event(const AnswerHead& head, std::size_t choice) {
  return piece_event(
      head, choice_of(choice, {{"delta", {{"role", "assistant"}, {"content", ""}}}}, nullptr));
}

std::string text_event(const AnswerHead& head, std::size_t choice, const TextPiece& piece) {
  nlohmann::json content = content_of(head, piece.text);
  content["logprobs"] = logprobs_of(piece.reports, head.is_chat);
  return piece_event(head, choice_of(choice, std::move(content), nullptr));
}

std::string finish_event(const AnswerHead& head, std::size_t choice, const GenerateAnswer& text) {
  return piece_event(head, choice_of(choice, content_of(head, ""), finish_of(text)), {&text, 1});
}

std::string usage_event(const AnswerHead& head, const CompletionRequest& request,
                        const std::vector<GenerateAnswer>& texts) {
  nlohmann::json answer = head_of(head, true);
  answer["choices"] = nlohmann::json::array();
  answer["system_fingerprint"] = fingerprint_of(head, texts);
  answer["usage"] = usage_of(request, texts);
  return event(answer);
}

std::string error_event(const Error& error) {
  return event(error_json_of(error));
}

std::string model(const std::string& name, std::int64_t created) {
  return dumped(model_of(name, created));
}

std::string models(const std::vector<std::string>& names, std::int64_t created) {
  auto data = nlohmann::json::array();
  for (const std::string& name : names) data.push_back(model_of(name, created));
  return dumped({{"object", "list"}, {"data", std::move(data)}});
}

int status_of(const Error& error) {
  return http_status_of(error.code);
}

std::string error_body(const Error& error, const std::string& param) {
  return dumped(error_json_of(error, param));
}

}  // namespace gpunode::inference::openai
