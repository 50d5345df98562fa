// A trainer's course through a few steps: what a member of a job sees of it. Devices differ in where
// they keep things and when they do them, never in this.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "actors/compute/trainer.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/base/block_digest.hpp"
#include "runtime/dataset/table_dataset.hpp"
#include "runtime/dataset/text_dataset.hpp"
#include "tests/parity/letters_source.hpp"
#include "tests/parity/rows_source.hpp"

namespace gpunode::compute {

using collective::SharedFloats;
using collective::TreeNode;

struct Course {
  std::vector<Digest> states;
  std::vector<double> losses;
  std::vector<std::vector<float>> sums;
  double held_out = 0;
  bool operator==(const Course&) const = default;
};

// Of a tiny model over letters. What fails, fails the test.
class CourseTest : public testing::TestWithParam<std::string> {
 protected:
  static constexpr std::uint64_t kSteps = 3;
  using Devices = std::vector<NodeDevice*>;

  explicit CourseTest(const std::string& kind, std::uint32_t slices) {
    spec_.train.batch = slices + 2;
    spec_.train.slices = slices;
    spec_.train.steps = kSteps;
    spec_.train.warmup_steps = 1;
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

  std::unique_ptr<Trainer> trainer(const Devices& devices, int workers) {
    auto made =
        Trainer::create({.model = model_,
                         .devices = devices,
                         .spec = spec_,
                         .reader = ingest::SliceReader(
                             data_, {spec_.train.seed, spec_.train.batch, spec_.train.slices}),
                         .clock = &clock_,
                         .workers = workers,
                         .evaluated_tokens = 64});
    EXPECT_TRUE(made) << made.error().message();
    return made ? std::move(*made) : nullptr;
  }

  // The sums of these nodes, as they are told, each range as soon as it is.
  void compute(Trainer& trainer, const std::vector<TreeNode>& nodes, Course& course,
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
      if (on_told_) on_told_(trainer, range);
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
    compute(trainer, nodes_, course, *total);
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
    NodeDevice device("device", backend);
    return run(Devices{&device}, workers, speculates);
  }
  Course run(const Devices& devices, int workers, bool speculates) {
    Course course;
    auto first = trainer(devices, workers);
    if (!first) return course;
    step(*first, speculates, course);
    // A learner takes the state over, and goes on.
    const auto state = first->state_bytes();
    EXPECT_TRUE(state);
    EXPECT_EQ(block_digest_of(state->view), *first->state_digest());
    auto learner = trainer(devices, workers);
    EXPECT_TRUE(learner->install(1, state->view));
    while (learner->step() < kSteps && !testing::Test::HasFatalFailure())
      step(*learner, speculates, course);
    const auto held_out = learner->evaluate();
    EXPECT_TRUE(held_out) << held_out.error().message();
    if (held_out) course.held_out = held_out->loss;
    return course;
  }

  std::vector<TreeNode> nodes_;  // what is asked of the trainer: all slices
  // Called in mid-step, from any thread, with what was told so far of a step.
  std::function<void(Trainer& trainer, const SumRange& range)> on_told_;
  job::JobSpec spec_;
  SystemClock clock_;
  std::shared_ptr<const model::Model> model_;
  std::shared_ptr<const dataset::Dataset> data_;
};

}  // namespace gpunode::compute
