// Training in bf16: other bits than fp32's, the same ones with any number of threads, and nearly the
// same loss.
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "actors/compute/trainer.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/dataset/text_dataset.hpp"

namespace gpunode::compute {
namespace {

// Sentences of which most can be learned.
std::shared_ptr<dataset::TextSource> sentences() {
  std::string text;
  for (std::uint64_t i = 0; i < 2000; ++i)
    text += std::to_string(i) + ": the " + std::to_string(i * i % 977) + " foxes jump over dogs\n";
  const ByteView bytes = as_bytes(text);
  return std::make_shared<dataset::TextSource>(
      dataset::TextSource::from_memory({{"a", Bytes(bytes.begin(), bytes.end())}}));
}

struct Outcome {
  Digest state;
  double held_out = 0;
};

class PrecisionTest : public ::testing::TestWithParam<std::string> {
 protected:
  PrecisionTest() {
    spec_.train.batch = 12;
    spec_.train.slices = 4;
    spec_.train.steps = 150;
    spec_.train.warmup_steps = 10;
    spec_.train.learning_rate = 3e-3;
  }

  Outcome train(Precision precision, int threads, std::uint64_t steps) {
    model::Settings settings = {
        {"layers", "2"}, {"channels", "32"}, {"heads", "2"}, {"context", "16"}};
    std::shared_ptr<model::Model> model = std::move(*model::make_model(GetParam(), settings));
    EXPECT_TRUE(model->use_precision(precision));
    auto data = dataset::TextDataset::create(source_, {.context = 16, .validation_fraction = 0.1});
    auto made =
        Trainer::create({.model = model,
                         .devices = {&device_},
                         .spec = spec_,
                         .reader = ingest::SliceReader(
                             *data, {spec_.train.seed, spec_.train.batch, spec_.train.slices}),
                         .clock = &clock_,
                         .workers = threads});
    EXPECT_TRUE(made) << made.error().message();
    Trainer& trainer = **made;
    while (trainer.step() < steps) step(trainer);
    Outcome out{*trainer.state_digest()};
    if (const auto held_out = trainer.evaluate()) out.held_out = held_out->loss;
    return out;
  }

  static void step(Trainer& trainer) {
    std::vector<float> total(trainer.element_count());
    std::mutex mutex;
    trainer.want(trainer.step() + 1, {trainer.tree().root()});
    do {
      ASSERT_TRUE(trainer.compute_some([&](const SumRange& range) {
        std::lock_guard lock(mutex);
        std::copy_n((*range.sum).begin() + static_cast<std::ptrdiff_t>(range.first), range.count,
                    total.begin() + static_cast<std::ptrdiff_t>(range.first));
      }));
    } while (!trainer.idle());
    ASSERT_TRUE(trainer.apply(trainer.step() + 1, collective::SharedFloats::from(total)));
  }

  std::unique_ptr<ops::Backend> backend_ = cpu::open_backend();
  NodeDevice device_{"cpu", *backend_};
  SystemClock clock_;
  std::shared_ptr<dataset::TextSource> source_ = sentences();
  job::JobSpec spec_;
};

TEST_P(PrecisionTest, threads_do_not_show_in_the_bits_of_bf16) {
  const Outcome one = train(Precision::bf16, 1, 3);
  EXPECT_EQ(train(Precision::bf16, 3, 3).state, one.state);
  EXPECT_NE(train(Precision::fp32, 1, 3).state, one.state) << "nothing is rounded";
}

TEST_P(PrecisionTest, bf16_learns_as_fp32_does) {
  const double wanted = train(Precision::fp32, 2, spec_.train.steps).held_out;
  EXPECT_LT(wanted, 1.5) << "it learns at all";
  EXPECT_NEAR(train(Precision::bf16, 2, spec_.train.steps).held_out, wanted, 0.02 * wanted);
}

INSTANTIATE_TEST_SUITE_P(Kinds, PrecisionTest, ::testing::Values("gpt", "llama"),
                         [](const auto& given) { return given.param; });

}  // namespace
}  // namespace gpunode::compute
