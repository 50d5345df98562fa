#include "kernels/model/gpt.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

namespace gpunode::model {
namespace {

TEST(Gpt, HasTheParametersOfItsShape) {
  const auto model = *Gpt::open(GptConfig{});
  // Tables, four blocks of two norms and four linear layers, the last norm.
  const std::size_t C = 128, block = 4 * C + 3 * C * C + 3 * C + C * C + C + 8 * C * C + 5 * C;
  EXPECT_EQ(model->parameter_count(), 256 * C + 64 * C + 4 * block + 2 * C);
  std::size_t count = 0;
  std::set<std::string> names;
  for (const ParameterSpec& spec : model->parameters()) {
    count += spec.element_count();
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
    EXPECT_EQ(spec.decay, spec.shape.size() == 2) << spec.name;
  }
  EXPECT_EQ(count, model->parameter_count());
  EXPECT_EQ(model->sample_bytes(), 65u);
  EXPECT_EQ(model->tokens_per_sample(), 64u);
}

TEST(Gpt, InitialValuesHaveTheDeviationsOfTheirTensors) {
  const auto model = *Gpt::open(GptConfig{});
  std::vector<float> weights(model->parameter_count());
  model->initialise(1, weights);
  std::size_t offset = 0;
  for (const ParameterSpec& spec : model->parameters()) {
    const std::size_t count = spec.element_count();
    double sum = 0, square = 0;
    for (std::size_t i = 0; i < count; ++i) {
      sum += weights[offset + i];
      square += double{weights[offset + i]} * weights[offset + i];
    }
    offset += count;
    const double mean = sum / static_cast<double>(count);
    const double deviation = std::sqrt(square / static_cast<double>(count) - mean * mean);
    const bool residual = spec.name.find("projection.weight") != std::string::npos ||
                          spec.name.find("reduce.weight") != std::string::npos;
    if (spec.decay) {
      const double expected = residual ? 0.02 / std::sqrt(8.0) : 0.02;
      EXPECT_NEAR(deviation, expected, 0.03 * expected) << spec.name;
      EXPECT_NEAR(mean, 0, 0.05 * expected) << spec.name;
    } else {
      EXPECT_EQ(mean, spec.name.find("norm") != std::string::npos && spec.name.ends_with("weight")
                          ? 1.0
                          : 0.0)
          << spec.name;
      EXPECT_EQ(deviation, 0.0) << spec.name;
    }
  }
}

TEST(Gpt, InitialValuesAreAFunctionOfTheSeed) {
  const auto model = *Gpt::open(GptConfig{.layers = 1, .channels = 32});
  std::vector<float> first(model->parameter_count()), again(first), other(first);
  model->initialise(1, first);
  model->initialise(1, again);
  model->initialise(2, other);
  EXPECT_EQ(std::memcmp(first.data(), again.data(), first.size() * sizeof(float)), 0);
  EXPECT_NE(first[0], other[0]);
}

TEST(Gpt, TellsTheMemoryThatMoreLanesAndLargerSlicesNeed) {
  const auto model = *Gpt::open(GptConfig{});
  const auto one = model->working_bytes(1, 3);
  EXPECT_EQ(model->working_bytes(2, 3), 2 * one);
  EXPECT_GT(model->working_bytes(1, 6), one);
  EXPECT_GT(one, 1000000u);
}

TEST(Gpt, SettingsWhoseBytesLeave64BitsNeedMoreMemoryThanThereIs) {
  const auto model =
      *Gpt::open(GptConfig{.layers = 16, .heads = 16, .channels = 16384, .context = 65536});
  for (std::size_t samples : {1u << 18, 1u << 20, 1u << 22, 1u << 24}) {
    EXPECT_GE(model->slot_bytes(samples), std::uint64_t{1} << 50) << samples;
    EXPECT_GE(model->working_bytes(1024, samples), std::uint64_t{1} << 60) << samples;
  }
}

}  // namespace
}  // namespace gpunode::model
