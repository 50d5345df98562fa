// The backward rule of each operation of a graph, together with what the passes over the graph make
// of it: small models, one an operation, whose gradients are held against finite differences.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/graph/differentiate.hpp"
#include "kernels/model/graph_model.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::model {
namespace {

using graph::Builder;
using graph::Dtype;
using graph::ValueId;

constexpr std::int64_t kPositions = 6, kVocabulary = 16, kSamples = 3;

// What a model's forward pass may use: tokens (B, T), each below kVocabulary, and numbers in
// [-1, 1]; the result has kVocabulary scores a token.
struct Inputs {
  ValueId tokens, values;  // (B, T), (B, pixels...)
};
struct Recipe {
  std::function<ValueId(Builder&, const Inputs&)> forward;
  std::int64_t targets = kPositions;  // predicted tokens of a sample
  std::array<std::int64_t, 3> values = {1, 1, 1};
  std::int64_t scores = kVocabulary;
  bool ignores = false;    // each third target is -1
  bool generates = false;  // the forward pass uses tokens alone
};

class SmallModel final : public GraphModel {
 public:
  explicit SmallModel(Recipe recipe) : recipe_(std::move(recipe)) {
    const auto done = prepare();
    EXPECT_TRUE(done) << done.error().message();
  }
  void forward(Builder& g) const override {
    const auto [height, width, channels] = recipe_.values;
    const ValueId tokens = g.input("tokens", Dtype::i32, {g.positions()});
    const ValueId targets = g.input("targets", Dtype::i32, {recipe_.targets});
    const ValueId values = g.input("values", Dtype::f32, {height, width, channels});
    g.predict(recipe_.forward(g, {tokens, values}), targets);
  }
  Result<void> read(const Sample& sample, std::span<const InputPart> inputs) const override {
    std::uint64_t counter = 0;
    const auto next = [&] { return mix(sample.index + 17, counter++); };
    for (std::int32_t& token : inputs[0].tokens())
      token = static_cast<std::int32_t>(next() % kVocabulary);
    for (std::int32_t& target : inputs[1].tokens())
      target = recipe_.ignores && next() % 3 == 0
                   ? -1
                   : static_cast<std::int32_t>(next() % static_cast<std::uint64_t>(recipe_.scores));
    for (float& value : inputs[2].values())
      value = static_cast<float>(next() % 4001) / 2000.0f - 1.0f;
    return {};
  }
  std::string kind() const override { return "small"; }
  std::string name() const override { return "small"; }
  Settings config() const override { return {}; }
  std::vector<SampleField> sample_fields() const override { return {{"text", SampleDtype::u8, 1}}; }
  std::size_t tokens_per_sample() const override {
    return static_cast<std::size_t>(recipe_.targets);
  }
  std::size_t vocabulary() const override { return static_cast<std::size_t>(recipe_.scores); }
  std::int64_t context() const override { return kPositions; }
  bool generates() const override { return recipe_.generates; }

 private:
  Recipe recipe_;
};

class Differences {
 public:
  explicit Differences(Recipe recipe) : model_(std::move(recipe)) {
    auto program = model_.program(*backend_, 1);
    EXPECT_TRUE(program) << program.error().message();
    program_ = std::move(*program);
    weights_.resize(model_.parameter_count());
    model_.initialise(3, weights_);
    for (std::size_t place = 0; place < weights_.size(); ++place)
      weights_[place] += static_cast<float>(mix(5, place) % 1000) / 2000.0f - 0.25f;
    for (std::uint64_t index = 0; index < kSamples; ++index)
      samples_.push_back({index, std::span(&byte_, 1)});
  }

  // Each parameter along its own gradient and along a random direction.
  void check() {
    std::vector<float> gradient(weights_.size());
    ASSERT_TRUE(program_->load(weights_));
    const auto loss = program_->gradient(0, samples_, gradient);
    ASSERT_TRUE(loss) << loss.error().message();
    EXPECT_EQ(loss->weight, counted()) << "targets that have a part in the loss";
    EXPECT_NEAR(loss->loss, loss_at(weights_), 1e-4 * (1 + std::abs(loss->loss)));
    std::size_t first = 0;
    for (const ParameterSpec& spec : model_.parameters()) {
      const auto part = std::span(gradient).subspan(first, spec.element_count());
      for (const bool random : {false, true}) check_along(spec.name, first, part, random);
      first += spec.element_count();
    }
  }

 private:
  void check_along(const std::string& name, std::size_t first, std::span<const float> gradient,
                   bool random) {
    double square = 0;
    for (const float one : gradient) square += double{one} * one;
    const double norm = std::sqrt(square);
    ASSERT_GT(norm, 1e-3) << name << " has no influence, so nothing would be checked";
    std::vector<float> direction;
    double expected = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const double sign = mix(7, first + i) & 1 ? 1 : -1;
      direction.push_back(static_cast<float>(
          random ? sign / std::sqrt(static_cast<double>(gradient.size())) : gradient[i] / norm));
      expected += double{direction[i]} * gradient[i];
    }
    const double reach = std::min(0.01, 0.3 / norm);
    const auto moved = [&](double by) {
      std::vector<float> at = weights_;
      for (std::size_t i = 0; i < direction.size(); ++i)
        at[first + i] += static_cast<float>(by * direction[i]);
      return loss_at(at);
    };
    const double slope =
        (8 * (moved(reach) - moved(-reach)) - (moved(2 * reach) - moved(-2 * reach))) /
        (12 * reach);
    EXPECT_NEAR(slope, expected, 3e-3 * norm + 5e-3) << name << (random ? " at random" : "");
  }

