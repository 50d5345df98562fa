// Stages that are noted once and replayed: the same operations with the same bits as when each is
// queued by itself, and once each place of a sum was met twice nothing is noted anew. In bf16 too,
// where weights are packed once a step.
#include <gtest/gtest.h>

#include "tests/parity/hostile/course_test.hpp"
#include "tests/parity/hostile/hostile_backend.hpp"

namespace gpunode::compute {
namespace {

struct Kind {
  const char* name;
  const char* model;
  Precision precision = Precision::fp32;
};

struct Step {
  Digest state;
  hostile::Report before_update, after;
};

// A trainer on a device of its own.
class Training {
 public:
  Training(const Kind& kind, bool notes_work, int workers)
      : course_(kind.model, 4, "exact", kind.precision),
        device_(std::move(*hostile::open_backend({.notes_work = notes_work}))),
        of_the_node_("device", *device_),
        trainer_(std::move(*course_.open_trainer({&of_the_node_}, workers))) {}

  // Stages go to whichever worker is free: they order themselves, so the bits do not depend on it.
  std::vector<Step> steps(std::uint64_t count) {
    std::vector<Step> steps;
    for (std::uint64_t step = 0; step < count; ++step) {
      std::vector<float> total(trainer_->element_count());
      std::vector<std::vector<float>> sums;
      EXPECT_TRUE(course_.compute(*trainer_, {&of_the_node_}, total, sums));
      const hostile::Report before = device_->report();
      const auto report =
          trainer_->apply(trainer_->step() + 1, collective::SharedFloats::from(total));
      EXPECT_TRUE(report) << report.error().message();
      if (report) steps.push_back({report->state, before, device_->report()});
    }
    EXPECT_EQ(device_->report().first_error, "");
    return steps;
  }
  Trainer& trainer() { return *trainer_; }

 private:
  TrainingCourse course_;
  std::unique_ptr<hostile::HostileBackend> device_;
  NodeDevice of_the_node_;
  std::unique_ptr<Trainer> trainer_;
};

std::vector<Step> steps_of(const Kind& kind, bool notes_work, int workers) {
  return Training(kind, notes_work, workers).steps(5);
}

class HostileReplay : public ::testing::TestWithParam<Kind> {};

TEST_P(HostileReplay, does_the_same_operations_with_the_same_bits) {
  const auto plain = steps_of(GetParam(), false, 1), noted = steps_of(GetParam(), true, 1);
  ASSERT_EQ(plain.size(), noted.size());
  for (std::size_t at = 0; at < plain.size(); ++at) {
    EXPECT_EQ(noted[at].state, plain[at].state) << "step " << at + 1;
    EXPECT_EQ(noted[at].after.operations, plain[at].after.operations) << "step " << at + 1;
    EXPECT_EQ(noted[at].after.copies, plain[at].after.copies) << "step " << at + 1;
    EXPECT_EQ(plain[at].after.replayed, 0u);
  }
  EXPECT_EQ(noted[0].after.noted, 0u) << "what is met for the first time runs as ever";
  EXPECT_GT(noted[1].after.noted, 0u);
  EXPECT_GT(noted[2].after.replayed, noted[1].after.replayed);
  EXPECT_EQ(noted[4].after.noted, noted[3].after.noted) << "captured once";
  EXPECT_EQ(noted[4].after.replayed - noted[3].after.replayed,
            noted[3].after.replayed - noted[2].after.replayed);
}

TEST_P(HostileReplay, has_the_same_bits_whichever_worker_runs_a_stage) {
  const auto plain = steps_of(GetParam(), false, 1), noted = steps_of(GetParam(), true, 3);
  for (std::size_t at = 0; at < plain.size(); ++at)
    EXPECT_EQ(noted[at].state, plain[at].state) << "step " << at + 1;
}

// Weights change in each step; a state that is put in place of another changes them all.
TEST_P(HostileReplay, goes_on_with_the_weights_of_a_replaced_state) {
  Training run(GetParam(), true, 1);
  const auto first = run.steps(2);
  const auto kept = run.trainer().state_bytes();
  ASSERT_TRUE(kept);
  const auto on = run.steps(2);
  ASSERT_TRUE(run.trainer().install(2, kept->view));
  const auto again = run.steps(2);
  for (std::size_t at = 0; at < on.size(); ++at) {
    EXPECT_EQ(again[at].state, on[at].state) << "step " << at + 3;
    EXPECT_NE(again[at].state, first[at].state);
  }
  EXPECT_EQ(again[1].after.noted, again[0].after.noted);
  EXPECT_GT(again[0].after.replayed, on[1].after.replayed);
}

// Squares, AdamW, digests of all blocks of the state; and what buffers follow.
TEST(HostileUpdate, takes_as_many_operations_for_any_number_of_parameters) {
  for (const auto& [model, operations] : {std::pair{"gpt", 3u}, {"small-gpt", 3u}, {"resnet", 4u}})
    for (const Step& step : steps_of({model, model}, true, 2))
      EXPECT_EQ(step.after.operations - step.before_update.operations, operations) << model;
}

INSTANTIATE_TEST_SUITE_P(Models, HostileReplay,
                         ::testing::Values(Kind{"gpt", "gpt"}, Kind{"llama", "llama"},
                                           Kind{"resnet", "resnet"},
                                           Kind{"gpt_in_bf16", "gpt", Precision::bf16},
                                           Kind{"llama_in_bf16", "llama", Precision::bf16}),
                         [](const auto& given) { return given.param.name; });

}  // namespace
}  // namespace gpunode::compute
