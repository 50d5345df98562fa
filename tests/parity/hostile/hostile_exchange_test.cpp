// Members on hostile devices, of one or two each, beside one on the CPU: in every mode of exchange
// the sums that leave are whole, and the states are those that CPUs alone come to.
#include "kernels/cpu/cpu_backend.hpp"
#include "tests/parity/hostile/course_test.hpp"
#include "tests/parity/hostile/exchange_course.hpp"
#include "tests/parity/hostile/hostile_backend.hpp"

namespace gpunode::compute {
namespace {

class HostileExchange : public CourseTest {
 protected:
  HostileExchange() : CourseTest("gpt", 5, GetParam()) {}
};

TEST_P(HostileExchange, comes_to_the_cpus_states_with_every_seed) {
  const auto host = cpu::open_backend();
  const Member plain{{as_device(*host)}, {}};
  const auto wanted = exchange(*this, {plain, plain, plain});
  ASSERT_TRUE(wanted) << wanted.error().message();
  for (std::uint64_t seed = 1; seed <= seed_count(6); ++seed) {
    const bool late = seed % 2 == 0;
    std::vector<std::unique_ptr<hostile::HostileBackend>> opened;
    Devices devices;
    for (std::uint64_t at = 0; at < 3; ++at) {
      opened.push_back(std::move(*hostile::open_backend(
          {.seed = 3 * seed + at,
           .pace = late ? hostile::Pace::when_waited_for : hostile::Pace::random})));
      devices.push_back(as_device(*opened.back()));
    }
    const How how{1 + static_cast<int>(seed % 2), seed % 3 == 0};
    const auto states =
        exchange(*this, {Member{{devices[0]}, how}, Member{{devices[1], devices[2]}, how}, plain});
    ASSERT_TRUE(states) << "seed " << seed << ": " << states.error().message();
    EXPECT_EQ(*states, *wanted) << "seed " << seed;
    for (const auto& device : opened) EXPECT_EQ(device->report().first_error, "") << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, HostileExchange,
                         ::testing::Values("exact", "bf16", "int8", "topk", "local"),
                         [](const auto& given) { return given.param; });

}  // namespace
}  // namespace gpunode::compute
