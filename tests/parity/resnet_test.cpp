// ResNet: its shape, its gradient in training against finite differences, and the statistics that
// batch normalisation measures in training and uses in evaluation.
#include "kernels/model/resnet.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/model_code.hpp"
#include "kernels/model/optimizer.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::model {
namespace {

constexpr ResnetConfig kSmall{.height = 6, .width = 5, .channels = 2, .classes = 4, .filters = 6};

struct Ready {
  std::unique_ptr<ops::Backend> backend = cpu::open_backend();
  std::unique_ptr<Resnet> model = std::move(*Resnet::open(kSmall));
  std::unique_ptr<Program> program = std::move(*model->program(*backend, 1));
  std::vector<float> weights = std::vector<float>(model->parameter_count());
  std::vector<std::vector<std::uint8_t>> bytes;
  std::vector<Sample> samples;

  Ready() {
    model->initialise(4, weights);
    for (std::uint64_t row = 0; row < 6; ++row) {
      const auto count = static_cast<std::size_t>(model->features());
      std::vector<float> features(count);
      for (std::size_t at = 0; at < count; ++at)
        features[at] = static_cast<float>(mix(row, at) % 2001) / 1000.0f - 1.0f;
      const auto label = static_cast<std::int32_t>(row % 4);
      std::vector<std::uint8_t>& one = bytes.emplace_back(count * sizeof(float) + sizeof label);
      std::memcpy(one.data(), features.data(), count * sizeof(float));
      std::memcpy(one.data() + count * sizeof(float), &label, sizeof label);
    }
    for (std::size_t row = 0; row < bytes.size(); ++row) samples.push_back({row, bytes[row]});
    EXPECT_TRUE(program->load(weights));
  }

  // In training, where the slice's statistics count.
  double loss_at(std::span<const float> at, std::span<float> gradient) {
    EXPECT_TRUE(program->load(at));
    const auto told = program->gradient(0, samples, gradient);
    EXPECT_TRUE(told);
    EXPECT_EQ(told->weight, 6.0f);
    return told->loss;
  }

