// What a program refuses: everything that a data source or an embedder may get wrong.
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"

namespace gpunode::model {
namespace {

struct Ready {
  std::unique_ptr<ops::Backend> backend = cpu::open_backend();
  std::unique_ptr<Model> model = std::move(*make_model(
      "gpt", {{"layers", "1"}, {"channels", "16"}, {"context", "8"}, {"vocabulary", "128"}}));
  std::unique_ptr<Program> program = std::move(*model->program(*backend, 1));
  std::vector<float> weights = std::vector<float>(model->parameter_count());
  std::vector<float> gradient = std::vector<float>(model->parameter_count());
};

TEST(Program, ComputesNothingBeforeItsWeightsAreLoaded) {
  Ready ready;
  const std::vector<std::uint8_t> text(9, 'a');
  const Sample sample{0, text};
  EXPECT_EQ(ready.program->gradient(0, std::span(&sample, 1), ready.gradient).error().code,
            ErrorCode::wrong_state);
  EXPECT_EQ(ready.program->evaluate(0, std::span(&sample, 1)).error().code, ErrorCode::wrong_state);
}

TEST(Program, RefusesSamplesThatDoNotFit) {
  Ready ready;
  ASSERT_TRUE(ready.program->load(ready.weights));
  const std::vector<std::uint8_t> short_text(8, 'a'), strange(9, 200), good(9, 'a');
  for (const auto& text : {short_text, strange}) {
    const Sample sample{17, text};
    auto loss = ready.program->gradient(0, std::span(&sample, 1), ready.gradient);
    ASSERT_FALSE(loss);
    EXPECT_EQ(loss.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(loss.error().detail.find("17"), std::string::npos) << loss.error().detail;
  }
  const Sample sample{0, good};
  EXPECT_FALSE(
      ready.program->gradient(0, std::span(&sample, 1), std::span(ready.gradient).first(5)));
  EXPECT_TRUE(ready.program->gradient(0, std::span(&sample, 1), ready.gradient));
}

TEST(Program, GivesZerosForASliceWithoutSamples) {
  Ready ready;
  ASSERT_TRUE(ready.program->load(ready.weights));
  ready.gradient[0] = 7;
  auto loss = ready.program->gradient(0, {}, ready.gradient);
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->loss, 0.0f);
  EXPECT_EQ(loss->weight, 0.0f);
  for (float value : ready.gradient) ASSERT_EQ(value, 0.0f);
  EXPECT_EQ(ready.program->evaluate(0, {})->loss, 0.0);
  EXPECT_EQ(ready.program->evaluate(0, {})->correct, 0u);
}

TEST(Program, RefusesWeightsOfAnotherModel) {
  Ready ready;
  ready.weights.pop_back();
  EXPECT_EQ(ready.program->load(ready.weights).error().code, ErrorCode::invalid_argument);
}

TEST(Program, RefusesTokensOutsideTheVocabulary) {
  Ready ready;
  ASSERT_TRUE(ready.program->load(ready.weights));
  auto session = ready.program->session();
  ASSERT_TRUE(session);
  std::vector<float> logits(128);
  for (Token token : {-1, 128}) {
    auto done = (*session)->append(std::span(&token, 1), logits);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::invalid_argument);
  }
  EXPECT_EQ((*session)->position(), 0u);
}

}  // namespace
}  // namespace gpunode::model
