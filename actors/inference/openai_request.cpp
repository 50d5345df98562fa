#include "actors/inference/openai.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base/nearest.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::inference::openai {
namespace {

// In the order of their keys, as a chat's template may show an object.
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostChoices = 128, kMostMessages = 4096;

Error no_object() {
  return {ErrorCode::invalid_argument, "the request's body is no JSON object"};
}

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
  fields.real("temperature", 0, 2, request.temperature);
  fields.real("top_p", 0, 1, request.top_p);
  fields.whole("top_k", 0, 1'000'000, request.top_k);
  fields.real("min_p", 0, 1, request.min_p);
  fields.real("presence_penalty", -2, 2, request.presence_penalty);
  fields.real("frequency_penalty", -2, 2, request.frequency_penalty);
  fields.real("repetition_penalty", 0.01, 100, request.repetition_penalty);
  request.stop = fields.texts("stop", 16);
  fields.whole("priority", 0, 100, request.priority);
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

// What requests of both kinds have. Whatever it is, who asks for whom is not our affair.
GenerateRequest read_common(Fields& fields, CompletionRequest& request, std::uint64_t random) {
  const auto names = fields.texts("model", 1);
  if (!fields.failure && names.size() != 1) fields.refuse("model", "is missing");
  if (!fields.failure) request.model = names.front();
  GenerateRequest each{.prompt = {}, .seed = random, .whole_prompt = true};
  read_sampling(fields, each);
  read_seed(fields, each.seed);
  fields.whole("n", 1, kMostChoices, request.choices_a_prompt);
  read_stream(fields, request);
  fields.only("logit_bias", Json::object());
  fields.only("logprobs", false);
  fields.find("user");
  return each;
}

// A choice more for the request. The first of a prompt has the seed that was named, so that it gives
// the same text alone.
void add_choice(CompletionRequest& request, const GenerateRequest& each, std::size_t choice) {
  request.texts.push_back(each);
  if (choice > 0) request.texts.back().seed = mix(each.seed, choice);
}

Result<CompletionRequest> told(Fields& fields, CompletionRequest request,
                               std::string* wrong_field) {
  if (!fields.failure) return request;
  if (wrong_field) *wrong_field = fields.wrong;
  return *fields.failure;
}

// A text, nothing, or a list of parts of which each is a text, as one text.
std::optional<Json> content_of(const Json& content) {
  if (content.is_string() || content.is_null()) return content;
  if (!content.is_array()) return std::nullopt;
  std::string joined;
  for (const Json& part : content) {
    if (!part.is_object() || part.value("type", Json()) != "text" || !part.contains("text") ||
        !part["text"].is_string())
      return std::nullopt;
    joined += part["text"].get<std::string>();
  }
  return Json(joined);
}

// As a template reads them; what else a message has is the template's affair.
Json read_messages(Fields& fields) {
  const Json* found = fields.find("messages");
  auto messages = Json::array();
  if (fields.failure) return messages;
  if (!found || !found->is_array() || found->empty()) {
    fields.refuse("messages", "must be a list of messages, one at least");
    return messages;
  }
  if (found->size() > kMostMessages)
    fields.refuse("messages", "has more than " + std::to_string(kMostMessages) + " entries");
  for (const Json& one : *found) {
    if (fields.failure) break;
    const std::string which = "[" + std::to_string(messages.size()) + "]";
    if (!one.is_object() || !one.contains("role") || !one["role"].is_string()) {
      fields.refuse("messages", which + " must be an object with a role");
      break;
    }
    messages.push_back(one);
    const auto content = content_of(one.contains("content") ? one["content"] : Json());
    if (!content)
      fields.refuse("messages", which + " must have a text, or parts of type \"text\", as content");
    else
      messages.back()["content"] = *content;
  }
  return messages;
}

}  // namespace

Result<CompletionRequest> read_completion(std::string_view body, std::uint64_t random,
                                          std::string* wrong_field) {
  Json parsed = Json::parse(body, nullptr, false);
  if (!parsed.is_object()) return no_object();
  Fields fields(std::move(parsed));
  CompletionRequest request;
  GenerateRequest each = read_common(fields, request, random);
  const auto prompts = fields.texts("prompt", kMostChoices);
  each.max_tokens = 16;
  fields.whole("max_tokens", 1, 65536, each.max_tokens);
  fields.flag("echo", request.echo);
  fields.only("best_of", request.choices_a_prompt);
  fields.only("suffix", "");
  fields.refuse_unknown();
  if (!fields.failure && prompts.empty()) fields.refuse("prompt", "is missing");
  if (!fields.failure && prompts.size() * request.choices_a_prompt > kMostChoices)
    fields.refuse("n", "times the prompts is more than " + std::to_string(kMostChoices));
  for (const std::string& prompt : prompts)
    for (std::size_t choice = 0; choice < request.choices_a_prompt; ++choice) {
      each.prompt = prompt;
      add_choice(request, each, choice);
    }
  return told(fields, std::move(request), wrong_field);
}

Result<CompletionRequest> read_chat(std::string_view body, std::uint64_t random,
                                    std::string* wrong_field) {
  Json parsed = Json::parse(body, nullptr, false);
  if (!parsed.is_object()) return no_object();
  Fields fields(std::move(parsed));
  CompletionRequest request;
  request.is_chat = true;
  GenerateRequest each = read_common(fields, request, random);
  each.max_tokens = 0;
  fields.whole("max_tokens", 1, 65536, each.max_tokens);  // what it was called first
  fields.whole("max_completion_tokens", 1, 65536, each.max_tokens);
  Json chat{{"messages", read_messages(fields)}};
  if (const Json* more = fields.find("chat_template_kwargs")) {
    if (!more->is_object()) fields.refuse("chat_template_kwargs", "must be an object");
    chat["more"] = *more;
  }
  fields.only("response_format", {{"type", "text"}});
  fields.only("tools", Json::array());
  fields.only("tool_choice", "none");
  fields.only("modalities", Json::array({"text"}));
  fields.only("store", false);
  fields.find("metadata");
  fields.refuse_unknown();
  each.chat = chat.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (std::size_t choice = 0; choice < request.choices_a_prompt; ++choice)
    add_choice(request, each, choice);
  return told(fields, std::move(request), wrong_field);
}

}  // namespace gpunode::inference::openai
