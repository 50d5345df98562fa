// The optimizer on the CPU: schedule, clipping, skipped steps, and bits that do not depend on
// threads; and how many calls of a device's operations it takes.
#include "kernels/model/optimizer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::model {
namespace {

const std::vector<ParameterSpec> kParameters = {
    {"weight", {300, 350}, true}, {"bias", {77}, false}, {"other", {64, 64}, true}};
constexpr std::size_t kCount = 300 * 350 + 77 + 64 * 64;
constexpr double kSamples = 3;

std::vector<float> some_gradient(std::uint64_t seed, double size) {
  Rng rng(seed);
  std::vector<float> gradient(kCount);
  for (float& value : gradient) value = static_cast<float>((2 * rng.uniform() - 1) * size);
  return gradient;
}

struct Trained {
  std::unique_ptr<ops::Backend> backend = cpu::open_backend();
  AdamwOptions options;
  std::vector<float> weights = std::vector<float>(kCount, 0.5f), first = std::vector<float>(kCount),
                     second = std::vector<float>(kCount);
  tensor::BufferPool pool{backend->memory(), 1 << 20};
  ops::Lane lane = *ops::Lane::open(*backend, pool);
  bool backwards = false;  // the order of the blocks

  StepOutcome apply(std::uint64_t step, const std::vector<float>& gradient, std::uint64_t tokens) {
    Adamw optimizer(kParameters, options, *backend);
    const ops::Spread spread = [this](std::size_t count,
                                      const ops::LaneTask& task) -> Result<void> {
      for (std::size_t index = 0; index < count; ++index)
        if (auto done = task(lane, backwards ? count - 1 - index : index); !done) return done;
      return {};
    };
    return *optimizer.apply(step, gradient, {static_cast<double>(tokens), kSamples},
                            {weights, first, second}, spread);
  }
};

TEST(LearningRate, WarmsUpThenFallsAsACosine) {
  const AdamwOptions options;  // 1e-3 to 1e-4, warm-up 100 of 2000
  EXPECT_DOUBLE_EQ(learning_rate(options, 1), 1e-5);
  EXPECT_DOUBLE_EQ(learning_rate(options, 50), 5e-4);
  EXPECT_DOUBLE_EQ(learning_rate(options, 100), 1e-3);
  EXPECT_NEAR(learning_rate(options, 1050), (1e-3 + 1e-4) / 2, 1e-15);
  EXPECT_DOUBLE_EQ(learning_rate(options, 2000), 1e-4);
  EXPECT_DOUBLE_EQ(learning_rate(options, 5000), 1e-4);
}

TEST(Adamw, ClipsTheMeanGradientByItsGlobalNorm) {
  Trained one, other;
  const auto gradient = some_gradient(1, 100);
  std::vector<float> larger;
  for (float value : gradient) larger.push_back(value * 8);
  one.options.epsilon = other.options.epsilon = 1e-2;  // so that the gradient's size matters
  const auto small = one.apply(1, gradient, 10);
  const auto large = other.apply(1, larger, 10);
  double square = 0;
  for (float value : gradient) square += double{value} * value;
  EXPECT_NEAR(small.gradient_norm, std::sqrt(square) / 10, 1e-9 * small.gradient_norm);
  EXPECT_DOUBLE_EQ(large.gradient_norm, 8 * small.gradient_norm);
  for (std::size_t i = 0; i < kCount; i += 97) EXPECT_FLOAT_EQ(one.weights[i], other.weights[i]);
}

TEST(Adamw, DecaysMatricesOnly) {
  Trained trained;
  trained.apply(100, std::vector<float>(kCount, 0.0f), 1);
  EXPECT_FLOAT_EQ(trained.weights[0], 0.5f - 1e-3f * 0.1f * 0.5f);
  EXPECT_EQ(trained.weights[300 * 350], 0.5f);
  EXPECT_FLOAT_EQ(trained.weights[300 * 350 + 77], 0.5f - 1e-3f * 0.1f * 0.5f);
}

TEST(Adamw, DividesByTheWeightOfTheLossAndBuffersByTheSamples) {
  const auto backend = cpu::open_backend();
  const std::vector<ParameterSpec> parameters = {
      {"weight", {2}},
      {"mean", {2}, false, ParameterKind::buffer, 0.25f},
      {"variance", {1}, false, ParameterKind::buffer, 1.0f}};
  Adamw optimizer(parameters, {.clip = 1}, *backend);
  tensor::BufferPool pool(backend->memory(), 1 << 20);
  auto lane = *ops::Lane::open(*backend, pool);
  std::vector<float> weights = {1, 2, 3, 4, 5}, first(5), second(5);
  const auto apply = [&](const std::vector<float>& sum, SumOf of) {
    return *optimizer.apply(1, sum, of, {weights, first, second}, ops::serial(lane));
  };
  const StepOutcome outcome = apply({3, 4, 80, 8, 1e6f}, {.weight = 10, .samples = 8});
  EXPECT_DOUBLE_EQ(outcome.gradient_norm, 0.5) << "buffers are no part of it";
  EXPECT_DOUBLE_EQ(outcome.scale, 0.1) << "and do not make it clip";
  EXPECT_LT(weights[0], 1);
  EXPECT_FLOAT_EQ(weights[2], 3 + 0.25f * (10 - 3));
  EXPECT_FLOAT_EQ(weights[3], 4 + 0.25f * (1 - 4));
  EXPECT_FLOAT_EQ(weights[4], 1e6f / 8);
  EXPECT_NE(first[0], 0);
  for (std::size_t at = 2; at < 5; ++at) EXPECT_TRUE(first[at] == 0 && second[at] == 0);

  const auto standing = weights;
  EXPECT_TRUE(apply({3, 4, 80, std::numeric_limits<float>::infinity(), 1}, {10, 8}).skipped);
  EXPECT_TRUE(apply({0, 0, 0, 0, 0}, {.weight = 0, .samples = 8}).skipped) << "nothing predicted";
  EXPECT_EQ(weights, standing);
}

TEST(Adamw, SkipsAStepWhoseSumIsNotFinite) {
  for (float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Trained trained;
    auto gradient = some_gradient(1, 1);
    trained.apply(1, gradient, 10);
    const auto weights = trained.weights, first = trained.first;
    gradient[kCount - 1] = bad;
    EXPECT_TRUE(trained.apply(2, gradient, 10).skipped);
    EXPECT_EQ(trained.weights, weights);
    EXPECT_EQ(trained.first, first);
  }
}

TEST(Adamw, HasTheSameBitsInWhateverOrderBlocksAreDone) {
  Trained in_order, backwards;
  backwards.backwards = true;
  for (std::uint64_t step = 1; step <= 3; ++step) {
    const auto gradient = some_gradient(step, 10);
    in_order.apply(step, gradient, 100);
    backwards.apply(step, gradient, 100);
  }
  EXPECT_EQ(std::memcmp(in_order.weights.data(), backwards.weights.data(), kCount * sizeof(float)),
            0);
  EXPECT_NE(in_order.weights[0], 0.5f);
}

TEST(Adamw, GoesOnFromRestoredState) {
  Trained whole, parted, after;
  whole.apply(1, some_gradient(1, 10), 100);
  parted.apply(1, some_gradient(1, 10), 100);
  after.weights = parted.weights;
  after.first = parted.first;
  after.second = parted.second;
  whole.apply(2, some_gradient(2, 10), 100);
  after.apply(2, some_gradient(2, 10), 100);
  EXPECT_EQ(whole.weights, after.weights);
}

// A device of memory of its own, whose operations count their calls and do nothing.
struct Counted {
  static inline std::size_t adamw = 0, square_sum = 0, follow = 0, rows = 0;
};
class CountingBackend final : public ops::Backend {
 public:
  CountingBackend() {
    Counted::adamw = Counted::square_sum = Counted::follow = Counted::rows = 0;
    capabilities_.host_accessible = false;
    operations_.adamw = [](tensor::Stream&, tensor::Workspace&, const ops::AdamwArgs& args) {
      return ++Counted::adamw, count_rows(args.blocks, args.weights);
    };
    operations_.follow = [](tensor::Stream&, tensor::Workspace&, const ops::FollowArgs& args) {
      return ++Counted::follow, count_rows(args.blocks, args.values);
    };
    operations_.square_sum = [](tensor::Stream&, tensor::Workspace&,
                                const ops::SquareSumArgs& args) -> Result<void> {
      ++Counted::square_sum;
      std::fill_n(args.sum, args.blocks.count, 1.0);
      return count_rows(args.blocks, args.x);
    };
  }
  const tensor::Device& device() const override { return host_->device(); }
  const ops::Capabilities& capabilities() const override { return capabilities_; }
  const ops::Operations& operations() const override { return operations_; }
  std::shared_ptr<tensor::Memory> memory() const override { return host_->memory(); }
  Result<std::unique_ptr<tensor::Stream>> open_stream() override { return host_->open_stream(); }
  Result<void> upload(tensor::Stream& stream, ByteView from, void* to) override {
    return host_->upload(stream, from, to);
  }
  Result<void> download(tensor::Stream& stream, const void* from, MutableByteView to) override {
    return host_->download(stream, from, to);
  }
  Result<void> copy(tensor::Stream& stream, const void* from, void* to,
                    std::size_t bytes) override {
    return host_->copy(stream, from, to, bytes);
  }
  Result<void> clear(tensor::Stream& stream, void* to, std::size_t bytes) override {
    return host_->clear(stream, to, bytes);
  }
  Result<std::unique_ptr<tensor::Event>> record(tensor::Stream& stream) override {
    return host_->record(stream);
  }
  Result<void> wait(tensor::Stream& stream, const tensor::Event& event,
                    tensor::WaitSite site) override {
    return host_->wait(stream, event, site);
  }

