// The whole of training on the hostile device: what a trainer tells, applies, proves, stores and
// reads back has the CPU's bits, and nothing of it touches the device's memory, or reads what is not
// yet there.
#include "kernels/cpu/cpu_backend.hpp"
#include "tests/parity/hostile/course_test.hpp"
#include "tests/parity/hostile/hostile_backend.hpp"

namespace gpunode::compute {
namespace {

class HostileTrainer : public CourseTest {
 protected:
  HostileTrainer() : CourseTest(GetParam(), 4) { nodes_ = {{1, 0}, {0, 2}, {0, 3}}; }
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
