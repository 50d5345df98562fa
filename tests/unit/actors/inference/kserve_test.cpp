#include "actors/inference/kserve.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

namespace gpunode::inference::kserve {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

std::string with_input(const std::string& fields, const std::string& rest = "") {
  return R"({"inputs": [{"name": "features", "datatype": "FP32", "shape": [2, 2], )" + fields +
         "}]" + rest + "}";
}
const std::string kData = R"("data": [[1, 2.5], [3, -4e2]])";

std::vector<float> numbers(const InferTensor& tensor) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

Error refusal(const std::string& body, std::optional<std::size_t> json_bytes = {}) {
  const auto call = read_infer(body, json_bytes, 1);
  EXPECT_FALSE(call) << body;
  return call ? Error{ErrorCode::internal, ""} : call.error();
}

TEST(KServe, ReadsTensorsAsListsInListsOrFlat) {
  const std::vector<float> all = {1, 2.5, 3, -400};
  for (const std::string& data : {kData, std::string(R"("data": [1, 2.5, 3, -400.0])")}) {
    const auto call = read_infer(with_input(data, R"(, "id": "seven")"), {}, 1);
    ASSERT_TRUE(call) << call.error().message();
    EXPECT_EQ(call->id, "seven");
    EXPECT_EQ(numbers(call->inputs.front()), all);
    EXPECT_FALSE(call->text);
  }
}

TEST(KServe, ReadsTensorsInBinaryBehindTheJson) {
  const std::vector<float> all = {1, 2, 3, 4};
  const std::string json = with_input(R"("parameters": {"binary_data_size": 16})");
  const std::string bytes(reinterpret_cast<const char*>(all.data()), 16);
  const auto call = read_infer(json + bytes, json.size(), 1);
  ASSERT_TRUE(call) << call.error().message();
  EXPECT_EQ(numbers(call->inputs.front()), all);
  EXPECT_THAT(refusal(json + bytes + "x", json.size()).detail, HasSubstr("1 bytes behind"));
  EXPECT_THAT(refusal(json + bytes.substr(1), json.size()).detail, HasSubstr("binary_data_size"));
  EXPECT_THAT(refusal(json + bytes, 0).detail, HasSubstr("Inference-Header-Content-Length"));
  EXPECT_THAT(refusal(json, json.size() + 1).detail, HasSubstr("Inference-Header-Content-Length"));
  EXPECT_THAT(refusal(json + bytes).detail, HasSubstr("no JSON object"));
}

TEST(KServe, RefusesWhatItDoesNotKnowByName) {
  for (
      const auto& [body, word] :
      {std::pair(std::string("[]"), "no JSON object"),
       {std::string("{}"), "'inputs'"},
       {std::string(R"({"inputs": []})"), "1 to 16"},
       {with_input(kData, R"(, "inptus": 1)"), "inptus"},
       {with_input(kData, R"(, "parameters": {"temperature": 1})"), "temperature"},
       {with_input(kData, R"(, "outputs": [{"nme": "a"}])"), "nme"},
       {with_input(kData, R"(, "outputs": [{"name": "a", "parameters": {"binary_data": 1}}])"),
        "true or false"},
       {with_input(kData, R"(, "id": 7)"), "'id'"},
       {with_input(kData + R"(, "parameters": {"classification": 3})"), "classification"},
       {with_input(kData + R"(, "parameters": {"binary_data_size": 16})"), "either"},
       {with_input(R"("data": [1, 2, 3])"), "as many elements"},
       {with_input(R"("data": [1, 2, 3, "x"])"), "no FP32"},
       {with_input(R"("data": [1, 2, 3, 1e300])"), "no FP32"},
       {with_input(R"("data": 7)"), "no FP32"},
       {R"({"inputs": [{"name": "a", "datatype": "FP33", "shape": [1], "data": [1]}]})",
        "no datatype"},
       {R"({"inputs": [{"name": "a", "datatype": "FP32", "shape": [-1], "data": [1]}]})",
        "'shape'"},
       {R"({"inputs": [{"name": "a", "datatype": "FP32", "shape": [1099511627775, 1099511627775], "data": [1]}]})",
        "as many elements"}}) {
    const Error error = refusal(body);
    EXPECT_EQ(error.code, ErrorCode::invalid_argument) << body;
    EXPECT_THAT(error.detail, HasSubstr(word)) << body;
  }
  const Error other =
      refusal(R"({"inputs": [{"name": "a", "datatype": "FP16", "shape": [1], "data": [1]}]})");
  EXPECT_EQ(other.code, ErrorCode::unsupported);
  EXPECT_EQ(refusal(std::string(200'000, '[')).code, ErrorCode::invalid_argument);
}

TEST(KServe, ReadsATextAndItsParameters) {
  const std::string input =
      R"("inputs": [{"name": "text_input", "datatype": "BYTES", "shape": [1], "data": ["Once"]}])";
  const auto call = read_infer(
      "{" + input + R"(, "parameters": {"max_tokens": 7, "temperature": 0, "stop": "."}})", {}, 9);
  ASSERT_TRUE(call && call->text);
  EXPECT_EQ(call->text->prompt, "Once");
  EXPECT_EQ(call->text->max_tokens, 7u);
  EXPECT_EQ(call->text->temperature, 0);
  EXPECT_EQ(call->text->seed, 9u);
  EXPECT_EQ(call->text->stop, std::vector<std::string>{"."});
  const std::string long_stop = R"({"stop": ")" + std::string(1025, 's') + "\"}";
  for (const auto& [parameters, word] : {std::pair(R"({"temperature": 3})", "temperature"),
                                         {R"({"max_tokens": -1})", "max_tokens"},
                                         {R"({"stop": ["a"]})", "stop"},
                                         {long_stop.c_str(), "stop"},
                                         {R"({"temprature": 1})", "temperature"}})
    EXPECT_THAT(refusal("{" + input + R"(, "parameters": )" + parameters + "}").detail,
                HasSubstr(word));
  EXPECT_THAT(
      refusal(
          R"({"inputs": [{"name": "text_input", "datatype": "BYTES", "shape": [2], "data": ["a", "b"]}]})")
          .detail,
      HasSubstr("one text"));
}

TEST(KServe, WritesAnswersAsJsonAndInBinary) {
  GenerateAnswer text;
  text.text = "upon";
  const InferAnswer answer = text_answer(text);
  InferCall call{.id = "seven", .inputs = {}, .outputs = {}};
  const auto plain = infer_answer("m", call, answer);
  ASSERT_TRUE(plain);
  EXPECT_FALSE(plain->json_bytes);
  const Json told = Json::parse(plain->body);
  EXPECT_EQ(told["id"], "seven");
  EXPECT_EQ(told["model_name"], "m");
  EXPECT_EQ(told["outputs"][0]["data"], Json({"upon"}));
  call.outputs = {{"text_output", true}};
  const auto binary = infer_answer("m", call, answer);
  ASSERT_TRUE(binary && binary->json_bytes);
  EXPECT_EQ(Json::parse(binary->body.substr(0, *binary->json_bytes))["outputs"][0]["parameters"],
            Json({{"binary_data_size", 8}}));
  EXPECT_EQ(binary->body.substr(*binary->json_bytes), std::string("\4\0\0\0upon", 8));
  call.outputs = {{"other", false}};
  EXPECT_THAT(infer_answer("m", call, answer).error().detail, HasSubstr("other"));
}

TEST(KServe, WritesNumbersThatAreReadAsTheyWere) {
  const std::vector<float> values = {0.1f,         -1e-40f, 3.4028235e38f,
                                     16777216,     -0.0f,   std::numeric_limits<float>::infinity(),
                                     std::nanf("")};
  InferAnswer answer;
  InferTensor numbers_out{"n", TensorKind::fp32, {static_cast<std::int64_t>(values.size())}, {}};
  numbers_out.data = to_bytes(std::as_bytes(std::span(values)));
  InferTensor texts{"t", TensorKind::bytes, {2}, {}};
  for (const std::string& text : {std::string("a\"[\n"), std::string("\xff")}) {
    const auto size = static_cast<std::uint32_t>(text.size());
    const auto length = std::as_bytes(std::span(&size, 1)), bytes = as_bytes(text);
    texts.data.insert(texts.data.end(), length.begin(), length.end());
    texts.data.insert(texts.data.end(), bytes.begin(), bytes.end());
  }
  answer.outputs = {numbers_out, texts};
  const auto written = infer_answer("a \"model\"", {}, answer);
  ASSERT_TRUE(written);
  const Json told = Json::parse(written->body);
  EXPECT_EQ(told["model_name"], "a \"model\"");
  const Json& shown = told["outputs"][0]["data"];
  ASSERT_EQ(shown.size(), values.size());
  for (std::size_t i = 0; i + 2 < values.size(); ++i) {
    EXPECT_EQ(static_cast<float>(shown[i].get<double>()), values[i]);
    EXPECT_EQ(std::signbit(shown[i].get<double>()), std::signbit(values[i]));
  }
  EXPECT_TRUE(shown[5].is_null() && shown[6].is_null()) << "JSON has no infinity";
  EXPECT_EQ(told["outputs"][1]["data"], (Json{"a\"[\n", "\xef\xbf\xbd"}));
}

TEST(KServe, BoundsTheLevelsOfARequestOutsideOfItsTexts) {
  const std::string brackets = R"(, "id": "[[[[[[[[[[[[[[[[\"[[\\")";
  EXPECT_TRUE(read_infer(with_input(kData, brackets), {}, 1));
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_THAT(refusal(with_input("\"data\": " + deep)).detail, HasSubstr("no JSON object"));
}

TEST(KServe, DescribesModels) {
  const Json told = Json::parse(model("m", {"gpunode_classifier",
                                            {{"features", TensorKind::fp32, {-1, 4}}},
                                            {{"class", TensorKind::int64, {-1}}},
                                            "",
                                            0,
                                            3}));
  EXPECT_EQ(told["inputs"][0],
            Json({{"name", "features"}, {"datatype", "FP32"}, {"shape", {-1, 4}}}));
  EXPECT_EQ(told["outputs"][0]["datatype"], "INT64");
  EXPECT_EQ(told["versions"], Json({"3"}));
  EXPECT_EQ(Json::parse(index({"a", "b"}))[1]["name"], "b");
  EXPECT_EQ(Json::parse(server("9"))["version"], "9");
  const Json counts = Json::parse(statistics("m", {.succeeded = 2, .rows = 5}));
  EXPECT_EQ(counts["model_stats"][0]["inference_count"], 5);
  EXPECT_EQ(Json::parse(error_body({ErrorCode::not_found, "no such"}))["error"], "no such");
  EXPECT_EQ(status_of({ErrorCode::unsupported, ""}), 501);
}

}  // namespace
}  // namespace gpunode::inference::kserve
