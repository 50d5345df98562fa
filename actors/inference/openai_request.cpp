#include "actors/inference/openai.hpp"

#include <limits>

#include "actors/inference/detail/request_prompts.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::inference::openai {
namespace {

constexpr std::size_t kMostGuidedChoices = 1024;
constexpr std::size_t kMostChoices = 128, kMostMessages = 4096;
constexpr std::size_t kMostBytes = 8 << 20;  // of all texts, each with a copy of what it is made by

void read_sampling(Fields& fields, GenerateRequest& request) {
  fields.real("temperature", 0, 2, request.temperature);
  fields.real("top_p", 0, 1, request.top_p);
  fields.whole("top_k", 0, 1'000'000, request.top_k);
  fields.real("min_p", 0, 1, request.min_p);
  fields.real("presence_penalty", -2, 2, request.presence_penalty);
  fields.real("frequency_penalty", -2, 2, request.frequency_penalty);
  fields.real("repetition_penalty", 0.01, 100, request.repetition_penalty);
  request.stop = fields.texts("stop", 16);
  for (const std::string& one : request.stop)
    if (!fields.failure && one.size() > kLongestStopBytes)
      fields.refuse("stop",
                    "has a sequence of more than " + std::to_string(kLongestStopBytes) + " bytes");
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

// For whom and at what price is not our affair, whatever it says, and nothing is stored.
void read_what_changes_no_answer(Fields& fields) {
  for (const char* name :
       {"user", "metadata", "safety_identifier", "prompt_cache_key", "service_tier"})
    fields.find(name);
  fields.only("store", false);
}

// What requests of both kinds have.
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
  read_what_changes_no_answer(fields);
  return each;
}

// A choice more for the request. The first of a prompt has the seed that was named, so that it gives
// the same text alone.
void add_choice(CompletionRequest& request, const GenerateRequest& each, std::size_t choice) {
  request.texts.push_back(each);
  if (choice > 0) request.texts.back().seed = mix(each.seed, choice);
}

std::size_t bytes_of(const Prompt& prompt) {
  return prompt.text.size() + prompt.tokens.size() * sizeof prompt.tokens.front();
}

// Of what every text has, whatever its prompt is.
std::size_t bytes_of(const GenerateRequest& each) {
  std::size_t bytes = each.chat.size() + each.form.size();
  for (const std::string& one : each.stop) bytes += one.size();
  return bytes;
}

void bound_bytes(Fields& fields, std::size_t choices_a_prompt, std::size_t bytes_a_choice) {
  if (!fields.failure && bytes_a_choice > kMostBytes / choices_a_prompt)
    fields.refuse("n", "times what the texts are made by is more than " +
                           std::to_string(kMostBytes) + " bytes: ask for fewer at once");
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

// Of each token its log probability, and of so many others.
void read_logprobs_of_completion(Fields& fields, GenerateRequest& request) {
  constexpr std::uint64_t kMost = 5;
  const Json* found = fields.find("logprobs");
  if (!found || fields.failure) return;
  request.likely = 0;
  fields.whole("logprobs", 0, kMost, *request.likely);
}

void read_logprobs_of_chat(Fields& fields, GenerateRequest& request) {
  constexpr std::uint64_t kMost = 20;
  bool wanted = false;
  std::uint32_t likely = 0;
  fields.flag("logprobs", wanted);
  fields.whole("top_logprobs", 0, kMost, likely);
  if (wanted) request.likely = likely;
  if (!fields.failure && !wanted && likely > 0)
    fields.refuse("top_logprobs", "makes sense with \"logprobs\": true only");
}

// The form that a text is asked for in, as the grammar reads it.
std::string read_response_format(Fields& fields) {
  const std::string name = "response_format";
  const Json* found = fields.find(name);
  if (!found || fields.failure) return {};
  const Json type = found->is_object() ? found->value("type", Json()) : Json();
  if (type == "text" && found->size() == 1) return {};
  if (type == "json_object" && found->size() == 1) return found->dump();
  if (type == "json_schema" && found->size() == 2 && found->contains("json_schema") &&
      (*found)["json_schema"].is_object()) {
    Fields inner((*found)["json_schema"]);
    bool strict = true;  // it is, whatever is said
    const auto names = inner.texts("name", 1);
    inner.texts("description", 1);
    inner.flag("strict", strict);
    const Json* schema = inner.find("schema");
    if (!inner.failure && names.empty()) inner.refuse("name", "is missing");
    if (!inner.failure && !schema) inner.refuse("schema", "is missing");
    inner.refuse_unknown();
    if (!inner.failure) return Json{{"type", type}, {"schema", *schema}}.dump();
    fields.refuse(name, "json_schema: " + inner.failure->detail);
    return {};
  }
  fields.refuse(name,
                "must be {\"type\": \"text\"}, {\"type\": \"json_object\"} or {\"type\": "
                "\"json_schema\", \"json_schema\": {\"name\": ..., \"schema\": {...}}}");
  return {};
}

// As vLLM has them, each in the place of the other.
std::string read_form(Fields& fields) {
  std::string form = read_response_format(fields);
  std::size_t count = form.empty() ? 0 : 1;
  if (const Json* schema = fields.find("guided_json")) {
    // Also as a text that is JSON.
    const Json read = schema->is_string() ? parsed(schema->get_ref<const std::string&>()) : *schema;
    if (!fields.failure && !read.is_object()) fields.refuse("guided_json", "must be a JSON Schema");
    if (!fields.failure) form = Json{{"type", "json_schema"}, {"schema", read}}.dump();
    ++count;
  }
  if (fields.find("guided_choice")) {
    const auto choices = fields.texts("guided_choice", kMostGuidedChoices);
    if (!fields.failure && choices.empty())
      fields.refuse("guided_choice", "must be a list of texts, one at least");
    if (!fields.failure) form = Json{{"type", "choice"}, {"choices", choices}}.dump();
    ++count;
  }
  if (!fields.failure && count > 1)
    fields.refuse("response_format", "and the guided_ fields say what the text is to be: give one");
  return form;
}

}  // namespace

Result<CompletionRequest> read_completion(std::string_view body, std::uint64_t random,
                                          std::string* wrong_field) {
  Json document = parsed(body);
  if (!document.is_object()) return no_object();
  Fields fields(std::move(document));
  CompletionRequest request;
  GenerateRequest each = read_common(fields, request, random);
  const std::vector<Prompt> prompts = read_prompts(fields, "prompt", kMostChoices);
  each.max_tokens = 16;
  fields.whole("max_tokens", 1, 65536, each.max_tokens);
  fields.flag("echo", each.echo);
  read_logprobs_of_completion(fields, each);
  each.form = read_form(fields);
  fields.only("best_of", request.choices_a_prompt);
  fields.only("suffix", "");
  fields.refuse_unknown();
  if (!fields.failure && each.echo && each.likely)
    fields.refuse("logprobs",
                  "with \"echo\": true would be of the prompt too, which is not known here");
  if (!fields.failure && prompts.size() * request.choices_a_prompt > kMostChoices)
    fields.refuse("n", "times the prompts is more than " + std::to_string(kMostChoices));
  std::size_t bytes = prompts.size() * bytes_of(each);
  for (const Prompt& prompt : prompts) bytes += bytes_of(prompt);
  bound_bytes(fields, request.choices_a_prompt, bytes);
  if (fields.failure) return told(fields, std::move(request), wrong_field);
  for (const Prompt& prompt : prompts)
    for (std::size_t choice = 0; choice < request.choices_a_prompt; ++choice) {
      each.prompt = prompt.text;
      each.prompt_tokens = prompt.tokens;
      add_choice(request, each, choice);
    }
  return told(fields, std::move(request), wrong_field);
}

Result<CompletionRequest> read_chat(std::string_view body, std::uint64_t random,
                                    std::string* wrong_field) {
  Json document = parsed(body);
  if (!document.is_object()) return no_object();
  Fields fields(std::move(document));
  CompletionRequest request;
  request.is_chat = true;
  GenerateRequest each = read_common(fields, request, random);
  each.max_tokens = 0;
  fields.whole("max_tokens", 1, 65536, each.max_tokens);  // what it was called first
  fields.whole("max_completion_tokens", 1, 65536, each.max_tokens);
  read_logprobs_of_chat(fields, each);
  Json chat{{"messages", read_messages(fields)}};
  if (const Json* more = fields.find("chat_template_kwargs")) {
    if (!more->is_object()) fields.refuse("chat_template_kwargs", "must be an object");
    chat["more"] = *more;
  }
  each.form = read_form(fields);
  fields.only("tools", Json::array());
  fields.only("tool_choice", "none");
  fields.only("modalities", Json::array({"text"}));
  fields.find("parallel_tool_calls");  // of tools, which there are none of
  fields.refuse_unknown();
  if (fields.failure) return told(fields, std::move(request), wrong_field);
  each.chat = chat.dump(-1, ' ', false, Json::error_handler_t::replace);
  bound_bytes(fields, request.choices_a_prompt, bytes_of(each));
  if (fields.failure) return told(fields, std::move(request), wrong_field);
  for (std::size_t choice = 0; choice < request.choices_a_prompt; ++choice)
    add_choice(request, each, choice);
  return told(fields, std::move(request), wrong_field);
}

}  // namespace gpunode::inference::openai
