// One voter lives twice, in both halves of a network in parts, and each half makes it a quorum: two
// views are decided after the same one. When the parts meet it is exposed to all, put out of the job,
// and one part yields; the job goes on to its end among the honest nodes.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/sim/job_scenario.hpp"

namespace gpunode::sim {
namespace {

using namespace std::chrono_literals;

// `half` honest nodes on each side, and one more voter, which lives on both until 8 s and after.
struct Twins {
  explicit Twins(std::uint32_t half, std::uint64_t seed, const std::string& broken = {})
      : voter(2 * half), world(options(half, seed, broken)) {
    world.at(0ms, [this, half] {
      for (std::size_t one = 0; one < half; ++one)
        for (std::size_t other = half; other < 2 * half; ++other) world.cut_link(one, other);
    });
    world.at(7900ms, [this, half] {
      const view::View &one = world.core(0).view(), &other = world.core(half).view();
      parted = one.view_id > 0 && other.view_id > 0 && one != other &&
               one.has_part(world.id(voter)) && other.has_part(world.id(voter));
      steps = std::min(world.core(0).committed(), world.core(half).committed());
    });
  }
  static WorldOptions options(std::uint32_t half, std::uint64_t seed, const std::string& broken) {
    WorldOptions chosen = calm_world(2 * half + 1, 400);
    chosen.seed = seed;
    chosen.node_count = 2 * half + 2;
    chosen.twin_of = 2 * half;
    for (std::size_t node = half; node < 2 * half; ++node) chosen.twin_side.insert(node);
    chosen.fault_time = 8s;
    chosen.broken_rule = broken;
    return chosen;
  }
  // Those of the last views of the honest nodes.
  std::set<Digest> views() {
    std::set<Digest> all;
    for (std::size_t node = 0; node < voter; ++node) all.insert(world.core(node).view().digest());
    return all;
  }

  std::size_t voter;
  JobWorld world;
  bool parted = false;
  std::uint64_t steps = 0;
};

void expect_healed(std::uint32_t half) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Twins twins(half, seed);
    const WorldResult result = twins.world.run();
    ASSERT_TRUE(twins.parted) << "seed " << seed;
    EXPECT_GT(twins.steps, 5u);
    EXPECT_EQ(twins.views().size(), 1u) << "seed " << seed << ": they are one job again";
    for (std::size_t node = 0; node < twins.voter; ++node) {
      const job::JobCore& core = twins.world.core(node);
      EXPECT_EQ(core.committed(), 400u) << "seed " << seed << " n" << node;
      EXPECT_EQ(core.state_digest(), twins.world.core(0).state_digest()) << "seed " << seed;
      EXPECT_EQ(core.view().put_out, std::vector{twins.world.id(twins.voter)}) << "seed " << seed;
      EXPECT_FALSE(core.view().has_part(twins.world.id(twins.voter)));
      EXPECT_TRUE(
          std::ranges::any_of(result.exposed, [&](const auto& one) { return one.first == node; }))
          << "seed " << seed << ": n" << node << " has not seen who it was";
    }
    std::set<bool> sides;  // that yield
    for (const auto& [where, whose] : result.yielded)
      if (where < twins.voter) sides.insert(where < half);
    EXPECT_EQ(sides.size(), 1u) << "seed " << seed << ": one part yields and says so";
    for (const auto& [where, who] : result.exposed)
      EXPECT_EQ(who, twins.world.id(twins.voter)) << "seed " << seed;
  }
}

TEST(JobDoubleVote, of_three_one_votes_twice_and_the_other_two_find_out_and_go_on) {
  expect_healed(1);
}

TEST(JobDoubleVote, of_five_likewise) {
  expect_healed(2);
}

// One link heals, and a while later one part and its half of the voter are lost for good.
TEST(JobDoubleVote, who_is_shown_the_evidence_alone_puts_the_voter_out_as_well) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    WorldOptions options = Twins::options(2, seed, {});
    options.model.total_steps = 4000;
    options.fault_time = 60s;
    options.heal_time = 1s;
    JobWorld world(options);
    world.at(0ms, [&] {
      for (const std::size_t one : {0, 1})
        for (const std::size_t other : {2, 3}) world.cut_link(one, other);
    });
    world.at(8s, [&] { heal_link(world, 0, 2); });
    world.at(12s, [&] {
      for (const std::size_t node : {0, 1, 5})
        if (world.alive(node)) world.lose_machine(node);
    });
    bool looked = false;
    world.at(59s, [&] {
      looked = world.alive(2) && world.alive(3);
      for (const std::size_t node : {2, 3}) {
        if (!looked) return;
        const view::View& view = world.core(node).view();
        EXPECT_EQ(view.put_out, std::vector{world.id(4)}) << "seed " << seed << " n" << node;
        EXPECT_LT(view.view_id, 20u) << "seed " << seed << ": views without end";
      }
    });
    (void)world.run();
    EXPECT_TRUE(looked) << "seed " << seed;
  }
}

TEST(JobDoubleVote, without_looking_for_forks_the_parts_stay_apart) {
  bool apart = false;
  for (std::uint64_t seed = 1; seed <= 5 && !apart; ++seed) {
    Twins twins(2, seed, "forks_unseen");
    (void)twins.world.run();
    apart = twins.views().size() > 1;
  }
  EXPECT_TRUE(apart) << "the rule is not needed";
}

}  // namespace
}  // namespace gpunode::sim
