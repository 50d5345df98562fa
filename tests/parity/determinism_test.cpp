// A slice's gradient has the same bits whichever worker computes it, however many run at once,
// wherever its result lies in memory, whatever was computed before, and stage by stage.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/fingerprint.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::model {
namespace {

constexpr int kSlices = 8;

struct Slices {
  std::vector<std::vector<std::uint8_t>> texts;
  std::vector<std::vector<Sample>> samples;

  explicit Slices(const Model& model) : samples(kSlices) {
    for (std::uint64_t index = 0; index < kSlices * 3; ++index) {
      texts.emplace_back();
      for (std::size_t byte = 0; byte < model.sample_bytes(); ++byte)
        texts.back().push_back(static_cast<std::uint8_t>(mix(index, byte)));
    }
    for (std::uint64_t index = 0; index < kSlices * 3; ++index)
      samples[index / 3].push_back({index, texts[index]});
  }
};

// Gradient and loss of every slice, computed by `workers` threads.
std::vector<std::vector<float>> gradients(const Model& model, int workers, std::size_t shift) {
  auto backend = cpu::open_backend();
  auto program = model.program(*backend, workers);
  std::vector<float> weights(model.parameter_count());
  model.initialise(1, weights);
  EXPECT_TRUE((*program)->load(weights));
  const Slices slices(model);
  std::vector<std::vector<float>> results(kSlices);
  std::vector<std::thread> threads;
  for (int worker = 0; worker < workers; ++worker)
    threads.emplace_back([&, worker] {
      for (int slice = worker; slice < kSlices; slice += workers) {
        auto& result = results[static_cast<std::size_t>(slice)];
        result.assign(model.parameter_count() + 16, -1.0f);
        auto loss = (*program)->gradient(worker, slices.samples[static_cast<std::size_t>(slice)],
                                         std::span(result).subspan(shift, model.parameter_count()));
        EXPECT_TRUE(loss);
        result.erase(result.begin(), result.begin() + static_cast<std::ptrdiff_t>(shift));
        result.resize(model.parameter_count());
        result.push_back(loss->loss);
      }
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

void expect_equal(const std::vector<std::vector<float>>& left,
                  const std::vector<std::vector<float>>& right) {
  for (int slice = 0; slice < kSlices; ++slice) {
    const auto& a = left[static_cast<std::size_t>(slice)];
    const auto& b = right[static_cast<std::size_t>(slice)];
    ASSERT_EQ(a.size(), b.size());
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << "slice " << slice;
  }
}

TEST(Determinism, GradientsDoNotDependOnWorkersOrSlots) {
  auto model = make_model("gpt", {{"layers", "2"}});
  ASSERT_TRUE(model);
  const auto alone = gradients(**model, 1, 0);
  expect_equal(alone, gradients(**model, 3, 0));
  expect_equal(alone, gradients(**model, 2, 7));
}

// Stage by stage, all slices held at once, each stage on another worker than the one before.
TEST(Determinism, StagesGiveTheBitsOfTheWholeGradient) {
  auto model = make_model("gpt", {{"layers", "3"}});
  ASSERT_TRUE(model);
  const auto whole = gradients(**model, 1, 0);
  auto backend = cpu::open_backend();
  auto program = (*model)->program(*backend, 2);
  std::vector<float> weights((*model)->parameter_count());
  ASSERT_TRUE((*program)->load(weights));  // zeros: each stage's come before it is run
  (*model)->initialise(1, weights);
  (*program)->make_slots(kSlices + 1);
  const Slices slices(**model);
  std::vector<std::vector<float>> staged(kSlices);
  for (std::size_t slice = 0; slice < kSlices; ++slice) {
    staged[slice].assign(weights.size() + 1, -1.0f);
  }
  const auto forward_stages = (*model)->forward_stages();
  std::size_t begin = 0;
  for (std::size_t stage = 0; stage < forward_stages.size(); ++stage) {
    EXPECT_EQ(forward_stages[stage].first, begin) << "forward reads from the beginning on";
    begin += forward_stages[stage].count;
    ASSERT_TRUE((*program)->load_part(weights, forward_stages[stage]));
    for (std::size_t slice = 0; slice < kSlices; ++slice) {
      auto loss = (*program)->forward((slice + stage) % 2, slice + 1, stage, slices.samples[slice]);
      ASSERT_TRUE(loss);
      staged[slice].back() = loss->loss;
    }
  }
  EXPECT_EQ(begin, weights.size());
  const auto stages = (*model)->stages();
  std::size_t end = weights.size();
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    EXPECT_EQ(stages[stage].first + stages[stage].count, end) << "final from the end on";
    end = stages[stage].first;
    for (std::size_t slice = 0; slice < kSlices; ++slice) {
      const auto part = std::span(staged[slice]).subspan(end, stages[stage].count);
      ASSERT_TRUE((*program)->backward((slice + stage) % 2, slice + 1, stage, part));
    }
  }
  EXPECT_EQ(end, 0u);
  expect_equal(whole, staged);
}

TEST(Determinism, StagesOfASliceWithoutSamplesAreZeros) {
  auto model = make_model("gpt", {{"layers", "1"}});
  auto backend = cpu::open_backend();
  auto program = (*model)->program(*backend, 1);
  std::vector<float> weights((*model)->parameter_count());
  ASSERT_TRUE((*program)->load(weights));
  const Slices slices(**model);
  const std::size_t last = (*model)->forward_stages().size() - 1;
  for (std::size_t stage = 0; stage <= last; ++stage)
    ASSERT_TRUE((*program)->forward(0, 0, stage, slices.samples[0]));
  for (std::size_t stage = 0; stage <= last; ++stage)
    EXPECT_EQ((*program)->forward(0, 0, stage, {})->weight, 0.0f);
  for (std::size_t stage = 0; stage < (*model)->stages().size(); ++stage) {
    std::vector<float> part((*model)->stages()[stage].count, 1.0f);
    ASSERT_TRUE((*program)->backward(0, 0, stage, part));
    EXPECT_EQ(std::count(part.begin(), part.end(), 0.0f), static_cast<std::ptrdiff_t>(part.size()));
  }
}

TEST(Determinism, GradientsDependOnTheSamples) {
  auto model = make_model("gpt", {{"layers", "1"}});
  const auto all = gradients(**model, 1, 0);
  EXPECT_NE(std::memcmp(all[0].data(), all[1].data(), all[0].size() * sizeof(float)), 0);
}

Result<Fingerprint> fingerprint(const Model& model, ops::Backend& backend, std::size_t count) {
  const std::vector<std::uint8_t> text(model.sample_bytes(), 'a');
  const std::vector<Sample> samples(count, Sample{0, text});
  return compute_fingerprint(model, backend, samples);
}

TEST(Determinism, TheFingerprintIsAFunctionOfModelAndShape) {
  auto backend = cpu::open_backend();
  auto model = make_model("gpt", {{"layers", "1"}});
  auto wider = make_model("gpt", {{"layers", "1"}, {"channels", "64"}});
  auto first = fingerprint(**model, *backend, 3);
  auto again = fingerprint(**model, *backend, 3);
  auto other = fingerprint(**model, *backend, 2);
  auto shape = fingerprint(**wider, *backend, 3);
  ASSERT_TRUE(first && again && other && shape);
  EXPECT_EQ(first->digest, again->digest);
  EXPECT_NE(first->digest, other->digest);
  EXPECT_NE(first->digest, shape->digest);
  EXPECT_NE(first->text.find("oneDNN"), std::string::npos) << first->text;
}

}  // namespace
}  // namespace gpunode::model
