// The whole of a job's course on the hostile device: what a trainer tells, applies, proves, stores and
// reads back, and what is served from it, has the CPU's bits, and nothing of it touches the device's
// memory, or reads what is not yet there.
#include "kernels/cpu/cpu_backend.hpp"
#include "tests/parity/hostile/course_test.hpp"
#include "tests/parity/hostile/hostile_backend.hpp"

namespace gpunode::compute {
namespace {

struct Trained {
  const char *kind, *mode;
};

class HostileTrainer : public ::testing::TestWithParam<Trained> {};

TEST_P(HostileTrainer, takes_the_cpus_course_with_every_seed) {
  TrainingCourse course(GetParam().kind, 4, GetParam().mode);
  course.nodes = {{1, 0}, {0, 2}, {0, 3}};
  const auto host = cpu::open_backend();
  const auto wanted = course.take(*host, {});
  ASSERT_TRUE(wanted) << wanted.error().message();
  ASSERT_EQ(wanted->states.size(), TrainingCourse::kSteps);
  for (std::uint64_t seed = 1; seed <= seed_count(12); ++seed) {
    const bool late = seed % 4 == 3;
    const auto device = hostile::open_backend(
        {.seed = seed, .pace = late ? hostile::Pace::when_waited_for : hostile::Pace::random});
    ASSERT_TRUE(device);
    const auto found = course.take(**device, {1 + static_cast<int>(seed % 3), seed % 2 == 0});
    ASSERT_TRUE(found) << "seed " << seed << ": " << found.error().message();
    EXPECT_EQ(*found, *wanted) << "seed " << seed;
    EXPECT_EQ((*device)->report().first_error, "") << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, HostileTrainer,
                         ::testing::Values(Trained{"gpt", "exact"}, Trained{"llama", "exact"},
                                           Trained{"resnet", "exact"}, Trained{"gpt", "local"}),
                         [](const auto& given) {
                           return std::string(given.param.kind) + "_" + given.param.mode;
                         });

}  // namespace
}  // namespace gpunode::compute