  std::span<float> part(std::span<float> of, const std::string& name) const {
    std::size_t first = 0;
    for (const ParameterSpec& spec : model->parameters()) {
      if (spec.name == name) return of.subspan(first, spec.element_count());
      first += spec.element_count();
    }
    ADD_FAILURE() << "no parameter " << name;
    return {};
  }
};

TEST(Resnet, OfEighteenLayersHasTheParametersOfThePaper) {
  const auto model = Resnet::open({.height = 224,
                                   .width = 224,
                                   .channels = 3,
                                   .classes = 1000,
                                   .groups = 4,
                                   .blocks = 2,
                                   .filters = 64,
                                   .stem = 7});
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ((*model)->name(), "resnet-18 of 64");
  EXPECT_EQ(trained_count((*model)->parameters()), 11'689'512u) << "as torchvision counts them";
  EXPECT_EQ((*model)->parameter_count(), 11'689'512u + 9'600u);
  EXPECT_TRUE(validate(**model));
  std::vector<std::string> names;
  for (const ParameterSpec& spec : (*model)->parameters()) {
    names.push_back(spec.name);
    EXPECT_EQ(spec.kind == ParameterKind::buffer, spec.name.find("running") != std::string::npos);
    EXPECT_EQ(spec.decay, spec.shape.size() > 1) << spec.name;
  }
  for (const char* name :
       {"conv1.weight", "bn1.weight", "bn1.running_mean", "layer1.0.conv1.weight",
        "layer2.0.downsample.0.weight", "layer2.0.downsample.1.running_var", "layer4.1.bn2.bias",
        "fc.weight", "fc.bias"})
    EXPECT_NE(std::ranges::find(names, name), names.end()) << name;
  EXPECT_EQ(std::ranges::find(names, "layer1.0.downsample.0.weight"), names.end());
}

TEST(Resnet, RefusesAStemThatItDoesNotHave) {
  const auto model = make_resnet({{"stem", "5"}});
  ASSERT_FALSE(model);
  EXPECT_NE(model.error().detail.find("stem = 5"), std::string::npos);
}

TEST(Resnet, HasTheGradientOfItsLossInTraining) {
  Ready ready;
  const std::size_t trained = trained_count(ready.model->parameters());
  std::vector<float> gradient(ready.weights.size()), unused(ready.weights.size());
  ready.loss_at(ready.weights, gradient);
  for (std::uint64_t trial = 0; trial < 8; ++trial) {
    std::vector<float> direction(trained);
    double expected = 0, square = 0;
    for (std::size_t at = 0; at < trained; ++at) {
      direction[at] = static_cast<float>(mix(trial, at) % 2001) / 1000.0f - 1.0f;
      expected += double{direction[at]} * gradient[at];
      square += double{gradient[at]} * gradient[at];
    }
    constexpr float kReach = 1e-4f;
    const auto moved = [&](float by) {
      std::vector<float> at = ready.weights;
      for (std::size_t i = 0; i < trained; ++i) at[i] += by * direction[i];
      return ready.loss_at(at, unused);
    };
    const double slope = (moved(kReach) - moved(-kReach)) / (2 * double{kReach});
    EXPECT_NEAR(slope, expected, 0.03 * std::sqrt(square) + 0.05) << trial;
  }
}

TEST(Resnet, MeasuresTheSlicesMeanAndUnbiasedVarianceAsSumsOverItsSamples) {
  Ready ready;
  std::vector<float> gradient(ready.weights.size());
  ready.loss_at(ready.weights, gradient);
  const auto means = ready.part(gradient, "bn1.running_mean");
  const auto variances = ready.part(gradient, "bn1.running_var");
  const auto weight = ready.part(ready.weights, "conv1.weight");
  const auto [height, width, channels, classes, groups, blocks, filters, stem] = kSmall;
  for (std::int64_t o = 0; o < filters; ++o) {
    std::vector<double> values;  // what the first convolution gives to filter o
    for (const auto& bytes : ready.bytes)
      for (std::int64_t place = 0; place < height * width; ++place) {
        double sum = 0;
        for (std::int64_t tap = 0; tap < 9 * channels; ++tap) {
          const std::int64_t i = place / width + tap / channels / 3 - 1;
          const std::int64_t j = place % width + tap / channels % 3 - 1;
          if (i < 0 || i >= height || j < 0 || j >= width) continue;
          float x = 0;
          const std::int64_t at = (i * width + j) * channels + tap % channels;
          std::memcpy(&x, bytes.data() + static_cast<std::size_t>(at) * sizeof x, sizeof x);
          sum += double{x} * weight[static_cast<std::size_t>(o * 9 * channels + tap)];
        }
        values.push_back(sum);
      }
    double mean = 0, square = 0;
    const auto rows = static_cast<double>(values.size());
    for (const double value : values) mean += value / rows;
    for (const double value : values) square += (value - mean) * (value - mean);
    EXPECT_NEAR(means[static_cast<std::size_t>(o)], 6 * mean, 1e-5);
    EXPECT_NEAR(variances[static_cast<std::size_t>(o)], 6 * square / (rows - 1), 1e-4);
  }
}

// In training two samples share statistics; in evaluation none does.
TEST(Resnet, EvaluatesEachSampleAloneWithTheStatisticsOfTheState) {
  Ready ready;
  const auto together = ready.program->evaluate(0, ready.samples);
  ASSERT_TRUE(together);
  EXPECT_EQ(together->weight, 6);
  double alone = 0;
  for (const Sample& sample : ready.samples)
    alone += ready.program->evaluate(0, std::span(&sample, 1))->loss;
  EXPECT_NEAR(alone, together->loss, 1e-5);

  // With the batch's own statistics as those of the state it gives what training gives.
  std::vector<float> gradient(ready.weights.size());
  const double trained = ready.loss_at(ready.weights, gradient);
  EXPECT_GT(std::abs(trained - together->loss), 1e-3) << "statistics matter";
  const std::size_t first = trained_count(ready.model->parameters());
  for (std::size_t at = first; at < gradient.size(); ++at) ready.weights[at] = gradient[at] / 6;
  std::size_t at = 0;
  for (const ParameterSpec& spec : ready.model->parameters()) {
    const bool is_variance = spec.name.find("running_var") != std::string::npos;
    const double rows = spec.name.starts_with("layer2") ? 6 * 3 * 3 : 6 * 6 * 5;
    for (std::size_t i = 0; is_variance && i < spec.element_count(); ++i)
      ready.weights[at + i] *= static_cast<float>((rows - 1) / rows);
    at += spec.element_count();
  }
  ASSERT_TRUE(ready.program->load(ready.weights));
  EXPECT_NEAR(ready.program->evaluate(0, ready.samples)->loss, trained, 1e-4);
}

TEST(Resnet, TellsTheScoresThatEvaluationJudges) {
  Ready ready;
  std::uint64_t correct = 0;
  double loss = 0;
  for (const Sample& sample : ready.samples) {
    std::vector<float> scores(4);
    ASSERT_TRUE(ready.program->scores(0, {&sample, 1}, scores));
    const auto label = static_cast<std::size_t>(sample.index % 4);
    double total = 0;
    for (const float score : scores) total += std::exp(double{score});
    loss += std::log(total) - scores[label];
    correct +=
        std::ranges::max_element(scores) - scores.begin() == static_cast<std::ptrdiff_t>(label);
  }
  const auto judged = ready.program->evaluate(0, ready.samples);
  EXPECT_NEAR(loss, judged->loss, 1e-4);
  EXPECT_EQ(correct, judged->correct);
  std::vector<float> few(3);
  EXPECT_EQ(ready.program->scores(0, {ready.samples.data(), 1}, few).error().code,
            ErrorCode::invalid_argument);
}

// Each pass of a step sees the same samples: what evaluation uses comes to what training measures.
TEST(Resnet, ItsStatisticsFollowTrainingUntilBothAgree) {
  Ready ready;
  const std::size_t count = ready.weights.size();
  Adamw optimizer(ready.model->parameters(), {.peak_rate = 2e-3, .warmup_steps = 1, .clip = 1e-3},
                  *ready.backend);
  std::vector<float> gradient(count), first(count), second(count);
  tensor::BufferPool pool(ready.backend->memory(), 1 << 20);
  auto lane = *ops::Lane::open(*ready.backend, pool);
  const double before = ready.program->evaluate(0, ready.samples)->loss;
  for (std::uint64_t step = 1; step <= 60; ++step) {
    ready.loss_at(ready.weights, gradient);
    const auto done =
        optimizer.apply(step, gradient, {6, 6}, {ready.weights, first, second}, ops::serial(lane));
    ASSERT_TRUE(done);
    EXPECT_LT(done->scale, 1.0 / 6) << "clipped";
  }
  const double trained = ready.loss_at(ready.weights, gradient);
  const double evaluated = ready.program->evaluate(0, ready.samples)->loss;
  EXPECT_LT(evaluated, 0.5 * before);
  EXPECT_NEAR(evaluated, trained, 0.1 * before);
  EXPECT_TRUE(std::all_of(
      first.begin() + static_cast<std::ptrdiff_t>(trained_count(ready.model->parameters())),
      first.end(), [](float moment) { return moment == 0; }));
}

}  // namespace
}  // namespace gpunode::model
