// Classifiers of rows: gradients against finite differences, what they refuse, and that they learn.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/optimizer.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::model {
namespace {

constexpr std::size_t kFeatures = 6, kClasses = 3;

// Rows whose class is where the largest of three sums of two features is.
struct Rows {
  std::vector<std::vector<std::uint8_t>> bytes;
  std::vector<Sample> samples;

  explicit Rows(std::size_t count, std::uint64_t seed) {
    for (std::size_t row = 0; row < count; ++row) {
      float features[kFeatures];
      for (std::size_t at = 0; at < kFeatures; ++at)
        features[at] = static_cast<float>(mix(seed, row * kFeatures + at) % 1000) / 1000.0f;
      std::int32_t label = 0;
      for (std::int32_t one = 1; one < 3; ++one)
        if (features[2 * one] + features[2 * one + 1] >
            features[2 * label] + features[2 * label + 1])
          label = one;
      bytes.emplace_back(sizeof features + sizeof label);
      std::memcpy(bytes.back().data(), features, sizeof features);
      std::memcpy(bytes.back().data() + sizeof features, &label, sizeof label);
    }
    for (std::size_t row = 0; row < count; ++row) samples.push_back({row, bytes[row]});
  }
};

struct Ready {
  std::unique_ptr<ops::Backend> backend = cpu::open_backend();
  std::unique_ptr<Model> model = std::move(
      *make_model("mlp", {{"features", "6"}, {"classes", "3"}, {"layers", "2"}, {"hidden", "24"}}));
  std::unique_ptr<Program> program = std::move(*model->program(*backend, 1));
  std::vector<float> weights = std::vector<float>(model->parameter_count());
  std::vector<float> gradient = std::vector<float>(model->parameter_count());

  Ready() { model->initialise(4, weights); }
  double loss(std::span<const float> at, std::span<const Sample> samples) {
    EXPECT_TRUE(program->load(at));
    return program->evaluate(0, samples)->loss;
  }
};

TEST(Classifier, a_sample_of_another_length_is_refused) {
  Ready ready;
  Rows rows(2, 1);
  rows.bytes[1].pop_back();
  rows.samples[1].bytes = rows.bytes[1];
  ASSERT_TRUE(ready.program->load(ready.weights));
  const auto done = ready.program->gradient(0, rows.samples, ready.gradient);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::invalid_argument);
}

TEST(Classifier, gradients_agree_with_finite_differences) {
  Ready ready;
  const Rows rows(9, 1);
  ASSERT_TRUE(ready.program->load(ready.weights));
  ASSERT_TRUE(ready.program->gradient(0, rows.samples, ready.gradient));
  for (std::uint64_t trial = 0; trial < 12; ++trial) {
    std::vector<float> moved[2] = {ready.weights, ready.weights};
    double expected = 0;
    constexpr double kReach = 1e-3;
    for (std::size_t at = 0; at < ready.weights.size(); ++at) {
      const double along = (static_cast<double>(mix(trial, at) % 2001) - 1000.0) / 1000.0;
      expected += along * ready.gradient[at];
      moved[0][at] += static_cast<float>(kReach * along);
      moved[1][at] -= static_cast<float>(kReach * along);
    }
    const double slope =
        (ready.loss(moved[0], rows.samples) - ready.loss(moved[1], rows.samples)) / (2 * kReach);
    EXPECT_NEAR(slope, expected, 0.05 * std::abs(expected) + 0.1) << trial;
  }
}

TEST(Classifier, learns_a_rule_and_keeps_to_it_on_rows_that_it_has_not_seen) {
  Ready ready;
  const Rows rows(256, 2), unseen(200, 3);
  Adamw optimizer(ready.model->parameters(),
                  {.peak_rate = 0.01, .warmup_steps = 5, .total_steps = 150}, *ready.backend);
  std::vector<float> first(ready.weights.size()), second(ready.weights.size());
  tensor::BufferPool pool(ready.backend->memory(), 1 << 20);
  auto lane = *ops::Lane::open(*ready.backend, pool);
  const double before = ready.loss(ready.weights, unseen.samples) / 200;
  for (std::uint64_t step = 1; step <= 150; ++step) {
    ASSERT_TRUE(ready.program->load(ready.weights));
    const auto batch = std::span(rows.samples).subspan((step * 32) % 256, 32);
    ASSERT_TRUE(ready.program->gradient(0, batch, ready.gradient));
    ASSERT_TRUE(optimizer.apply(step, ready.gradient, {32, 32}, {ready.weights, first, second},
                                ops::serial(lane)));
  }
  const double after = ready.loss(ready.weights, unseen.samples) / 200;
  EXPECT_GT(before, 0.8);
  EXPECT_LT(after, 0.2);
  const auto told = ready.program->evaluate(0, unseen.samples);
  EXPECT_GE(told->correct, 184u) << "of 200";
  EXPECT_LE(told->correct, 200u);
}

TEST(Classifier, refuses_a_label_beyond_its_classes) {
  Ready ready;
  ASSERT_TRUE(ready.program->load(ready.weights));
  Rows rows(1, 1);
  const std::int32_t label = kClasses;
  std::memcpy(rows.bytes[0].data() + kFeatures * sizeof(float), &label, sizeof label);
  const auto loss = ready.program->gradient(0, rows.samples, ready.gradient);
  ASSERT_FALSE(loss);
  EXPECT_EQ(loss.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(loss.error().detail.find("label 3"), std::string::npos) << loss.error().detail;
}

TEST(Classifier, does_not_continue_texts) {
  Ready ready;
  const auto session = ready.program->session();
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code, ErrorCode::unsupported);
}

}  // namespace
}  // namespace gpunode::model