  float counted() const {
    float count = 0;
    for (const Sample& sample : samples_) {
      std::vector<std::int32_t> tokens(kPositions), targets(model_.tokens_per_sample());
      const InputPart parts[] = {{"tokens", Dtype::i32, tokens.data(), tokens.size()},
                                 {"targets", Dtype::i32, targets.data(), targets.size()},
                                 {"values", Dtype::f32, nullptr, 0}};
      EXPECT_TRUE(model_.read(sample, parts));
      for (const std::int32_t target : targets) count += target >= 0;
    }
    return count;
  }

  double loss_at(std::span<const float> weights) {
    EXPECT_TRUE(program_->load(weights));
    return program_->evaluate(0, samples_)->loss;
  }

  std::unique_ptr<ops::Backend> backend_ = cpu::open_backend();
  SmallModel model_;
  std::unique_ptr<Program> program_;
  std::vector<float> weights_;
  std::uint8_t byte_ = 0;
  std::vector<Sample> samples_;
};

constexpr std::int64_t kChannels = 16;

// (B, T, C) of the tokens; and (B, T, V) of what `between` makes of it.
ValueId embedded(Builder& g, const Inputs& in) {
  const ValueId tokens = g.parameter("tokens.weight", {kVocabulary, kChannels}, graph::normal(1));
  const ValueId places = g.parameter("places.weight", {kPositions, kChannels}, graph::normal(0.5f));
  return g.embedding(in.tokens, tokens, places);
}
ValueId scores(Builder& g, ValueId x, std::int64_t width) {
  return g.linear(x, g.parameter("scores.weight", {kVocabulary, width}, graph::normal(0.3f)));
}

TEST(GraphGradient, OfRmsnormAddsToTheBranchBesideIt) {
  Differences({.forward = [](Builder& g, const Inputs& in) {
    const ValueId x = embedded(g, in);
    const ValueId weight = g.parameter("norm.weight", {kChannels}, graph::constant(1));
    return scores(g, g.add(x, g.rmsnorm(x, weight, 1e-2f)), kChannels);
  }}).check();
}

TEST(GraphGradient, OfLayernormWithAnotherEpsilon) {
  Differences({.forward = [](Builder& g, const Inputs& in) {
    const ValueId weight = g.parameter("norm.weight", {kChannels}, graph::constant(1));
    const ValueId bias = g.parameter("norm.bias", {kChannels}, graph::constant(0));
    return scores(g, g.layernorm(embedded(g, in), weight, bias, 0.1f), kChannels);
  }}).check();
}

TEST(GraphGradient, OfSwiglu) {
  Differences({.forward = [](Builder& g, const Inputs& in) {
    const ValueId inner = g.parameter("inner.weight", {24, kChannels}, graph::normal(0.3f));
    return scores(g, g.swiglu(g.linear(embedded(g, in), inner)), 12);
  }}).check();
}

// Two heads of queries and one of keys, of four elements each; the values' head is not turned.
TEST(GraphGradient, OfRotaryTurnsBack) {
  Differences({.forward = [](Builder& g, const Inputs& in) {
    const ValueId x = embedded(g, in);
    const ValueId turned = g.rotary(x, 2, 1, 100);
    return scores(g, g.add(g.gelu(x), g.gelu(turned)), kChannels);
  }}).check();
}

TEST(GraphGradient, OfReluTanhAndTheExactGelu) {
  Differences({.forward = [](Builder& g, const Inputs& in) {
    const ValueId x = embedded(g, in);
    const ValueId rectified = g.relu(g.add(g.gelu(x, ops::GeluForm::erf), g.tanh(x)));
    return scores(g, g.add(rectified, x), kChannels);
  }}).check();
}

TEST(GraphGradient, IgnoresTokensWithoutTarget) {
  Differences({.forward = [](Builder& g,
                             const Inputs& in) { return scores(g, embedded(g, in), kChannels); },
               .ignores = true})
      .check();
}

// Tokens stand in for segments; the table of tokens also scores, so that two nodes add to it.
TEST(GraphGradient, OfEmbeddingsWithoutPositionsAndWithSegments) {
  for (const bool has_positions : {false, true})
    Differences({.forward = [=](Builder& g, const Inputs& in) {
      const auto table = [&](const char* name, std::int64_t rows) {
        return g.parameter(name, {rows, kChannels}, graph::normal(0.5f));
      };
      const ValueId tokens = table("tokens", kVocabulary);
      const ValueId positions = has_positions ? table("positions", kPositions) : graph::kNone;
      const ValueId x =
          g.embedding(in.tokens, tokens, positions, in.tokens, table("segments", kVocabulary));
      return g.linear(g.add(x, g.embedding(in.tokens, table("others", kVocabulary))), tokens);
    }}).check();
}

