// Swarms of seeds through the simulated world: safety after every action, and the end of the job
// once the faults are over. A failure prints its seed and the command that repeats it.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <utility>

#include <gtest/gtest.h>

#include "tests/sim/job_swarm.hpp"

namespace gpunode::sim {
namespace {

std::uint64_t seed_count(std::uint64_t normal) {
  const char* text = std::getenv("GPUNODE_SIM_SEEDS");
  return text ? std::strtoull(text, nullptr, 10) : normal;
}

// Where a swarm begins; its checks of how often something struck hold for whole swarms only.
std::uint64_t first_seed() {
  const char* text = std::getenv("GPUNODE_SIM_FIRST");
  return text ? std::strtoull(text, nullptr, 10) : 1;
}

std::string told(std::uint64_t seed, const WorldResult& result) {
  std::string text = "seed " + std::to_string(seed) + ":";
  for (const std::string& failure : result.failures) text += "\n  " + failure;
  return text + "\nrepeat with: GPUNODE_SIM_SEED=" + std::to_string(seed) +
         " build/release/tests/sim/sim_job --gtest_filter=JobSim.one_seed_told_step_by_step";
}

TEST(JobSim, one_seed_told_step_by_step) {
  const char* text = std::getenv("GPUNODE_SIM_SEED");
  if (!text) GTEST_SKIP() << "set GPUNODE_SIM_SEED to see one seed";
  const std::uint64_t seed = std::strtoull(text, nullptr, 10);
  const bool small = std::getenv("GPUNODE_SIM_SMALL") != nullptr;
  WorldOptions options = small ? small_world_of(seed) : world_of(seed);
  if (small && seed % 4 == 0) options.forms = upper_halves();
  options.trace = true;
  if (std::getenv("GPUNODE_SIM_SWIM")) {
    options.swim_detects = true;
    options.refused = 0.5;
  }
  if (std::getenv("GPUNODE_SIM_INEXACT")) options.forms = upper_halves();
  if (const char* mode = std::getenv("GPUNODE_SIM_MODE")) options.routing = routing_of(mode);
  const WorldResult result = JobWorld(options).run();
  EXPECT_TRUE(result.failures.empty()) << told(seed, result);
}

// Drawn worlds in which something went wrong once.
TEST(JobSim, seeds_that_failed_once_end_well) {
  constexpr std::pair<Kind, std::uint64_t> kSeeds[] = {
      {Kind::normal, 2850745305869},    {Kind::normal, 7469401474238},
      {Kind::inexact, 411082211224069}, {Kind::inexact, 530064172352367},
      {Kind::small, 629620763411076},   {Kind::swim, 264266498196093}};
  for (const auto& [kind, seed] : kSeeds) {
    const WorldResult result = JobWorld(drawn_world(kind, seed, usual_grey())).run();
    EXPECT_TRUE(result.failures.empty()) << told(seed, result);
  }
}

// A swarm of faults in another mode than exact: every rule that holds there, and nobody is stuck.
void expect_swarm_ends_well(const std::function<void(std::uint64_t, WorldOptions&)>& choose_mode) {
  std::uint64_t crashes = 0, learners = 0;
  for (std::uint64_t seed = first_seed(); seed <= seed_count(60); ++seed) {
    WorldOptions options = world_of(seed);
    choose_mode(seed, options);
    const WorldResult result = JobWorld(options).run();
    ASSERT_TRUE(result.failures.empty()) << told(seed, result);
    ASSERT_TRUE(result.finished) << told(seed, result);
    crashes += result.crashes;
    learners += result.learners;
  }
  EXPECT_GT(crashes, 0u);
  EXPECT_GT(learners, 0u);
}

// Every rule but one: sums need not be those of one node alone. They must be alike at all members.
TEST(JobSim, members_of_an_inexact_mode_stay_alike_through_any_swarm_of_faults) {
  expect_swarm_ends_well([](std::uint64_t seed, WorldOptions& options) {
    if (seed % 2 == 0)
      options.routing = routing_of("ring");
    else
      options.forms = upper_halves();
  });
}

// By way of other members, and with every rule: the bits are those of one node alone.
TEST(JobSim, sums_inside_sites_and_then_between_them_change_no_bit_in_any_swarm_of_faults) {
  expect_swarm_ends_well(
      [](std::uint64_t, WorldOptions& options) { options.routing = routing_of("hierarchical"); });
}

// Leases and copies of checkpoints: the job is undone only back to its newest durable checkpoint,
// and no member commits once others have begun to undo it.
TEST(JobSim, small_jobs_outlive_their_members_and_keep_what_they_called_durable) {
  std::uint64_t rollbacks = 0, copies = 0, durable = 0;
  const std::uint64_t count = std::max<std::uint64_t>(1, seed_count(3000) / 5);
  for (std::uint64_t seed = first_seed(); seed <= count; ++seed) {
    WorldOptions options = small_world_of(seed);
    if (seed % 4 == 0) options.forms = upper_halves();
    const WorldResult result = JobWorld(options).run();
    ASSERT_TRUE(result.failures.empty()) << told(seed, result) << " with GPUNODE_SIM_SMALL=1";
    rollbacks += result.rollbacks;
    copies += result.copies;
    durable += result.durable > 0 ? 1 : 0;
  }
  std::printf("%llu seeds: %llu rollbacks, %llu copies, %llu worlds with a durable checkpoint\n",
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(rollbacks),
              static_cast<unsigned long long>(copies), static_cast<unsigned long long>(durable));
  if (count < 100) return;
  EXPECT_GT(rollbacks, count / 10);
  EXPECT_GT(copies, count);
  EXPECT_GT(durable, count / 3);
}

// Membership, views and exchange together: who is dead is what each node's own Swim says, over the
// same broken wires.
TEST(JobSim, with_the_real_detector_no_swarm_of_faults_changes_a_bit_or_stops_the_job) {
  std::uint64_t verdicts = 0, crashes = 0, learners = 0;
  const std::uint64_t count = std::max<std::uint64_t>(1, seed_count(3000) / 10);
  for (std::uint64_t seed = first_seed(); seed <= count; ++seed) {
    WorldOptions options = world_of(seed);
    options.swim_detects = true;
    options.refused = 0.5;
    const WorldResult result = JobWorld(options).run();
    ASSERT_TRUE(result.failures.empty()) << told(seed, result);
    verdicts += result.verdicts;
    crashes += result.crashes;
    learners += result.learners;
  }
  if (count < 20) return;
  EXPECT_GT(verdicts, count);
  EXPECT_GT(crashes, count / 2);
  EXPECT_GT(learners, count / 2);
}

// Any mixture of faults, rates of any order of magnitude, and what lasts: see drawn_world.
TEST(JobSim, no_drawn_world_of_any_kind_changes_a_bit_or_stops_the_job) {
  std::array<std::uint64_t, kGreyCount> struck{};
  const std::uint64_t count = std::max<std::uint64_t>(1, seed_count(3000) / 5);
  for (std::uint64_t seed = first_seed(); seed <= count; ++seed) {
    const Kind kind = kKinds[seed % std::size(kKinds)];
    const WorldResult result = JobWorld(drawn_world(kind, seed)).run();
    ASSERT_TRUE(result.failures.empty())
        << result.failures.front()
        << "\nrepeat with: build/release/tests/sim/sim_job --sim 1 --kind " << to_string(kind)
        << " --first " << seed << " --trace";
    for (std::size_t one = 0; one < kGreyCount; ++one) struck[one] += result.grey[one];
  }
  if (count < 200) return;
  const GreySet usual = usual_grey();
  for (std::size_t one = 0; one < kGreyCount; ++one)
    if (usual[one]) {
      EXPECT_GT(struck[one], 0u) << to_string(static_cast<Grey>(one));
    }
}

TEST(JobSim, no_swarm_of_faults_changes_a_bit_or_stops_the_job) {
  WorldResult sum;
  std::uint64_t planned = 0;
  std::map<std::pair<Moment, Strike>, std::uint64_t> fired;
  const std::uint64_t count = seed_count(3000);
  for (std::uint64_t seed = first_seed(); seed <= count; ++seed) {
    const WorldResult result = JobWorld(world_of(seed)).run();
    ASSERT_TRUE(result.failures.empty()) << told(seed, result);
    sum.commits += result.commits;
    sum.views += result.views;
    sum.rollbacks += result.rollbacks;
    sum.crashes += result.crashes;
    sum.learners += result.learners;
    sum.stops += result.stops;
    sum.witnessed += result.witnessed;
    sum.generations += result.generations;
    sum.followed += result.followed;
    sum.speculated += result.speculated;
    sum.leaves += result.leaves;
    sum.cut_votes += result.cut_votes;
    sum.torn_votes += result.torn_votes;
    for (const PlannedFault& fault : result.planned) {
      ++planned;
      if (fault.fired) ++fired[{fault.moment, fault.strike}];
    }
  }
  std::uint64_t struck = 0;
  for (const auto& [kind, times] : fired) struck += times;
  constexpr auto kKinds =
      static_cast<std::size_t>(Moment::kCount) * static_cast<std::size_t>(Strike::kCount);
  if (count >= 500) {
    EXPECT_EQ(fired.size(), kKinds) << "a kind of planned fault never struck";
    EXPECT_GT(struck, planned / 3);
    EXPECT_GT(sum.learners, count / 2);
    EXPECT_GT(sum.stops, count / 20);
    EXPECT_GT(sum.witnessed, count / 5);
    EXPECT_GT(sum.generations, count / 20);
    EXPECT_GT(sum.followed, count);
    EXPECT_GT(sum.speculated, sum.commits / 2);
    EXPECT_GT(sum.leaves, count / 10);
    EXPECT_GT(sum.views, 3 * count);
    EXPECT_GT(sum.cut_votes, count / 20);
    EXPECT_GT(sum.torn_votes, count / 200);
  }
  std::printf(
      "%llu seeds: %llu commits, %llu views, %llu crashes, %llu learners, %llu steps followed, "
      "%llu leaves, %llu rollbacks, %llu views with witnesses, %llu stops, %llu recoveries, %llu "
      "of %llu planned faults fired, %llu votes cut short, %llu torn\n",
      static_cast<unsigned long long>(count), static_cast<unsigned long long>(sum.commits),
      static_cast<unsigned long long>(sum.views), static_cast<unsigned long long>(sum.crashes),
      static_cast<unsigned long long>(sum.learners), static_cast<unsigned long long>(sum.followed),
      static_cast<unsigned long long>(sum.leaves), static_cast<unsigned long long>(sum.rollbacks),
      static_cast<unsigned long long>(sum.witnessed), static_cast<unsigned long long>(sum.stops),
      static_cast<unsigned long long>(sum.generations), static_cast<unsigned long long>(struck),
      static_cast<unsigned long long>(planned), static_cast<unsigned long long>(sum.cut_votes),
      static_cast<unsigned long long>(sum.torn_votes));
}

}  // namespace
}  // namespace gpunode::sim
