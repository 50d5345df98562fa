// Swarms of seeds through the simulated world: safety after every action, and the end of the job
// once the faults are over. A failure prints its seed and the command that repeats it.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "runtime/job/exchange_mode.hpp"
#include "tests/sim/job_world.hpp"

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

// One seed decides the whole world: its size, its faults, their moments.
WorldOptions world_of(std::uint64_t seed) {
  Rng rng(mix(seed, 99));
  WorldOptions options;
  options.seed = seed;
  const std::uint32_t slices[] = {4, 6, 8, 3, 5};
  options.model.tree = collective::Tree::of_slices(slices[rng.below(5)]);
  options.model.total_steps = 60;
  options.candidate_count = 1 + static_cast<std::uint32_t>(rng.below(5));
  options.node_count = options.candidate_count + static_cast<std::uint32_t>(rng.below(3));
  options.wanted_nodes = 1 + static_cast<std::uint32_t>(rng.below(options.node_count));
  if (rng.chance(0.5)) options.wanted_nodes = options.candidate_count;
  options.fault_time = std::chrono::milliseconds(2000 + rng.below(10000));
  const double fierce = rng.uniform();
  options.crash_rate = rng.chance(0.7) ? 0.3 * fierce : 0;
  options.cut_rate = rng.chance(0.6) ? 0.5 * fierce : 0;
  options.reset_rate = rng.chance(0.7) ? 2 * fierce : 0;
  options.pause_rate = rng.chance(0.4) ? 0.2 * fierce : 0;
  options.false_suspicion_rate = rng.chance(0.4) ? 0.3 * fierce : 0;
  options.leave_rate = rng.chance(0.2) ? 0.1 : 0;
  Rng people(mix(seed, 98));
  if (people.chance(0.4)) {
    options.witness_count = 1 + static_cast<std::uint32_t>(people.below(3));
    options.node_count += options.witness_count;
  }
  options.stop_rate = people.chance(0.15) ? 1.0 : 0;
  options.recover_rate = people.chance(0.1) ? 0.3 : 0;
  options.goes_on_alone = people.chance(0.1);
  options.loss = rng.chance(0.5) ? 0.1 * rng.uniform() : 0;
  options.repetition = rng.chance(0.5) ? 0.1 * rng.uniform() : 0;
  options.over_the_wire = rng.chance(0.2);
  options.clock_drift = 0.04;
  if (Rng(mix(seed, 96)).chance(0.2)) options.names_first = 0.5;
  if (rng.chance(0.5)) options.checkpoint_every = 7;
  const std::uint64_t planned = rng.below(4);
  for (std::uint64_t i = 0; i < planned; ++i) {
    PlannedFault fault;
    fault.moment = static_cast<Moment>(rng.below(static_cast<std::uint64_t>(Moment::kCount)));
    fault.strike = static_cast<Strike>(rng.below(static_cast<std::uint64_t>(Strike::kCount)));
    fault.nth = 1 + static_cast<std::uint32_t>(rng.below(12));
    options.planned.push_back(fault);
  }
  return options;
}

// The same faults in a job of one or two members, with spare nodes that could compute as well.
WorldOptions small_world_of(std::uint64_t seed) {
  WorldOptions options = world_of(seed);
  Rng rng(mix(seed, 94));
  options.wanted_nodes = options.candidate_count = 1 + static_cast<std::uint32_t>(rng.below(2));
  options.node_count = options.candidate_count + 2 + static_cast<std::uint32_t>(rng.below(3));
  options.witness_count = 0;
  options.checkpoint_every = rng.chance(0.9) ? 3 + rng.below(6) : 0;
  options.model.total_steps = 90;
  if (rng.chance(0.3)) {  // members that are held for long enough to be given up
    options.pause_rate = 0.3;
    options.crash_rate *= 0.3;
  }
  return options;
}

std::string told(std::uint64_t seed, const WorldResult& result) {
  std::string text = "seed " + std::to_string(seed) + ":";
  for (const std::string& failure : result.failures) text += "\n  " + failure;
  return text + "\nrepeat with: GPUNODE_SIM_SEED=" + std::to_string(seed) +
         " build/release/tests/sim/sim_job --gtest_filter=JobSim.one_seed_told_step_by_step";
}