// Pixels (B, 8, 6, 3) to (B, 4, 3, 5) to (B, 4, 3, V): twelve predicted numbers a sample.
TEST(GraphGradient, OfConvolutions) {
  Differences({.forward =
                   [](Builder& g, const Inputs& in) {
                     const auto weight = [&](const char* name, auto... extents) {
                       return g.parameter(name, {extents...}, graph::normal(0.3f));
                     };
                     ValueId x = g.conv2d(in.values, weight("first", 5, 3, 3, 3), {2, 1});
                     x = g.add(x, g.conv2d(g.gelu(x), weight("second", 5, 3, 3, 5), {1, 1}));
                     return g.conv2d(x, weight("last", kVocabulary, 1, 1, 5), {1, 0});
                   },
               .targets = 12,
               .values = {8, 6, 3}})
      .check();
}

// What a residual network for pictures is made of: one predicted number a sample.
TEST(GraphGradient, OfBatchNormalisationAndPools) {
  Differences({.forward =
                   [](Builder& g, const Inputs& in) {
                     const ValueId first = g.parameter("first", {8, 3, 3, 2}, graph::normal(0.3f));
                     const ValueId weight = g.parameter("weight", {8}, graph::constant(1));
                     const ValueId bias = g.parameter("bias", {8}, graph::constant(0.5f));
                     ValueId x = g.batchnorm(g.conv2d(in.values, first, {1, 1}), weight, bias);
                     x = g.max_pool2d(g.tanh(x), 3, {2, 1});
                     return scores(g, g.mean_pool(x), 8);
                   },
               .targets = 1,
               .values = {6, 5, 2}})
      .check();
}

TEST(GraphGradient, OfGivenStatisticsIsRefusedByName) {
  graph::Builder g({.samples = 2, .positions = 1});
  const ValueId x = g.input("x", Dtype::f32, {4, 8});
  const auto vector = [&](const char* name) { return g.parameter(name, {8}, graph::constant(1)); };
  const ValueId mean = vector("mean"), variance = vector("variance");
  const ValueId y = g.batchnorm_inference(x, vector("weight"), vector("bias"), {mean, variance});
  g.predict(y, g.input("targets", Dtype::i32, {4}));
  auto graph = g.finish();
  ASSERT_TRUE(graph);
  const auto done = graph::differentiate(*graph);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message().find("batchnorm_inference"), std::string::npos);
}

// Rotary positions and their table, in training's graph and in those of a session.
TEST(GraphDecoder, TurnsByPositionsInItsCache) {
  const SmallModel model({.forward =
                              [](Builder& g, const Inputs& in) {
                                const auto weight = [&](const char* name, std::int64_t rows,
                                                        std::int64_t columns) {
                                  return g.parameter(name, {rows, columns}, graph::normal(0.5f));
                                };
                                const ValueId tokens = weight("tokens", kVocabulary, kChannels);
                                const ValueId x = g.embedding(in.tokens, tokens);
                                ValueId y = g.linear(x, weight("joined", 3 * kChannels, kChannels));
                                y = g.attention(g.rotary(y, 2, 2, 20), {.heads = 2});
                                return g.linear(g.predicting(g.add(x, y)), tokens);
                              },
                          .generates = true});
  auto backend = cpu::open_backend();
  auto program = model.program(*backend, 1);
  ASSERT_TRUE(program);
  std::vector<float> weights(model.parameter_count());
  model.initialise(3, weights);
  ASSERT_TRUE((*program)->load(weights));
  const std::uint8_t byte = 0;
  const Sample sample{4, std::span(&byte, 1)};
  std::vector<std::int32_t> tokens(kPositions), targets(kPositions);
  float value = 0;
  const InputPart parts[] = {{"tokens", Dtype::i32, tokens.data(), tokens.size()},
                             {"targets", Dtype::i32, targets.data(), targets.size()},
                             {"values", Dtype::f32, &value, 1}};
  ASSERT_TRUE(model.read(sample, parts));

  auto session = (*program)->session();
  ASSERT_TRUE(session) << session.error().message();
  std::vector<float> logits(kVocabulary), at_once(kVocabulary);
  double loss = 0;
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    ASSERT_TRUE((*session)->append(std::span(tokens).subspan(at, 1), logits));
    double total = 0;
    for (const float logit : logits) total += std::exp(double{logit});
    loss += std::log(total) - logits[static_cast<std::size_t>(targets[at])];
  }
  EXPECT_NEAR(loss, (*program)->evaluate(0, std::span(&sample, 1))->loss, 1e-4);
  (*session)->reset();
  ASSERT_TRUE((*session)->append(tokens, at_once));
  for (std::size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(at_once[i], logits[i], 1e-4);
}

}  // namespace
}  // namespace gpunode::model
