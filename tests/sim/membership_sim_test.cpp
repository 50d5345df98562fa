// Membership and directory under random faults, from seeds: what must never happen never happens,
// and after the faults end all views and maps become equal within bounded time. Mutations of the
// rules must be noticed.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "tests/sim/membership_world.hpp"

namespace gpunode::sim {
namespace {

using namespace std::chrono_literals;

int seed_count() {
  const char* text = std::getenv("GPUNODE_SIM_SEEDS");
  const int count = text ? std::atoi(text) : 0;
  return count > 0 ? count : 24;
}

std::uint64_t first_seed() {
  const char* text = std::getenv("GPUNODE_SIM_FIRST_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 1;
}

std::string repeat_command(std::uint64_t seed) {
  return "repeat: GPUNODE_SIM_FIRST_SEED=" + std::to_string(seed) +
         " GPUNODE_SIM_SEEDS=1 ctest -L sim -R MembershipSim --output-on-failure";
}

struct Outcome {
  std::string failure;  // empty: all invariants held
  FaultCounts faults;
  Duration healed{};
};

void start_all(World& world) {
  world.start(0);
  for (int i = 1; i < world.size(); ++i) {
    world.run(20ms);
    world.start(i, static_cast<int>(world.rng().below(i)));
  }
}

int random_up(World& world) {
  for (int tries = 0; tries < 100; ++tries)
    if (const int index = static_cast<int>(world.rng().below(world.size())); world.up(index))
      return index;
  return 0;
}

// Cuts the nodes into two sides, in both directions or in one.
void cut_in_two(World& world, bool one_way) {
  const std::uint64_t sides = world.rng().next();
  for (int a = 0; a < world.size(); ++a)
    for (int b = 0; b < world.size(); ++b) {
      const bool apart = ((sides >> a) & 1) != ((sides >> b) & 1);
      if (apart && (!one_way || ((sides >> a) & 1))) world.cut(a, b, true);
    }
}

void strike(World& world) {
  Rng& rng = world.rng();
  int up = 0;
  for (int i = 0; i < world.size(); ++i) up += world.up(i);
  const int victim = random_up(world);
  switch (rng.below(13)) {
    case 0:
      if (up > 2) world.kill(victim);
      return;
    case 1:
      if (up > 2) world.power_off(victim);
      return;
    case 2:
    case 3:
      for (int i = 0; i < world.size(); ++i)
        if (!world.up(i)) return world.start(i, victim);
      return;
    case 4:
      return world.pause(victim, Duration(rng.below(5'000'000'000)));
    case 5:
      if (up > 3 && rng.chance(0.3)) world.leave(victim);
      return;
    case 6:
      return cut_in_two(world, false);
    case 7:
      return cut_in_two(world, true);
    case 8:
      world.cut(victim, random_up(world), true);
      return;
    case 9:
      return world.reset_link(victim, random_up(world));
    case 10:
      return world.forge(victim, random_up(world), random_up(world));
    default:
      return world.heal();
  }
}

void write_something(World& world) {
  const int node = random_up(world);
  const std::string key = "key" + std::to_string(world.rng().below(6));
  if (world.rng().chance(0.35))
    world.withdraw(node, key);
  else
    world.publish(node, key);
}

// One life of a house: grow, faults for two minutes, heal, then all must agree.
Outcome run_seed(std::uint64_t seed, membership::testing::Mutation mutation = {},
                 directory::testing::Mutation map_mutation = {}) {
  Rng rng(mix(seed, 77));
  WorldOptions options;
  options.seed = seed;
  options.nodes = 3 + static_cast<int>(rng.below(8));
  options.network.loss = rng.chance(0.5) ? 0.01 : 0.10;
  options.network.straggle = rng.chance(0.5) ? 0.01 : 0.05;
  options.swim.mutation = mutation;
  options.directory.mutation = map_mutation;
  options.directory.max_message_bytes = 1024;  // so that keyspaces travel in several parts
  World world(options);
  start_all(world);
  const Time end = world.now() + 120s;
  while (world.now() < end) {
    world.run(Duration(rng.below(4'000'000'000)));
    strike(world);
    for (int i = 0; i < 3; ++i) write_something(world);
  }
  world.heal();
  for (int i = 0; i < world.size(); ++i)
    if (!world.up(i)) world.start(i, random_up(world));
  Outcome outcome;
  const auto merged = world.run_until([&] { return world.members_agree(); }, 75s);
  outcome.healed = merged.value_or(75s);
  if (!merged) {
    outcome.failure = "views do not converge: " + world.disagreement();
  } else {
    const Duration rounds = std::chrono::seconds(
        10 + static_cast<int>(3 * std::ceil(std::log2(static_cast<double>(world.size())))));
    if (!world.run_until([&] { return world.maps_agree(); }, rounds))
      outcome.failure = "maps do not converge: " + world.disagreement();
  }
  if (!world.violations().empty()) outcome.failure = world.violations().front();
  outcome.faults = world.faults();
  return outcome;
}

TEST(MembershipSim, InvariantsHoldAndAllViewsConvergeAfterTheFaultsEnd) {
  FaultCounts faults;
  Duration slowest{};
  for (std::uint64_t seed = first_seed(); seed < first_seed() + seed_count(); ++seed) {
    const Outcome outcome = run_seed(seed);
    ASSERT_EQ(outcome.failure, "") << "seed " << seed << "; " << repeat_command(seed);
    faults.add(outcome.faults);
    slowest = std::max(slowest, outcome.healed);
  }
  if (seed_count() >= 10) {
    EXPECT_EQ(faults.never_struck(), std::vector<std::string>{});
  }
  std::printf("%d seeds; slowest merge %.1f s\n", seed_count(),
              std::chrono::duration<double>(slowest).count());
}

// How long until all others have called node 1 dead.
std::optional<Duration> time_to_detect(std::uint64_t seed, int nodes,
                                       const std::function<void(World&)>& stop) {
  WorldOptions options;
  options.seed = seed;
  options.nodes = nodes;
  World world(options);
  start_all(world);
  if (!world.run_until([&] { return world.members_agree(); }, 20s)) return std::nullopt;
  world.run(5s);
  stop(world);
  return world.run_until(
      [&] {
        for (int i = 0; i < world.size(); ++i)
          if (i != 1 && world.view(i, 1) != PeerHealth::dead) return false;
        return true;
      },
      30s);
}

TEST(MembershipSim, AKilledProcessIsDeadForAllWithinHalfASecond) {
  for (const int nodes : {2, 3, 4, 8, 24})
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const auto time = time_to_detect(seed, nodes, [](World& world) { world.kill(1); });
      ASSERT_TRUE(time) << nodes << " nodes, seed " << seed;
      EXPECT_LE(*time, 500ms) << nodes << " nodes, seed " << seed;
    }
}

TEST(MembershipSim, AMachineThatFallsSilentIsDeadForAllWithinFiveSeconds) {
  for (const int nodes : {2, 3, 4, 8, 24})
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      const auto time = time_to_detect(seed, nodes, [](World& world) { world.power_off(1); });
      ASSERT_TRUE(time) << nodes << " nodes, seed " << seed;
      EXPECT_LE(*time, 5s) << nodes << " nodes, seed " << seed;
      EXPECT_GE(*time, 1200ms) << "a suspect must have time to object";
    }
}

TEST(MembershipSim, AQuietHouseCallsNobodyDeadThoughAThirdOfItRunsSlowly) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    WorldOptions options;
    options.seed = seed;
    options.nodes = 9;
    World world(options);
    start_all(world);
    world.run(5s);
    for (int second = 0; second < 240; ++second) {
      for (int i = 0; i < 3; ++i)
        if (world.rng().chance(0.5)) world.pause(i, Duration(world.rng().below(700'000'000)));
      world.run(750ms);  // longer than a pause, so that pauses do not add up to a real absence
    }
    EXPECT_EQ(world.dead_verdicts(), 0) << "seed " << seed;
    EXPECT_EQ(world.violations(), std::vector<std::string>{});
  }
}

// What is wrong a minute after a partition of ten minutes in two halves; empty: nothing.
std::string wrong_after_a_partition(std::uint64_t seed, membership::testing::Mutation mutation) {
  WorldOptions options;
  options.seed = seed;
  options.nodes = 6;
  options.swim.mutation = mutation;
  World world(options);
  start_all(world);
  world.run(5s);
  for (int a = 0; a < 3; ++a)
    for (int b = 3; b < 6; ++b) {
      world.cut(a, b, true);
      world.cut(b, a, true);
    }
  world.run(10min);
  EXPECT_EQ(world.view(0, 5), PeerHealth::dead);
  EXPECT_EQ(world.view(0, 1), PeerHealth::alive);
  world.heal();
  const bool agree = world.run_until([&] { return world.members_agree(); }, 60s).has_value();
  EXPECT_EQ(world.violations(), std::vector<std::string>{});
  return agree ? "" : world.disagreement();
}

TEST(MembershipSim, APartitionOfTenMinutesHealsWithinAMinute) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    EXPECT_EQ(wrong_after_a_partition(seed, {}), "") << "seed " << seed;
}

// The simulator would notice if a rule were missing.
bool noticed(membership::testing::Mutation mutation,
             directory::testing::Mutation map_mutation = {}) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Outcome outcome = run_seed(seed, mutation, map_mutation);
    if (outcome.failure.empty()) continue;
    std::printf("caught at seed %llu: %s\n", static_cast<unsigned long long>(seed),
                outcome.failure.c_str());
    return true;
  }
  return false;
}

TEST(MembershipSim, NoticesANodeThatDoesNotObjectToItsDeath) {
  EXPECT_TRUE(noticed({.no_refutation = true}));
}
TEST(MembershipSim, NoticesThatTheDeadAreNotTriedAgain) {
  EXPECT_NE(wrong_after_a_partition(1, {.no_dead_retry = true}), "");
}
TEST(MembershipSim, NoticesThatAnOlderLifeReplacesANewerOne) {
  EXPECT_TRUE(noticed({.accept_stale_boot = true}));
}
TEST(MembershipSim, NoticesThatAnswersAreIgnored) {
  EXPECT_TRUE(noticed({.ignore_answers = true}));
}
TEST(MembershipSim, NoticesThatForgedRecordsAreBelieved) {
  EXPECT_TRUE(noticed({.unsigned_records = true}));
}
TEST(MembershipSim, NoticesThatDeletionsLeaveNoTrace) {
  EXPECT_TRUE(noticed({}, {.forget_tombstones = true}));
}
TEST(MembershipSim, NoticesThatAnOlderKeyspaceReplacesANewerOne) {
  EXPECT_TRUE(noticed({}, {.ignore_epoch = true}));
}

}  // namespace
}  // namespace gpunode::sim