// The upper half of each float, and what is cut off comes back in the next step.
std::shared_ptr<const collective::WireForms> upper_halves() {
  collective::WireForm form;
  form.bytes = [](std::size_t count) { return count * 2; };
  form.encode = [](std::span<const float> in, MutableByteView out) {
    const ByteView bytes = std::as_bytes(in);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = bytes[i / 2 * 4 + 2 + i % 2];
  };
  form.decode = [](ByteView in, std::span<float> out) {
    std::ranges::fill(out, 0.0f);
    const MutableByteView bytes = std::as_writable_bytes(out);
    for (std::size_t i = 0; i < in.size(); ++i) bytes[i / 2 * 4 + 2 + i % 2] = in[i];
  };
  return std::make_shared<const collective::WireForms>(
      collective::WireForms{form, form, true});
}

collective::Routing routing_of(const std::string& mode) {
  return job::facts_of(*job::parse_exchange_mode(mode)).routing;
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
TEST(JobSim, sums_inside_places_and_then_between_them_change_no_bit_in_any_swarm_of_faults) {
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
    sum.foreseen += result.foreseen;
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
    EXPECT_GT(sum.foreseen, sum.commits / 2);
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

// How many seeds it takes until a faulty core is caught; 0 if none of them does.
std::uint64_t seeds_until_caught(const std::string& rule, bool only_effects,
                                 std::string* how, bool small = false) {
  const std::uint64_t kMost = only_effects ? 1000 : 600;
  for (std::uint64_t seed = 1; seed <= kMost; ++seed) {
    WorldOptions options = small ? small_world_of(seed) : world_of(seed);
    options.broken_rule = rule;
    options.only_effects = only_effects;
    options.heal_time = std::chrono::seconds(60);
    const WorldResult result = JobWorld(options).run();
    if (result.failures.empty()) continue;
    *how = result.failures.front();
    return seed;
  }
  return 0;
}

TEST(JobSimMutations, each_broken_rule_of_leases_is_caught) {
  const std::pair<const char*, const char*> cases[] = {
      {"commits although its lease is over", "outlives_lease"},
      {"grants after it has promised", "grants_after_promise"},
  };
  for (const auto& [name, rule] : cases) {
    std::string how;
    const std::uint64_t seed = seeds_until_caught(rule, false, &how, true);
    std::printf("%-38s seed %4llu  %s\n", name, static_cast<unsigned long long>(seed), how.c_str());
    EXPECT_GT(seed, 0u) << name << " was not caught";
  }
}

TEST(JobSimMutations, each_broken_rule_is_caught) {
  struct Case {
    const char* name;
    const char* rule;
    bool harms = true;  // within these seeds; else only the rule's own check sees it
  };
  const Case cases[] = {
      {"apply on own completion", "apply_on_own_completion"},
      {"base is the lowest applied", "base_is_lowest_applied"},
      {"base is the highest held", "base_is_highest_held", false},
      {"joiners vote at once", "joiners_are_acceptors", false},
      {"a promise does not freeze", "no_freeze_on_promise"},
      {"paces are left out of the view", "paces_not_in_view", false},
      {"half without the tie is a quorum", "half_quorum_without_tie"},
      {"computes while stopped", "computes_when_stopped"},
      {"proposes without hearing a quorum", "no_quorum_check", false},
      {"a promise is not durable", "promise_not_durable"},
      {"who is not ready is named", "admits_unready", false},
      {"learners get what is only held", "tells_held_results", false},
      {"who was away ends without the result", "ends_without_result",
       false},
      {"the last holder just leaves", "last_holder_leaves", false},
  };
  for (const Case& one : cases) {
    for (const bool only_effects : {false, true}) {
      if (only_effects && !one.harms) continue;
      std::string how;
      const std::uint64_t seed = seeds_until_caught(one.rule, only_effects, &how);
      std::printf("%-34s seed %4llu  %s\n", one.name, static_cast<unsigned long long>(seed),
                  how.c_str());
      EXPECT_GT(seed, 0u) << one.name << " was not caught";
    }
  }
}

}  // namespace
}  // namespace gpunode::sim
