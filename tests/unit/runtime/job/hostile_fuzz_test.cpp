// A core among liars: random typed messages, many of them plausible, in all phases. Nothing may
// crash, run for long, or send without bound. GPUNODE_HOSTILE_SEEDS says how many lives, and
// GPUNODE_HOSTILE_FIRST which is the first.
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>

#include "tests/unit/runtime/job/hostile_life.hpp"

namespace gpunode::job {
namespace {

std::uint64_t number_of(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(HostileFuzz, a_core_survives_what_liars_say) {
  const std::uint64_t first = number_of("GPUNODE_HOSTILE_FIRST", 1);
  const std::uint64_t lives = number_of("GPUNODE_HOSTILE_SEEDS", 200);
  std::uint64_t views = 0, steps = 0;
  std::uint32_t phases = 0;
  for (std::uint64_t seed = first; seed < first + lives; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    HostileLife life(seed);
    life.run(600);
    EXPECT_LT(life.most_actions(), 5000u);
    views += life.views();
    steps += std::min<std::uint64_t>(life.committed(), 10);
    phases |= life.phases();
  }
  EXPECT_GT(views, lives) << "else the liars are not heard at all";
  EXPECT_GT(steps, lives / 5);
  EXPECT_GE(std::popcount(phases), 7) << "of nine";
}

}  // namespace
}  // namespace gpunode::job
