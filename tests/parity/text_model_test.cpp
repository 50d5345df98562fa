// The backward pass of each model of texts against finite differences of its loss, tensor by tensor.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::model {
namespace {

struct Fixture {
  std::unique_ptr<ops::Backend> backend = cpu::open_backend();
  std::unique_ptr<Model> model;
  std::unique_ptr<Program> program;
  std::vector<float> weights;
  std::vector<std::vector<std::uint8_t>> texts;
  std::vector<Sample> samples;

  Fixture(const std::string& kind, Settings settings) {
    model = std::move(*make_model(kind, settings));
    program = std::move(*model->program(*backend, 1));
    weights.resize(model->parameter_count());
    model->initialise(3, weights);
    // Larger weights than a training starts with, so that every tensor matters to the loss.
    for (std::size_t place = 0; place < weights.size(); ++place)
      weights[place] =
          weights[place] * 6 + static_cast<float>(mix(5, place) % 1000) / 16000.0f - 0.03f;
    for (std::uint64_t index = 0; index < 3; ++index) {
      texts.emplace_back();
      for (std::size_t byte = 0; byte < model->sample_bytes(); ++byte)
        texts.back().push_back(
            static_cast<std::uint8_t>(mix(index + 9, byte) % model->vocabulary()));
    }
    for (std::uint64_t index = 0; index < 3; ++index) samples.push_back({index, texts[index]});
  }

  double loss(std::span<const float> at) {
    EXPECT_TRUE(program->load(at));
    return program->evaluate(0, samples)->loss;
  }

  // Derivative along `direction`, by differences of fourth order.
  double slope(std::size_t offset, const std::vector<float>& direction, double reach) {
    const auto moved = [&](double by) {
      std::vector<float> at = weights;
      for (std::size_t i = 0; i < direction.size(); ++i)
        at[offset + i] += static_cast<float>(by * direction[i]);
      return loss(at);
    };
    return (8 * (moved(reach) - moved(-reach)) - (moved(2 * reach) - moved(-2 * reach))) /
           (12 * reach);
  }
};

struct Kind {
  const char* name;
  Settings settings;
};
void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}
class TextModelTest : public ::testing::TestWithParam<Kind> {};
const Settings kSmall = {
    {"layers", "2"}, {"heads", "2"}, {"channels", "16"}, {"context", "13"}, {"vocabulary", "23"}};
Settings small_and(Settings more) {
  more.insert(kSmall.begin(), kSmall.end());
  return more;
}
INSTANTIATE_TEST_SUITE_P(
    Models, TextModelTest,
    ::testing::Values(
        Kind{"gpt", kSmall}, Kind{"llama", small_and({{"kv_heads", "1"}, {"hidden", "24"}})},
        Kind{"llama", small_and({{"kv_heads", "2"}, {"hidden", "20"}, {"attention_bias", "1"}})}));

TEST_P(TextModelTest, gradients_agree_with_finite_differences_for_every_tensor) {
  Fixture fixture(GetParam().name, GetParam().settings);
  std::vector<float> gradient(fixture.weights.size());
  ASSERT_TRUE(fixture.program->load(fixture.weights));
  auto loss = fixture.program->gradient(0, fixture.samples, gradient);
  ASSERT_TRUE(loss);
  EXPECT_NEAR(loss->loss, fixture.loss(fixture.weights), 1e-3);

  std::size_t offset = 0;
  for (const ParameterSpec& spec : fixture.model->parameters()) {
    const std::size_t count = spec.element_count();
    double norm = 0;
    for (std::size_t i = 0; i < count; ++i) norm += std::pow(gradient[offset + i], 2);
    norm = std::sqrt(norm);
    EXPECT_GT(norm, 1e-4) << spec.name << " has no influence, so nothing would be checked";
    // A step that changes the loss well above its rounding and well below its curvature.
    const double reach = std::min(0.01, 0.5 / norm);
    // Direction 0 is the gradient itself, the others are random; each has length 1.
    for (int trial = 0; trial < 4; ++trial) {
      std::vector<float> direction(count);
      double expected = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const bool up = mix(static_cast<std::uint64_t>(trial), offset + i) & 1;
        const double along = trial == 0 ? gradient[offset + i] / norm
                                        : (up ? 1 : -1) / std::sqrt(static_cast<double>(count));
        direction[i] = static_cast<float>(along);
        expected += direction[i] * static_cast<double>(gradient[offset + i]);
      }
      EXPECT_NEAR(fixture.slope(offset, direction, reach), expected, 2e-3 * norm + 6e-3)
          << spec.name << ", direction " << trial;
    }
    offset += count;
  }
}

TEST_P(TextModelTest, a_session_scores_as_training_does) {
  Settings settings = GetParam().settings;
  settings["context"] = "20";
  Fixture fixture(GetParam().name, settings);
  ASSERT_TRUE(fixture.program->load(fixture.weights));
  auto session = fixture.program->session();
  ASSERT_TRUE(session);
  const auto bytes = fixture.samples[0].bytes;
  const std::size_t length = fixture.model->tokens_per_sample();
  double sum = 0;
  std::vector<float> logits(fixture.model->vocabulary());
  for (std::size_t at = 0; at < length; ++at) {
    const Token token = bytes[at];
    ASSERT_TRUE((*session)->append(std::span(&token, 1), logits));
    double total = 0;
    for (float logit : logits) total += std::exp(double{logit});
    sum += std::log(total) - logits[bytes[at + 1]];
  }
  EXPECT_EQ((*session)->position(), length);
  EXPECT_NEAR(sum, fixture.program->evaluate(0, std::span(fixture.samples).first(1))->loss, 1e-3);

  // Read at once, the last scores are the same up to rounding.
  (*session)->reset();
  const std::vector<Token> tokens(bytes.begin(), bytes.end() - 1);
  std::vector<float> at_once(logits.size());
  ASSERT_TRUE((*session)->append(tokens, at_once));
  for (std::size_t i = 0; i < logits.size(); ++i)
    EXPECT_NEAR(at_once[i], logits[i], 3e-4 * (1 + std::abs(logits[i])));
  EXPECT_EQ((*session)->append(tokens, at_once).error().code, ErrorCode::resource_exhausted);
  EXPECT_EQ((*session)->position(), length);
}

}  // namespace
}  // namespace gpunode::model