 private:
  template <class View>
  static Result<void> count_rows(const ops::BlockTable& blocks, const View& view) {
    std::int64_t elements = 0;
    for (std::int64_t at = 0; at < blocks.count; ++at) elements += blocks.rows[at].count;
    EXPECT_EQ(elements, view.element_count());
    Counted::rows += static_cast<std::size_t>(blocks.count);
    return {};
  }
  std::unique_ptr<ops::Backend> host_ = cpu::open_backend();
  ops::Capabilities capabilities_ = host_->capabilities();
  ops::Operations operations_;
};

struct Shape {
  const char* kind;
  Settings settings;
  std::size_t blocks, followed;  // of parameters; calls of follow() a step
};
class AdamwOnADevice : public ::testing::TestWithParam<Shape> {};

// Each is a launch. The numbers themselves are not there: nothing reads them.
TEST_P(AdamwOnADevice, takes_the_same_few_calls_for_any_model) {
  const auto made = make_model(GetParam().kind, GetParam().settings);
  ASSERT_TRUE(made) << made.error().message();
  CountingBackend backend;
  Adamw optimizer((*made)->parameters(), {}, backend);
  EXPECT_EQ(optimizer.block_count(), GetParam().blocks);
  tensor::BufferPool pool(backend.memory(), 1 << 22);
  auto lane = *ops::Lane::open(backend, pool);
  const std::size_t count = optimizer.element_count();
  float nothing = 0;
  const std::span<float> all(&nothing, count);
  for (std::uint64_t step = 1; step <= 2; ++step)
    ASSERT_TRUE(optimizer.apply(step, all, {8, 8}, {all, all, all}, ops::serial(lane)));
  EXPECT_EQ(Counted::square_sum, 2u);
  EXPECT_EQ(Counted::adamw, 2u);
  EXPECT_EQ(Counted::follow, 2 * GetParam().followed);
  EXPECT_EQ(Counted::rows, 2 * (2 + GetParam().followed) * GetParam().blocks);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AdamwOnADevice,
    ::testing::Values(Shape{"gpt",
                            {{"layers", "12"},
                             {"channels", "768"},
                             {"heads", "12"},
                             {"context", "1024"},
                             {"vocabulary", "50257"}},
                            3892,
                            0},
                      Shape{"resnet", {{"height", "3"}, {"width", "4"}, {"filters", "4"}}, 32, 1}),
    [](const auto& given) { return given.param.kind; });

}  // namespace
}  // namespace gpunode::model
