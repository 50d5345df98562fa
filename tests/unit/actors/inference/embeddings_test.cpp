// Texts as vectors, from OpenAI's request to its answer, through a served encoder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "actors/checkpoint/stored_model.hpp"
#include "actors/inference/openai_embeddings.hpp"
#include "actors/inference/row_answers.hpp"
#include "actors/inference/tensors.hpp"
#include "actors/inference/vector_answers.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "tests/support/memory_file_system.hpp"

namespace gpunode::inference {
namespace {

using namespace std::chrono_literals;
using openai::EmbeddingsRequest;
using ::testing::HasSubstr;

constexpr std::int64_t kWidth = 32, kContext = 24;

class StillClock final : public Clock {
 public:
  Time now() const override { return Time{} + 1h; }
  std::chrono::system_clock::time_point wall() const override { return {}; }
};

class Embeddings : public ::testing::Test {
 protected:
  Embeddings() {
    checkpoint::StoredModel stored;
    stored.model = std::move(*model::make_model("bert", {{"layers", "1"},
                                                         {"heads", "2"},
                                                         {"channels", std::to_string(kWidth)},
                                                         {"hidden", "40"},
                                                         {"context", std::to_string(kContext)},
                                                         {"vocabulary", "256"},
                                                         {"segments", "1"},
                                                         {"mask", "1"},
                                                         {"padding", "0"}}));
    stored.weights.resize(stored.model->parameter_count());
    stored.model->initialise(3, stored.weights);
    EXPECT_TRUE(checkpoint::save_model(disk_, stored, "/file"));
    served_ = std::move(*ServedModel::load({.device = devices_.devices()[0].get(),
                                            .files = &disk_,
                                            .clock = &clock_,
                                            .path = "/file"}));
  }
  Result<EmbeddingsRequest> read(const std::string& input, const std::string& more = "") {
    wrong_.clear();
    return openai::read_embeddings(R"({"model":"m","input":)" + input + more + "}", &wrong_);
  }
  std::string refusal(const std::string& input, const std::string& more = "") {
    const auto request = read(input, more);
    return request ? "" : wrong_ + ": " + request.error().message();
  }
  Result<InferAnswer> answer(const InferRequest& request, Time deadline = Time::max()) {
    return answer_tensors(*served_, request, clock_, deadline);
  }
  // What a client is told.
  nlohmann::json told(const std::string& input, const std::string& more = "") {
    const auto request = read(input, more);
    EXPECT_TRUE(request) << request.error().message();
    const auto answered = answer(request->texts);
    EXPECT_TRUE(answered) << answered.error().message();
    return nlohmann::json::parse(openai::embeddings(*request, *answered)->body);
  }
  std::string failure(const std::string& input) {
    const auto answered = answer(read(input)->texts);
    return answered ? "" : answered.error().message();
  }

  gpunode::testing::MemoryFileSystem disk_;
  StillClock clock_;
  compute::DeviceRoster devices_{cpu::open_backend()};
  std::unique_ptr<ServedModel> served_;
  std::string wrong_;
};

TEST_F(Embeddings, AreOfLengthOneAndInOrder) {
  const auto both = told(R"(["one text","another"])");
  ASSERT_EQ(both["data"].size(), 2u);
  EXPECT_EQ(both["usage"]["prompt_tokens"], 15);
  for (std::size_t at = 0; at < 2; ++at) {
    EXPECT_EQ(both["data"][at]["index"], at);
    double square = 0;
    for (const double value : both["data"][at]["embedding"]) square += value * value;
    EXPECT_NEAR(square, 1, 1e-5);
    EXPECT_EQ(both["data"][at]["embedding"].size(), static_cast<std::size_t>(kWidth));
  }
  EXPECT_EQ(told(R"("another")")["data"][0]["embedding"], both["data"][1]["embedding"])
      << "beside others as alone";
  EXPECT_NE(both["data"][0]["embedding"], both["data"][1]["embedding"]);
}

TEST_F(Embeddings, OfTokensAreThoseOfTheirText) {
  const auto of_text = told(R"(["ab","c"])"), of_tokens = told("[[97,98],[99]]");
  EXPECT_EQ(of_text["data"], of_tokens["data"]);
  EXPECT_EQ(told("[97,98]")["data"][0], of_text["data"][0]);
}

TEST_F(Embeddings, InBase64AreTheSameNumbers) {
  const auto plain = told(R"("some")"),
             packed = told(R"("some")", R"(,"encoding_format":"base64")");
  const std::string text = packed["data"][0]["embedding"];
  EXPECT_EQ(text.size(), 4u * ((kWidth * 4 + 2) / 3));
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  for (std::size_t at = 0; at < text.size(); at += 4) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 4; ++i)
      bits = bits << 6 |
             static_cast<std::uint32_t>(text[at + i] == '=' ? 0 : letters.find(text[at + i]));
    for (const int shift : {16, 8, 0}) bytes += static_cast<char>(bits >> shift);
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(kWidth); ++i) {
    float value;
    std::memcpy(&value, bytes.data() + 4 * i, sizeof value);
    EXPECT_EQ(value, plain["data"][0]["embedding"][i].get<float>());
  }
}

