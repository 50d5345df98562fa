#include "actors/inference/openai.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace gpunode::inference::openai {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

CompletionRequest read(const std::string& body) {
  auto request = read_completion(body, 77);
  EXPECT_TRUE(request) << request.error().message();
  return request ? *std::move(request) : CompletionRequest{};
}

std::string refusal(const std::string& body) {
  const auto request = read_completion(body, 77);
  EXPECT_FALSE(request) << body;
  if (request) return "";
  EXPECT_EQ(request.error().code, ErrorCode::invalid_argument);
  return request.error().detail;
}

TEST(OpenaiCompletion, has_their_defaults) {
  const auto request = read(R"({"model": "m", "prompt": "Once"})");
  EXPECT_EQ(request.model, "m");
  ASSERT_EQ(request.texts.size(), 1u);
  const GenerateRequest& text = request.texts.front();
  EXPECT_EQ(text.prompt, "Once");
  EXPECT_EQ(text.max_tokens, 16u);
  EXPECT_EQ(text.temperature, 1);
  EXPECT_EQ(text.seed, 77u);
  EXPECT_FALSE(request.stream);
}

TEST(OpenaiCompletion, reads_all_that_it_knows) {
  const auto request = read(R"({"model": "m", "prompt": "a", "max_tokens": 5, "temperature": 0,
      "top_p": 0.5, "top_k": 4, "min_p": 0.1, "presence_penalty": -1, "frequency_penalty": 2,
      "repetition_penalty": 1.5, "stop": ["x", "y"], "seed": -1, "stream": true, "echo": true,
      "stream_options": {"include_usage": true}, "user": "u", "service_tier": "auto", "best_of": 1, "suffix": null,
      "priority": 3})");
  const GenerateRequest& text = request.texts.front();
  EXPECT_EQ(text.temperature, 0);
  EXPECT_EQ(text.top_p, 0.5);
  EXPECT_EQ(text.top_k, 4u);
  EXPECT_EQ(text.min_p, 0.1);
  EXPECT_EQ(text.presence_penalty, -1);
  EXPECT_EQ(text.frequency_penalty, 2);
  EXPECT_EQ(text.repetition_penalty, 1.5);
  EXPECT_EQ(text.stop, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(text.seed, ~std::uint64_t{0});
  EXPECT_EQ(text.priority, 3u);
  EXPECT_TRUE(request.stream && text.echo && request.include_usage);
}

TEST(OpenaiCompletion, has_a_text_a_choice_each_with_a_seed_of_its_own) {
  const auto request = read(R"({"model": "m", "prompt": ["a", "b"], "n": 2, "seed": 5})");
  ASSERT_EQ(request.texts.size(), 4u);
  EXPECT_EQ(request.texts[0].prompt, "a");
  EXPECT_EQ(request.texts[1].prompt, "a");
  EXPECT_EQ(request.texts[2].prompt, "b");
  EXPECT_EQ(request.texts[0].seed, 5u) << "as alone";
  EXPECT_NE(request.texts[1].seed, 5u);
  EXPECT_EQ(request.texts[2].seed, 5u);
}

TEST(OpenaiCompletion, takes_tokens_as_a_prompt) {
  using Tokens = std::vector<std::int32_t>;
  const auto one = read(R"({"model": "m", "prompt": [5, 0, 7], "n": 2})");
  ASSERT_EQ(one.texts.size(), 2u);
  EXPECT_EQ(one.texts[1].prompt_tokens, (Tokens{5, 0, 7}));
  const auto several = read(R"({"model": "m", "prompt": [[1], "b", [2, 3]]})");
  ASSERT_EQ(several.texts.size(), 3u);
  EXPECT_EQ(several.texts[0].prompt_tokens, Tokens{1});
  EXPECT_EQ(several.texts[1].prompt, "b");
  EXPECT_TRUE(several.texts[1].prompt_tokens.empty());
  EXPECT_EQ(several.texts[2].prompt_tokens, (Tokens{2, 3}));
}

