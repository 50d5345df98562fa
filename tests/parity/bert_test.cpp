// BERT: what is hidden from it, its gradient against finite differences, and that it learns to fill
// the gaps. That its scores are transformers' own stands in tests/peers.
#include "kernels/model/bert.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/optimizer.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::model {
namespace {

constexpr std::size_t kContext = 16;
constexpr std::uint8_t kPadding = 0, kOpening = 1, kSeparator = 2, kFirstLetter = 3, kMask = 19;

struct Inputs {
  std::vector<std::int32_t> tokens, segments, lengths, targets;

  std::vector<InputPart> parts() {
    std::vector<InputPart> made;
    for (auto* one : {&tokens, &segments, &lengths, &targets})
      made.push_back({"", graph::Dtype::i32, one->data(), one->size()});
    return made;
  }
  explicit Inputs(std::size_t context)
      : tokens(context), segments(context), lengths(1), targets(context) {}
};

// Sixteen letters in their order, from any of them on: what is hidden follows from what is not.
struct Circles {
  std::vector<std::vector<std::uint8_t>> bytes;
  std::vector<Sample> samples;

  Circles(std::size_t count, std::uint64_t seed) {
    for (std::size_t row = 0; row < count; ++row) {
      const std::uint64_t draw = mix(seed, row);
      std::vector<std::uint8_t> one(kContext, kPadding);
      const std::size_t length = kContext - draw % 4;
      for (std::size_t at = 0; at < length; ++at)
        one[at] = static_cast<std::uint8_t>(kFirstLetter + (draw / 8 + at) % 16);
      one[0] = kOpening;
      one[5] = kSeparator;
      bytes.push_back(std::move(one));
    }
    for (std::size_t row = 0; row < count; ++row) samples.push_back({row, bytes[row]});
  }
};

struct Ready {
  std::unique_ptr<ops::Backend> backend = cpu::open_backend();
  std::unique_ptr<Bert> model = std::move(*Bert::open({.layers = 2,
                                                       .heads = 2,
                                                       .channels = 32,
                                                       .hidden = 48,
                                                       .context = kContext,
                                                       .vocabulary = 20,
                                                       .padding = kPadding,
                                                       .opening = kOpening,
                                                       .separator = kSeparator}));
  std::unique_ptr<Program> program = std::move(*model->program(*backend, 1));
  std::vector<float> weights = std::vector<float>(model->parameter_count());
  std::vector<float> gradient = std::vector<float>(model->parameter_count());