TEST_F(Embeddings, AreRefusedNamingTheField) {
  EXPECT_THAT(refusal("[]"), HasSubstr("input: "));
  EXPECT_THAT(refusal("7"), HasSubstr("input: "));
  EXPECT_THAT(refusal(R"(["a",[1]])"), HasSubstr("not of both"));
  EXPECT_THAT(refusal(R"("a")", R"(,"dimensions":5)"), HasSubstr("dimensions: "));
  EXPECT_THAT(refusal(R"("a")", R"(,"encoding_format":"hex")"), HasSubstr("encoding_format: "));
  EXPECT_THAT(refusal(R"("a")", R"(,"enkoding_format":"float")"), HasSubstr("encoding_format"));
  EXPECT_EQ(refusal(R"("a")", R"(,"user":"u","encoding_format":"float")"), "");
  EXPECT_FALSE(openai::read_embeddings("[", &wrong_));
  const std::string longer = std::string(R"({"model":"m","input":"a"})") + '\0' + "more";
  EXPECT_FALSE(openai::read_embeddings(longer, &wrong_)) << "a zero is no end";
  EXPECT_FALSE(openai::read_embeddings(R"({"input":"a"})", &wrong_));
  EXPECT_EQ(wrong_, "model");
}

TEST_F(Embeddings, OfATextThatCannotBeReadSayWhichItIs) {
  const std::string long_one(static_cast<std::size_t>(kContext) + 1, 'x');
  EXPECT_THAT(failure(R"(["a",")" + long_one + R"("])"),
              HasSubstr("text 1: the text has 25 tokens"));
  EXPECT_THAT(failure(R"(["",  "a"])"), HasSubstr("text 0: the text is empty"));
  EXPECT_THAT(failure("[[1],[2,256]]"), HasSubstr("text 1: token 256"));
  EXPECT_THAT(failure("[[2147483647]]"), HasSubstr("outside the vocabulary"));
}

TEST_F(Embeddings, OfOtherTensorsAreRefused) {
  const auto refused = [&](std::vector<InferTensor> inputs) {
    const auto answered = answer({std::move(inputs)});
    return answered ? "" : answered.error().message();
  };
  const std::vector<std::int64_t> one{1}, two{2}, below{-1};
  const auto tokens = tensor_of(kTokensTensor, TensorKind::int64, {1}, one);
  EXPECT_THAT(refused({}), HasSubstr("'text'"));
  EXPECT_THAT(refused({tokens}), HasSubstr("'lengths'"));
  EXPECT_THAT(refused({tokens, tensor_of(kLengthsTensor, TensorKind::int64, {1}, two)}),
              HasSubstr("more than the numbers"));
  EXPECT_THAT(refused({tokens, tensor_of(kLengthsTensor, TensorKind::int64, {1}, below)}),
              HasSubstr("more than the numbers"));
  EXPECT_THAT(refused({tokens, tensor_of(kLengthsTensor, TensorKind::int64, {0},
                                         std::vector<std::int64_t>{})}),
              HasSubstr("less than the numbers"));
  EXPECT_THAT(refused({tensor_of(kTextTensor, TensorKind::int64, {1}, one)}), HasSubstr("BYTES"));
  EXPECT_THAT(refused({texts_tensor(kTextTensor, {})}), HasSubstr("no text"));
}

TEST_F(Embeddings, KeepTheirDeadline) {
  const auto late = answer(read(R"("a")")->texts, clock_.now());
  EXPECT_EQ(late.error().code, ErrorCode::timeout);
}

TEST_F(Embeddings, OfferNoTexts) {
  const auto text = served_->generate({.prompt = "a", .max_tokens = 1}, Time::max());
  EXPECT_EQ(text.error().code, ErrorCode::unsupported);
  const InferDescription form = describe_tensors(*served_);
  EXPECT_EQ(form.inputs.at(0).name, kTextTensor);
  EXPECT_EQ(form.outputs.at(0).shape, (std::vector<std::int64_t>{-1, kWidth}));
}

}  // namespace
}  // namespace gpunode::inference
