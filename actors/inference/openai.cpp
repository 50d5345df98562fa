#include "actors/inference/openai.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/base/nearest.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::inference::openai {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostChoices = 128;

// The fields of a request, each read once; null stands for what is absent.
class Fields {
 public:
  explicit Fields(Json body) : body_(std::move(body)) {}

  const Json* find(const std::string& name) {
    known_.push_back(name);
    const auto found = body_.find(name);
    return found == body_.end() || found->is_null() ? nullptr : &*found;
  }
  void real(const std::string& name, double low, double high, double& value) {
    const Json* found = find(name);
    if (!found || failure) return;
    const double given = found->is_number() ? found->get<double>() : low - 1;
    if (!(given >= low && given <= high))
      refuse(name, "must be a number from " + Json(low).dump() + " to " + Json(high).dump());
    else
      value = given;
  }
  template <class Whole>
  void whole(const std::string& name, std::uint64_t low, std::uint64_t high, Whole& value) {
    const Json* found = find(name);
    if (!found || failure) return;
    const bool fits = found->is_number_unsigned() && found->get<std::uint64_t>() >= low &&
                      found->get<std::uint64_t>() <= high;
    if (!fits)
      refuse(name,
             "must be a whole number from " + std::to_string(low) + " to " + std::to_string(high));
    else
      value = static_cast<Whole>(found->get<std::uint64_t>());
  }
  void flag(const std::string& name, bool& value) {
    const Json* found = find(name);
    if (!found || failure) return;
    if (!found->is_boolean())
      refuse(name, "must be true or false");
    else
      value = found->get<bool>();
  }
  // A text, or a list of texts.
  std::vector<std::string> texts(const std::string& name, std::size_t most) {
    const Json* found = find(name);
    std::vector<std::string> made;
    if (!found || failure) return made;
    const Json list = found->is_array() ? *found : Json::array({*found});
    if (list.size() > most) refuse(name, "has more than " + std::to_string(most) + " entries");
    for (const Json& one : list) {
      if (failure) break;
      if (one.is_string())
        made.push_back(one.get<std::string>());
      else
        refuse(name, "must be a text or a list of texts");
    }
    return made;
  }
  // One that may only say what is done anyway.
  void only(const std::string& name, const Json& value) {
    const Json* found = find(name);
    if (found && !failure && *found != value) refuse(name, "can only be " + value.dump() + " here");
  }
  void refuse_unknown() {
    if (failure) return;
    for (const auto& [name, value] : body_.items())
      if (std::ranges::find(known_, name) == known_.end())
        refuse_because(name, unknown_word("field", name, known_));
  }
  void refuse(const std::string& name, const std::string& what) {
    refuse_because(name, "'" + name + "' " + what);
  }

  std::optional<Error> failure;
  std::string wrong;  // the field that it is about

 private:
  void refuse_because(const std::string& name, std::string why) {
    failure = {ErrorCode::invalid_argument, std::move(why)};
    wrong = name;
  }

  const Json body_;
  std::vector<std::string> known_;
};

void read_sampling(Fields& fields, GenerateRequest& request) {
  request.max_tokens = 16;
  fields.whole("max_tokens", 1, 65536, request.max_tokens);
  fields.real("temperature", 0, 2, request.temperature);
  fields.real("top_p", 0, 1, request.top_p);
  fields.whole("top_k", 0, 1'000'000, request.top_k);
  fields.real("min_p", 0, 1, request.min_p);
  fields.real("presence_penalty", -2, 2, request.presence_penalty);
  fields.real("frequency_penalty", -2, 2, request.frequency_penalty);
  fields.real("repetition_penalty", 0.01, 100, request.repetition_penalty);
  request.stop = fields.texts("stop", 16);
}

// A seed as OpenAI has them, which may be negative.
void read_seed(Fields& fields, std::uint64_t& seed) {
  const Json* found = fields.find("seed");
  if (!found || fields.failure) return;
  if (!found->is_number_integer())
    fields.refuse("seed", "must be a whole number");
  else
    seed = static_cast<std::uint64_t>(found->get<std::int64_t>());
}

void read_stream(Fields& fields, CompletionRequest& request) {
  fields.flag("stream", request.stream);
  const Json* options = fields.find("stream_options");
  if (!options || fields.failure) return;
  Fields inner(*options);
  if (!options->is_object()) inner.refuse("stream_options", "must be an object");
  inner.flag("include_usage", request.include_usage);
  inner.refuse_unknown();
  fields.failure = inner.failure;
  fields.wrong = "stream_options";
  if (!fields.failure && !request.stream)
    fields.refuse("stream_options", "makes sense with \"stream\": true only");
}

// "deadline" is no word of theirs: the text was cut as by a length.
const char* finish_of(const GenerateAnswer& answer) {
  return answer.finish == "stop" ? "stop" : "length";
}

// What is no UTF-8, as a model over bytes may write it, becomes U+FFFD.
std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json head_of(const AnswerHead& head) {
  return {{"id", head.id},
          {"object", "text_completion"},
          {"created", head.created},
          {"model", head.model}};
}

Json choice_of(std::size_t choice, std::string_view text, const char* finish) {
  Json made{{"index", choice}, {"text", text}, {"logprobs", nullptr}, {"finish_reason", nullptr}};
  if (finish) made["finish_reason"] = finish;
  return made;
}