  Ready() { model->initialise(4, weights); }
  double loss(std::span<const float> at, std::span<const Sample> samples) {
    EXPECT_TRUE(program->load(at));
    return program->evaluate(0, samples)->loss;
  }
  Inputs read(const Sample& sample) const {
    Inputs inputs(kContext);
    EXPECT_TRUE(model->read(sample, inputs.parts()));
    return inputs;
  }
  std::size_t targets(std::span<const Sample> samples) const {
    std::size_t count = 0;
    for (const Sample& sample : samples)
      count += kContext - static_cast<std::size_t>(std::ranges::count(read(sample).targets, -1));
    return count;
  }
};

TEST(Bert, hides_fifteen_of_a_hundred_tokens_most_of_them_behind_the_mask) {
  const Ready ready;
  const Circles circles(4000, 1);
  double letters = 0, drawn = 0, hidden = 0, kept = 0;
  for (const Sample& sample : circles.samples) {
    const Inputs inputs = ready.read(sample);
    for (std::size_t at = 0; at < kContext; ++at) {
      const std::int32_t was = sample.bytes[at], shown = inputs.tokens[at];
      if (was < kFirstLetter || inputs.targets[at] == -1) {
        EXPECT_EQ(inputs.targets[at], -1);
        EXPECT_EQ(shown, was);
      } else {
        EXPECT_EQ(inputs.targets[at], was);
        ++drawn;
        hidden += shown == kMask && was != kMask;
        kept += shown == was;
      }
      letters += was >= kFirstLetter;
    }
  }
  EXPECT_NEAR(drawn / letters, 0.15, 0.01);
  EXPECT_NEAR(hidden / drawn, 0.8 + 0.1 / 20, 0.02);
  EXPECT_NEAR(kept / drawn, 0.1 + 0.1 / 20, 0.02);
}

TEST(Bert, what_is_hidden_follows_from_seed_and_sample_alone) {
  const Ready ready;
  Circles circles(2, 1);
  circles.samples[1].bytes = circles.samples[0].bytes;
  const Inputs first = ready.read(circles.samples[0]);
  EXPECT_EQ(first.tokens, ready.read(circles.samples[0]).tokens);
  EXPECT_NE(first.targets, ready.read(circles.samples[1]).targets);
  Settings settings = ready.model->config();
  settings["mask_seed"] = "2";
  const auto other = make_model("bert", settings);
  Inputs inputs(kContext);
  ASSERT_TRUE(dynamic_cast<const Bert&>(**other).read(circles.samples[0], inputs.parts()));
  EXPECT_NE(first.targets, inputs.targets);
}

TEST(Bert, knows_segments_and_the_end_of_a_sample) {
  const Ready ready;
  std::vector<std::uint8_t> bytes{kOpening, 5, kSeparator, 6, 7, kSeparator, 8};
  bytes.resize(kContext, kPadding);
  const Inputs inputs = ready.read({0, bytes});
  EXPECT_EQ(inputs.lengths[0], 7);
  EXPECT_EQ(inputs.segments,
            (std::vector<std::int32_t>{0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(Bert, gradients_agree_with_finite_differences) {
  Ready ready;
  const Circles circles(9, 1);
  ASSERT_GT(ready.targets(circles.samples), 5u);
  for (float& weight : ready.weights) weight *= 4;  // away from the flat beginning
  ASSERT_TRUE(ready.program->load(ready.weights));
  ASSERT_TRUE(ready.program->gradient(0, circles.samples, ready.gradient));
  for (std::uint64_t trial = 0; trial < 8; ++trial) {
    std::vector<float> moved[2] = {ready.weights, ready.weights};
    double expected = 0;
    constexpr double kReach = 2e-4;
    for (std::size_t at = 0; at < ready.weights.size(); ++at) {
      const double along = (static_cast<double>(mix(trial, at) % 2001) - 1000.0) / 1000.0;
      expected += along * ready.gradient[at];
      moved[0][at] += static_cast<float>(kReach * along);
      moved[1][at] -= static_cast<float>(kReach * along);
    }
    const double slope =
        (ready.loss(moved[0], circles.samples) - ready.loss(moved[1], circles.samples)) /
        (2 * kReach);
    EXPECT_NEAR(slope, expected, 0.03 * std::abs(expected) + 0.1) << trial;
  }
}

TEST(Bert, learns_to_fill_gaps) {
  Ready ready;
  const Circles circles(512, 2), unseen(256, 3);
  const double gaps = static_cast<double>(ready.targets(unseen.samples));
  Adamw optimizer(ready.model->parameters(),
                  {.peak_rate = 0.01, .warmup_steps = 20, .total_steps = 400}, *ready.backend);
  std::vector<float> first(ready.weights.size()), second(ready.weights.size());
  tensor::BufferPool pool(ready.backend->memory(), 1 << 20);
  auto lane = *ops::Lane::open(*ready.backend, pool);
  const double before = ready.loss(ready.weights, unseen.samples) / gaps;
  for (std::uint64_t step = 1; step <= 400; ++step) {
    ASSERT_TRUE(ready.program->load(ready.weights));
    const auto batch = std::span(circles.samples).subspan((step * 32) % 512, 32);
    ASSERT_TRUE(ready.program->gradient(0, batch, ready.gradient));
    ASSERT_TRUE(optimizer.apply(step, ready.gradient,
                                {static_cast<double>(ready.targets(batch)), 32},
                                {ready.weights, first, second}, ops::serial(lane)));
  }
  const double after = ready.loss(ready.weights, unseen.samples) / gaps;
  EXPECT_GT(before, 2.5) << "of ln 20";
  EXPECT_LT(after, 0.5);
}

TEST(Bert, refuses_tokens_outside_its_vocabulary) {
  const Ready ready;
  const std::vector<std::uint8_t> bytes(kContext, 20);
  Inputs inputs(kContext);
  const auto read = ready.model->read({7, bytes}, inputs.parts());
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().detail, "sample 7 holds 20 at its position 0, but vocabulary = 20");
  EXPECT_FALSE(make_model("bert", {{"mask", "300"}}));
  EXPECT_FALSE(make_model("bert", {{"heads", "3"}}));
}

}  // namespace
}  // namespace gpunode::model
