// The whole of training and serving on the hostile device: what a trainer tells, applies, proves,
// stores and reads back has the CPU's bits, and nothing of it touches the device's memory, or reads
// what is not yet there.
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "actors/compute/trainer.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/base/block_digest.hpp"
#include "runtime/dataset/table_dataset.hpp"
#include "runtime/dataset/text_dataset.hpp"
#include "tests/parity/hostile/hostile_backend.hpp"
#include "tests/parity/letters_source.hpp"
#include "tests/parity/rows_source.hpp"

namespace gpunode::compute {
namespace {

using collective::SharedFloats;
using collective::TreeNode;

constexpr std::uint32_t kSlices = 4;
constexpr std::uint64_t kSteps = 3;

// What a member of a job sees of its trainer.
struct Course {
  std::vector<Digest> states;
  std::vector<double> losses;
  std::vector<std::vector<float>> sums;
  double held_out = 0;
  bool operator==(const Course&) const = default;
};

class HostileTrainer : public testing::TestWithParam<std::string> {
 protected:
  HostileTrainer() {
    spec_.train.batch = 6;
    spec_.train.slices = kSlices;
    spec_.train.steps = kSteps;
    spec_.train.warmup_steps = 1;
    const std::string kind = GetParam();
    model::Settings settings = {
        {"layers", "2"}, {"channels", "16"}, {"heads", "2"}, {"context", "8"}};
    if (kind == "llama") settings["kv_heads"] = "1";
    if (kind == "resnet") settings = {{"height", "3"}, {"width", "4"}, {"filters", "4"}};
    model_ = std::move(*model::make_model(kind, settings));
    if (kind == "resnet")
      data_ = *dataset::TableDataset::create(rows_source(12, 10), 0.2);
    else
      data_ = *dataset::TextDataset::create(letters_source(),
                                            {.context = 8, .validation_fraction = 0.2});
  }

  std::unique_ptr<Trainer> trainer(ops::Backend& backend, int workers) {
    auto made = Trainer::create(
        {.model = model_,
         .backend = &backend,
         .spec = spec_,
         .reader = ingest::SliceReader(data_, {spec_.train.seed, spec_.train.batch, kSlices}),
         .clock = &clock_,
         .workers = workers,
         .evaluated_tokens = 64});
    EXPECT_TRUE(made) << made.error().message();
    return made ? std::move(*made) : nullptr;
  }

  // The sums of these nodes, as they are told, each range as soon as it is.
  static void compute(Trainer& trainer, const std::vector<TreeNode>& nodes, Course& course,
                      std::vector<float>& total) {
    trainer.want(trainer.step() + 1, nodes);
    std::map<TreeNode, std::vector<float>> told;
    std::mutex mutex;
    const auto tell = [&](const SumRange& range) {
      std::lock_guard lock(mutex);
      std::vector<float>& sum = told[range.node];
      sum.resize(trainer.element_count());
      std::copy_n(range.sum->begin() + static_cast<std::ptrdiff_t>(range.first), range.count,
                  sum.begin() + static_cast<std::ptrdiff_t>(range.first));
    };
    do {
      const auto done = trainer.compute_some(tell);
      ASSERT_TRUE(done) << done.error().message();
    } while (!trainer.idle());
    for (auto& [node, sum] : told) {
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += sum[i];
      course.sums.push_back(std::move(sum));
    }
  }

  void step(Trainer& trainer, bool speculates, Course& course) {
    auto total = std::make_shared<std::vector<float>>(trainer.element_count());
    compute(trainer, {{1, 0}, {0, 2}, {0, 3}}, course, *total);
    for (std::size_t first = 0; speculates && first < total->size(); first += 1000) {
      const std::size_t count = std::min<std::size_t>(1000, total->size() - first);
      const auto done = trainer.update_speculatively(trainer.step() + 1, total, first, count);
      ASSERT_TRUE(done) << done.error().message();
    }
    const auto report = trainer.apply(trainer.step() + 1, *total);
    ASSERT_TRUE(report) << report.error().message();
    course.states.push_back(report->state);
    course.losses.push_back(report->loss);
  }

  Course run(ops::Backend& backend, int workers, bool speculates) {
    Course course;
    auto first = trainer(backend, workers);
    if (!first) return course;
    step(*first, speculates, course);
    // A learner takes the state over, and goes on.
    const auto state = first->state_bytes();
    EXPECT_TRUE(state);
    EXPECT_EQ(block_digest_of(state->view), *first->state_digest());
    auto learner = trainer(backend, workers);
    EXPECT_TRUE(learner->install(1, state->view));
    while (learner->step() < kSteps && !testing::Test::HasFatalFailure())
      step(*learner, speculates, course);
    const auto held_out = learner->evaluate();
    EXPECT_TRUE(held_out) << held_out.error().message();
    if (held_out) course.held_out = held_out->loss;
    return course;
  }

  job::JobSpec spec_;
  SystemClock clock_;
  std::shared_ptr<const model::Model> model_;
  std::shared_ptr<const dataset::Dataset> data_;
};

TEST_P(HostileTrainer, takes_the_cpus_course_with_every_seed) {
  const auto host = cpu::open_backend();
  const Course wanted = run(*host, 1, false);
  ASSERT_EQ(wanted.states.size(), kSteps);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto device = hostile::open_backend({.seed = seed});
    ASSERT_TRUE(device);
    const int workers = 1 + static_cast<int>(seed % 3);
    const bool speculates = seed % 2 == 0;
    EXPECT_EQ(run(**device, workers, speculates), wanted) << "seed " << seed;
    EXPECT_EQ((*device)->report().first_error, "") << "seed " << seed;
  }
}

TEST_P(HostileTrainer, has_the_cpus_fingerprint_but_for_the_devices_name) {
  const auto host = cpu::open_backend();
  const auto device = hostile::open_backend();
  ASSERT_TRUE(device);
  const auto wanted = fingerprint_of(spec_.train, *model_, *host, *data_);
  const auto found = fingerprint_of(spec_.train, *model_, **device, *data_);
  ASSERT_TRUE(wanted);
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(found->digest, wanted->digest);
  EXPECT_EQ((*device)->report().first_error, "");
}

INSTANTIATE_TEST_SUITE_P(Models, HostileTrainer, testing::Values("gpt", "llama", "resnet"),
                         [](const auto& given) { return given.param; });

}  // namespace
}  // namespace gpunode::compute