TEST(OpenaiCompletion, wants_reports_where_it_says_so) {
  EXPECT_FALSE(read(R"({"model": "m", "prompt": "a", "logprobs": null})").texts[0].likely);
  EXPECT_EQ(read(R"({"model": "m", "prompt": "a", "logprobs": 0})").texts[0].likely, 0u);
  EXPECT_EQ(read(R"({"model": "m", "prompt": "a", "logprobs": 5})").texts[0].likely, 5u);
}

TEST(OpenaiCompletion, refuses_by_name_what_it_cannot_do) {
  EXPECT_THAT(refusal("nonsense"), HasSubstr("JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("JSON"));
  EXPECT_THAT(refusal(R"({"prompt": "a"})"), HasSubstr("'model'"));
  EXPECT_THAT(refusal(R"({"model": "m"})"), HasSubstr("'prompt'"));
  for (const char* prompt : {"[]", "[[]]", "[1, -2]", "[1, \"a\"]", "[\"a\", 1]", "[[1], 2]",
                             "[1.5]", "[4294967296]", "{}", "[[[1]]]"})
    EXPECT_THAT(refusal(R"({"model": "m", "prompt": )" + std::string(prompt) + "}"),
                HasSubstr("'prompt'"))
        << prompt;
  EXPECT_THAT(refusal(R"({"model": "m", "prompt": "a", "temprature": 1})"),
              HasSubstr("did you mean 'temperature'"));
  const auto with = [](const std::string& field) {
    return refusal(R"({"model": "m", "prompt": "a", )" + field + "}");
  };
  for (const char* field :
       {R"("max_tokens": 0)", R"("max_tokens": "5")", R"("temperature": 3)", R"("top_p": -1)",
        R"("n": 129)", R"("n": 1.5)", R"("stop": [1])", R"("stream": 1)", R"("logprobs": 6)",
        R"("logprobs": true)", R"("logprobs": 1, "echo": true)", R"("best_of": 2)",
        R"("suffix": "x")", R"("logit_bias": {"1": 2})", R"("seed": "x")",
        R"("stream_options": {"include_usage": true})",
        R"("stream": true, "stream_options": {"usage": true})", R"("temperature": [])"})
    EXPECT_NE(with(field), "") << field;
  EXPECT_THAT(refusal(R"({"model": "m", "prompt": ["a", "b"], "n": 100})"), HasSubstr("128"));
}

std::string nested(std::size_t levels) {
  return std::string(levels, '[') + std::string(levels, ']');
}

// Whoever copies or writes such JSON recurses.
TEST(OpenaiCompletion, refuses_what_has_levels_without_end) {
  const std::string deep = nested(500'000);
  for (const char* field : {"model", "prompt", "messages", "stop", "response_format", "user"}) {
    const std::string body = "{\"" + std::string(field) + "\": " + deep + "}";
    EXPECT_THAT(refusal(body), HasSubstr("64 levels")) << field;
    const auto chat = read_chat(body, 1);
    ASSERT_FALSE(chat) << field;
    EXPECT_EQ(chat.error().code, ErrorCode::invalid_argument) << field;
  }
  EXPECT_THAT(refusal(deep), HasSubstr("64 levels"));
  EXPECT_THAT(refusal(R"({"model": "m", "prompt": "a", "guided_json": "{\"a\": )" + deep + "}\"}"),
              HasSubstr("'guided_json'"));
  EXPECT_THAT(read(R"({"model": "m", "prompt": "a", "guided_json": {"a": )" + nested(60) + "}}")
                  .texts[0]
                  .form,
              HasSubstr(nested(60)));
}

TEST(OpenaiCompletion, refuses_more_than_its_texts_may_hold_together) {
  const auto with = [](std::size_t bytes, const std::string& more) {
    return R"({"model": "m", "prompt": ")" + std::string(bytes, 'x') + "\", " + more + "}";
  };
  const std::string long_stop = "\"" + std::string(1025, 's') + "\"";
  EXPECT_THAT(refusal(with(1, R"("stop": )" + long_stop)), HasSubstr("'stop'"));
  EXPECT_EQ(read(with(1, "\"stop\": \"" + std::string(1024, 's') + "\"")).texts.size(), 1u);
  EXPECT_EQ(read(with(65'536, R"("n": 128)")).texts.size(), 128u);
  EXPECT_THAT(refusal(with(65'537, R"("n": 128)")), HasSubstr("'n'"));
  EXPECT_THAT(refusal(with(65'536, R"("n": 128, "stop": "s")")), HasSubstr("'n'"));
  EXPECT_THAT(
      refusal(with(60'000, R"("n": 128, "guided_choice": [")" + std::string(6000, 'c') + "\"]")),
      HasSubstr("'n'"));
  std::string wrong;
  const std::string message =
      R"([{"role": "user", "content": ")" + std::string(100'000, 'x') + "\"}]";
  EXPECT_FALSE(read_chat(R"({"model": "m", "n": 128, "messages": )" + message + "}", 1, &wrong));
  EXPECT_EQ(wrong, "n");
}

TEST(OpenaiCompletion, is_refused_for_a_field_that_clients_are_told) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"prompt": "a"})", "model"},
      {R"({"model": "m", "prompt": [-1]})", "prompt"},
      {R"({"model": "m", "prompt": "a", "logprobs": 9})", "logprobs"},
      {R"({"model": "m", "prompt": "a", "temperature": 3, "n": 0})", "temperature"},
      {R"({"model": "m", "prompt": "a", "seed": "x"})", "seed"},
      {R"({"model": "m", "prompt": "a", "temprature": 1})", "temprature"},
      {R"({"model": "m", "prompt": ["a", "b"], "n": 100})", "n"},
      {R"({"model": "m", "prompt": "a", "stream": true, "stream_options": {"usage": 1}})",
       "stream_options"},
      {"[]", ""}};
  for (const auto& [body, field] : cases) {
    std::string wrong;
    const auto request = read_completion(body, 1, &wrong);
    ASSERT_FALSE(request) << body;
    EXPECT_EQ(wrong, field) << body;
    const Json told = Json::parse(error_body(request.error(), wrong))["error"]["param"];
    EXPECT_EQ(told, wrong.empty() ? Json() : Json(field)) << body;
  }
}

TEST(OpenaiCompletion, is_told_whole_with_its_usage) {
  auto request = read(R"({"model": "m", "prompt": ["a", "b"], "n": 2})");
  std::vector<GenerateAnswer> texts(4);
  for (std::size_t at = 0; at < texts.size(); ++at) {
    texts[at].text = std::to_string(at);
    texts[at].tokens = 10;
    texts[at].prompt_tokens = at < 2 ? 3 : 4;
    texts[at].finish = at == 0 ? "stop" : at == 1 ? "length" : "deadline";
  }
  const Json told = Json::parse(completion({"cmpl-1", 9, "m"}, request, texts));
  EXPECT_TRUE(told["system_fingerprint"].is_null()) << "it is not known which model wrote them";
  EXPECT_EQ(told["id"], "cmpl-1");
  EXPECT_EQ(told["object"], "text_completion");
  EXPECT_EQ(told["created"], 9);
  EXPECT_EQ(told["model"], "m");
  EXPECT_EQ(told["choices"][0]["text"], "0");
  EXPECT_EQ(told["choices"][3]["text"], "3");
  EXPECT_EQ(told["choices"][3]["index"], 3);
  EXPECT_EQ(told["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(told["choices"][1]["finish_reason"], "length");
  EXPECT_EQ(told["choices"][2]["finish_reason"], "length");
  EXPECT_EQ(told["usage"]["prompt_tokens"], 7) << "a prompt once, whatever it has choices";
  EXPECT_EQ(told["usage"]["completion_tokens"], 40);
  EXPECT_EQ(told["usage"]["total_tokens"], 47);
}

TEST(OpenaiCompletion, tells_which_version_of_the_model_wrote_it) {
  const auto request = read(R"({"model": "m@3", "prompt": ["a", "b"]})");
  std::vector<GenerateAnswer> texts(2);
  for (GenerateAnswer& text : texts) {
    text.model_digest = std::string(11, 'd') + std::string(53, 'e');
    text.version = 3;
  }
  const AnswerHead head{"cmpl-1", 9, "m@3"};
  const std::string third = "m@3/ddddddddddde";
  const auto told = [](const std::string& text) { return Json::parse(text)["system_fingerprint"]; };
  EXPECT_EQ(told(completion(head, request, texts)), third);
  EXPECT_EQ(told(finish_event(head, 0, texts.front()).substr(6)), third);
  EXPECT_EQ(told(usage_event(head, request, texts).substr(6)), third);
  texts[1].version = 4;
  EXPECT_EQ(told(completion(head, request, texts)), third + ", m@4/ddddddddddde");
}

// Of a token that is half a character, one that is not among the likely ones, and one with nothing before it.
std::vector<TokenReport> reports() {
  return {
      {.token = {"a", {}}, .likely = {}, .place = 0},
      {.token = {"\xe2\x82", -0.5f}, .likely = {{"b", -0.25f}, {"\xe2\x82", -0.5f}}, .place = 1},
      {.token = {"c", -4.0f}, .likely = {{"d", -0.125f}}, .place = 1}};
}

TEST(OpenaiCompletion, tells_what_its_tokens_are) {
  auto request = read(R"({"model": "m", "prompt": "a", "logprobs": 2})");
  GenerateAnswer text;
  text.reports = reports();
  const Json told =
      Json::parse(completion({"cmpl-1", 9, "m"}, request, {text}))["choices"][0]["logprobs"];
  EXPECT_EQ(told["tokens"], (Json{"a", "bytes:\\xe2\\x82", "c"}));
  EXPECT_EQ(told["token_logprobs"], (Json{nullptr, -0.5, -4}));
  EXPECT_EQ(told["text_offset"], (Json{0, 1, 1}));
  EXPECT_EQ(
      told["top_logprobs"],
      (Json{nullptr, {{"b", -0.25}, {"bytes:\\xe2\\x82", -0.5}}, {{"c", -4}, {"d", -0.125}}}));
}

Json event(const std::string& text) {
  EXPECT_TRUE(text.starts_with("data: ")) << text;
  EXPECT_TRUE(text.ends_with("\n\n")) << text;
  return Json::parse(text.substr(6));
}

TEST(OpenaiCompletion, is_told_in_events) {
  const AnswerHead head{"cmpl-1", 9, "m"};
  const Json piece = event(text_event(head, 1, {"half\xff"}));
  EXPECT_EQ(piece["choices"][0]["index"], 1);
  EXPECT_EQ(piece["choices"][0]["text"], "half\ufffd") << "what is no UTF-8 cannot be told";
  EXPECT_TRUE(piece["choices"][0]["finish_reason"].is_null());
  EXPECT_TRUE(piece["choices"][0]["logprobs"].is_null());
  const Json rated = event(text_event(head, 1, {"b", reports()}));
  EXPECT_EQ(rated["choices"][0]["logprobs"]["text_offset"], (Json{0, 1, 1}));
  GenerateAnswer answer;
  answer.finish = "stop";
  answer.tokens = 2;
  const Json end = event(finish_event(head, 1, answer));
  EXPECT_EQ(end["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(end["id"], piece["id"]);
  const Json usage = event(usage_event(head, read(R"({"model": "m", "prompt": "a"})"), {answer}));
  EXPECT_TRUE(usage["choices"].empty());
  EXPECT_EQ(usage["usage"]["completion_tokens"], 2);
  EXPECT_EQ(event(error_event({ErrorCode::timeout, "late"}))["error"]["message"], "late");
}

std::string chat_refusal(const std::string& body) {
  const auto request = read_chat(body, 7);
  return request ? "" : request.error().detail;
}

TEST(OpenaiChat, is_read_as_messages_for_the_models_template) {
  const auto request =
      read_chat(R"({"model": "m", "n": 2, "max_completion_tokens": 5, "stream": true,
      "messages": [{"role": "system", "content": "s"},
                   {"role": "user", "name": "u", "content": [{"type": "text", "text": "a"},
                                                             {"type": "text", "text": "b"}]},
                   {"content": null, "role": "assistant"}],
      "chat_template_kwargs": {"enable_thinking": false}, "response_format": {"type": "text"},
      "store": false, "metadata": {"a": "b"}, "user": "u", "parallel_tool_calls": true,
      "tool_choice": "none"})",
                7);
  ASSERT_TRUE(request) << request.error().detail;
  EXPECT_TRUE(request->is_chat && request->stream);
  ASSERT_EQ(request->texts.size(), 2u);
  EXPECT_EQ(request->texts[0].max_tokens, 5u);
  EXPECT_EQ(request->texts[0].seed, 7u);
  EXPECT_NE(request->texts[1].seed, 7u);
  EXPECT_EQ(request->texts[0].chat,
            R"({"messages":[{"role":"system","content":"s"},)"
            R"({"role":"user","name":"u","content":"ab"},{"content":null,"role":"assistant"}],)"
            R"("more":{"enable_thinking":false}})")
      << "in the order in which they were given";
  EXPECT_EQ(read_chat(R"({"model": "m", "messages": [{"role": "user", "content": ""}]})", 1)
                ->texts[0]
                .max_tokens,
            0u)
      << "as many as there is room for";
}

TEST(OpenaiChat, refuses_by_name_what_it_cannot_do) {
  EXPECT_THAT(chat_refusal("7"), HasSubstr("JSON"));
  EXPECT_THAT(chat_refusal(R"({"model": "m"})"), HasSubstr("'messages'"));
  for (const char* messages :
       {"[]", "{}", "[1]", R"([{"content": "a"}])", R"([{"role": 1, "content": "a"}])",
        R"([{"role": "user", "content": 5}])",
        R"([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])",
        R"([{"role": "user", "content": [{"type": 5, "text": "a"}]}])"})
    EXPECT_THAT(chat_refusal(R"({"model": "m", "messages": )" + std::string(messages) + "}"),
                HasSubstr("'messages'"))
        << messages;
  for (const char* field :
       {R"("tools": [{"type": "function"}])", R"("response_format": {"type": "xml"})",
        R"("prompt": "a")", R"("chat_template_kwargs": [])", R"("max_completion_tokens": 0)"})
    EXPECT_NE(chat_refusal(R"({"model": "m", "messages": [{"role": "user", "content": "a"}], )" +
                           std::string(field) + "}"),
              "")
        << field;
}

TEST(OpenaiChat, tells_what_its_tokens_are) {
  const auto read_with = [](const std::string& fields) {
    return read_chat(
        R"({"model": "m", "messages": [{"role": "user", "content": "a"}], )" + fields + "}", 1);
  };
  EXPECT_FALSE(read_with(R"("logprobs": false)")->texts[0].likely);
  EXPECT_EQ(read_with(R"("logprobs": true)")->texts[0].likely, 0u);
  EXPECT_EQ(read_with(R"("logprobs": true, "top_logprobs": 20)")->texts[0].likely, 20u);
  for (const char* wrong :
       {R"("logprobs": true, "top_logprobs": 21)", R"("top_logprobs": 1)", R"("logprobs": 1)"})
    EXPECT_FALSE(read_with(wrong)) << wrong;
  GenerateAnswer text;
  text.reports = reports();
  const Json told = Json::parse(
      completion({"chatcmpl-1", 9, "m", true}, *read_with(R"("logprobs": true)"), {text}));
  const Json content = told["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 3u);
  EXPECT_EQ(
      content[1],
      (Json{{"token", "bytes:\\xe2\\x82"},
            {"logprob", -0.5},
            {"bytes", {0xe2, 0x82}},
            {"top_logprobs",
             {{{"token", "b"}, {"logprob", -0.25}, {"bytes", {'b'}}},
              {{"token", "bytes:\\xe2\\x82"}, {"logprob", -0.5}, {"bytes", {0xe2, 0x82}}}}}}));
}

std::string form_of(const std::string& fields) {
  const std::string chat = R"({"model": "m", "messages": [{"role": "user", "content": "a"}], )";
  const auto request = read_chat(chat + fields + "}", 1);
  const auto completion = read_completion(R"({"model": "m", "prompt": "a", )" + fields + "}", 1);
  EXPECT_EQ(request.has_value(), completion.has_value()) << fields;
  if (!request) return "refused: " + request.error().detail;
  EXPECT_EQ(request->texts[0].form, completion->texts[0].form);
  return request->texts[0].form;
}

TEST(OpenaiForms, are_those_of_openai_and_two_of_vllm) {
  EXPECT_EQ(form_of(R"("response_format": {"type": "text"})"), "");
  EXPECT_EQ(form_of(R"("response_format": {"type": "json_object"})"), R"({"type":"json_object"})");
  EXPECT_EQ(form_of(R"("response_format": {"type": "json_schema", "json_schema": {"name": "n",
                "strict": true, "description": "d", "schema": {"type": "object", "properties": {"z": {}, "a": {}}}}})"),
            R"({"type":"json_schema","schema":{"type":"object","properties":{"z":{},"a":{}}}})")
      << "in the order in which they were given";
  EXPECT_EQ(form_of(R"("guided_json": {"type": "null"})"),
            R"({"type":"json_schema","schema":{"type":"null"}})");
  EXPECT_EQ(form_of(R"("guided_json": "{\"type\": \"null\"}")"),
            R"({"type":"json_schema","schema":{"type":"null"}})");
  EXPECT_EQ(form_of(R"("guided_choice": ["yes", "no"])"),
            R"({"type":"choice","choices":["yes","no"]})");
}

TEST(OpenaiForms, are_refused_where_they_make_no_sense) {
  for (
      const char* field :
      {R"("response_format": 5)", R"("response_format": {"type": "json_schema"})",
       R"("response_format": {"type": "json_schema", "json_schema": {"schema": {}}})",
       R"("response_format": {"type": "json_schema", "json_schema": {"name": "n"}})",
       R"("response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "x": 1}})",
       R"("response_format": {"type": "json_object", "x": 1})", R"("guided_json": "{")",
       R"("guided_json": 5)", R"("guided_choice": [])", R"("guided_choice": [1])",
       R"("guided_choice": ["a"], "guided_json": {})", R"("guided_regex": "a+")"})
    EXPECT_THAT(form_of(field), HasSubstr("refused")) << field;
}

TEST(OpenaiChat, is_told_whole_and_in_events) {
  const AnswerHead head{"chatcmpl-1", 9, "m", true};
  const auto request =
      *read_chat(R"({"model": "m", "messages": [{"role": "user", "content": "a"}]})", 1);
  GenerateAnswer answer;
  answer.text = "hello";
  answer.finish = "stop";
  const Json told = Json::parse(completion(head, request, {answer}));
  EXPECT_EQ(told["object"], "chat.completion");
  EXPECT_EQ(told["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(told["choices"][0]["message"]["content"], "hello");
  EXPECT_EQ(told["choices"][0]["finish_reason"], "stop");
  EXPECT_FALSE(told["choices"][0].contains("text"));
  const Json start = event(start_event(head, 0)), piece = event(text_event(head, 0, {"he"})),
             end = event(finish_event(head, 0, answer));
  EXPECT_EQ(start["object"], "chat.completion.chunk");
  EXPECT_EQ(start["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(piece["choices"][0]["delta"], (Json{{"content", "he"}}));
  EXPECT_TRUE(piece["choices"][0]["finish_reason"].is_null());
  EXPECT_EQ(end["choices"][0]["delta"], Json::object());
  EXPECT_EQ(end["choices"][0]["finish_reason"], "stop");
}

TEST(OpenaiErrors, have_a_status_and_a_code) {
  const std::pair<ErrorCode, int> statuses[] = {
      {ErrorCode::invalid_argument, 400}, {ErrorCode::permission_denied, 403},
      {ErrorCode::not_found, 404},        {ErrorCode::resource_exhausted, 429},
      {ErrorCode::internal, 500},         {ErrorCode::corrupted, 500},
      {ErrorCode::unavailable, 503},      {ErrorCode::peer_lost, 503},
      {ErrorCode::timeout, 504},          {ErrorCode::unsupported, 400},
      {ErrorCode::out_of_memory, 503}};
  for (const auto& [code, status] : statuses) {
    EXPECT_EQ(status_of({code, ""}), status) << to_string(code);
    const Json body = Json::parse(error_body({code, "why"}));
    EXPECT_EQ(body["error"]["code"], to_string(code));
    EXPECT_EQ(body["error"]["message"], "why");
  }
}

}  // namespace
}  // namespace gpunode::inference::openai
