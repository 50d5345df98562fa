// Schedules of faults that last longer than the protocol's timeouts.
#include "tests/sim/job_scenario.hpp"

namespace gpunode::sim {
namespace {

using namespace std::chrono_literals;

// A lone member's machine is lost while its two witnesses write their copies of a newer checkpoint.
// They promise by the older one, the newer one comes to their disks, and then the lease runs out.
WorldResult copies_come_after_the_promise(std::uint64_t seed, std::uint32_t kept) {
  WorldOptions options = calm_world(1, 300);
  options.seed = seed;
  options.node_count = 3;
  options.checkpoint_every = 10;
  options.checkpoints_kept = kept;
  options.fault_time = 40s;
  options.heal_time = 120s;
  options.visible_waits = options.brings_back = true;
  options.nobody_recovers = true;
  JobWorld world(options);
  for (const std::size_t spare : {1, 2})
    world.slow_checkpoints(spare, 1500ms + Duration(seed % 5 * 400ms));
  world.at(6s + Duration(seed * 170ms), [&] { world.lose_machine(0); });
  return world.run();
}

TEST(JobStorm, a_copy_that_comes_after_the_promise_gives_up_nothing_that_was_durable) {
  for (const std::uint32_t kept : {1u, 4u})
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
      const WorldResult result = copies_come_after_the_promise(seed, kept);
      for (const std::string& failure : result.failures)
        ADD_FAILURE() << "seed " << seed << ", " << kept << " kept: " << failure;
      EXPECT_FALSE(result.waits) << "seed " << seed << ", " << kept
                                 << " kept: " << result.waits_for;
    }
}

}  // namespace
}  // namespace gpunode::sim
