// Stages that are noted once and replayed: the same operations with the same bits as when each is
// queued by itself, and once each place of a sum was met twice nothing is noted
// anew.
#include <gtest/gtest.h>

#include "tests/parity/hostile/course_test.hpp"
#include "tests/parity/hostile/hostile_backend.hpp"

namespace gpunode::compute {
namespace {

struct Step {
  Digest state;
  hostile::Report after;
};

// Stages go to whichever worker is free: they order themselves, so the bits do not depend on it.
std::vector<Step> steps_of(const std::string& kind, bool notes_work, int workers) {
  TrainingCourse course(kind, 4);
  const auto device = std::move(*hostile::open_backend({.notes_work = notes_work}));
  NodeDevice of_the_node("device", *device);
  const TrainingCourse::Devices devices = {&of_the_node};
  auto trainer = course.open_trainer(devices, workers);
  EXPECT_TRUE(trainer);
  std::vector<Step> steps;
  for (std::uint64_t step = 1; step <= 5; ++step) {
    std::vector<float> total((*trainer)->element_count());
    std::vector<std::vector<float>> sums;
    EXPECT_TRUE(course.compute(**trainer, devices, total, sums));
    const auto report = (*trainer)->apply(step, collective::SharedFloats::from(total));
    EXPECT_TRUE(report) << report.error().message();
    if (report) steps.push_back({report->state, device->report()});
  }
  EXPECT_EQ(device->report().first_error, "");
  return steps;
}

class HostileReplay : public testing::TestWithParam<std::string> {};

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

INSTANTIATE_TEST_SUITE_P(Models, HostileReplay, testing::Values("gpt", "llama", "resnet"),
                         [](const auto& given) { return given.param; });

}  // namespace
}  // namespace gpunode::compute