// A prompt counts once, whatever it has choices.
Json usage_of(const CompletionRequest& request, const std::vector<GenerateAnswer>& texts) {
  std::uint64_t prompts = 0, tokens = 0;
  for (std::size_t choice = 0; choice < texts.size(); ++choice) {
    if (choice % request.choices_a_prompt == 0) prompts += texts[choice].prompt_tokens;
    tokens += texts[choice].tokens;
  }
  return {{"prompt_tokens", prompts},
          {"completion_tokens", tokens},
          {"total_tokens", prompts + tokens}};
}

Json model_of(const std::string& name, std::int64_t created) {
  return {{"id", name}, {"object", "model"}, {"created", created}, {"owned_by", "gpunode"}};
}

std::string event(const Json& json) {
  return "data: " + dumped(json) + "\n\n";
}

struct Told {
  ErrorCode code;
  int status;
  const char* type;
};
constexpr Told kTold[] = {{ErrorCode::invalid_argument, 400, "invalid_request_error"},
                          {ErrorCode::unauthenticated, 401, "authentication_error"},
                          {ErrorCode::permission_denied, 403, "permission_error"},
                          {ErrorCode::not_found, 404, "not_found_error"},
                          {ErrorCode::resource_exhausted, 429, "rate_limit_error"},
                          {ErrorCode::unsupported, 501, "invalid_request_error"},
                          {ErrorCode::unavailable, 503, "service_unavailable_error"},
                          {ErrorCode::peer_lost, 503, "service_unavailable_error"},
                          {ErrorCode::cancelled, 503, "service_unavailable_error"},
                          {ErrorCode::device_lost, 503, "service_unavailable_error"},
                          {ErrorCode::out_of_memory, 503, "service_unavailable_error"},
                          {ErrorCode::timeout, 504, "timeout_error"}};

Told told(ErrorCode code) {
  for (const Told& one : kTold)
    if (one.code == code) return one;
  return {code, 500, "server_error"};
}

// `param`: the field that it is about; empty: none.
Json error_json_of(const Error& error, const std::string& param = "") {
  return {{"error",
           {{"message", error.detail},
            {"type", told(error.code).type},
            {"param", param.empty() ? Json() : Json(param)},
            {"code", to_string(error.code)}}}};
}

}  // namespace

Result<CompletionRequest> read_completion(std::string_view body, std::uint64_t random,
                                          std::string* wrong_field) {
  Json parsed = Json::parse(body, nullptr, false);
  if (!parsed.is_object())
    return {ErrorCode::invalid_argument, "the request's body is no JSON object"};
  Fields fields(std::move(parsed));
  CompletionRequest request;
  const auto names = fields.texts("model", 1);
  const auto prompts = fields.texts("prompt", kMostChoices);
  GenerateRequest each{.prompt = {}, .seed = random};
  read_sampling(fields, each);
  read_seed(fields, each.seed);
  fields.whole("n", 1, kMostChoices, request.choices_a_prompt);
  read_stream(fields, request);
  fields.flag("echo", request.echo);
  fields.only("best_of", request.choices_a_prompt);
  fields.only("logit_bias", Json::object());
  fields.only("suffix", "");
  fields.only("logprobs", false);
  fields.find("user");  // whatever it is
  fields.refuse_unknown();
  if (!fields.failure && names.size() != 1) fields.refuse("model", "is missing");
  if (!fields.failure && prompts.empty()) fields.refuse("prompt", "is missing");
  if (!fields.failure && prompts.size() * request.choices_a_prompt > kMostChoices)
    fields.refuse("n", "times the prompts is more than " + std::to_string(kMostChoices));
  if (fields.failure) {
    if (wrong_field) *wrong_field = fields.wrong;
    return *fields.failure;
  }
  request.model = names.front();
  for (const std::string& prompt : prompts)
    for (std::size_t choice = 0; choice < request.choices_a_prompt; ++choice) {
      request.texts.push_back(each);
      request.texts.back().prompt = prompt;
      // The first one's as it was named, so that it gives the same text alone.
      if (choice > 0) request.texts.back().seed = mix(each.seed, choice);
    }
  return request;
}

std::string completion(const AnswerHead& head, const CompletionRequest& request,
                       const std::vector<GenerateAnswer>& texts) {
  Json answer = head_of(head);
  auto choices = Json::array();
  for (std::size_t choice = 0; choice < texts.size(); ++choice)
    choices.push_back(
        choice_of(choice, (request.echo ? request.texts[choice].prompt : "") + texts[choice].text,
                  finish_of(texts[choice])));
  answer["choices"] = std::move(choices);
  answer["usage"] = usage_of(request, texts);
  return dumped(answer);
}

std::string text_event(const AnswerHead& head, std::size_t choice, std::string_view text) {
  Json answer = head_of(head);
  answer["choices"] = Json::array({choice_of(choice, text, nullptr)});
  return event(answer);
}

std::string finish_event(const AnswerHead& head, std::size_t choice, const GenerateAnswer& text) {
  Json answer = head_of(head);
  answer["choices"] = Json::array({choice_of(choice, "", finish_of(text))});
  return event(answer);
}

std::string usage_event(const AnswerHead& head, const CompletionRequest& request,
                        const std::vector<GenerateAnswer>& texts) {
  Json answer = head_of(head);
  answer["choices"] = Json::array();
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
  auto data = Json::array();
  for (const std::string& name : names) data.push_back(model_of(name, created));
  return dumped({{"object", "list"}, {"data", std::move(data)}});
}

int status_of(const Error& error) {
  return told(error.code).status;
}

std::string error_body(const Error& error, const std::string& param) {
  return dumped(error_json_of(error, param));
}

}  // namespace gpunode::inference::openai
