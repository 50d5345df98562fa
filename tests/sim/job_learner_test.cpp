// Learners in named situations: members go on whatever a learner's link or the state's size, who
// does not keep up or is not reached stays outside, and what each rule is good for.
#include "tests/sim/job_scenario.hpp"

namespace gpunode::sim {
namespace {

using namespace std::chrono_literals;

// Three members and a fourth node that starts late; the state is much larger than a gradient.
WorldOptions with_a_learner() {
  WorldOptions options = calm_world(4, 300);
  options.candidate_count = 3;
  options.late_count = 1;
  options.fault_time = 1s;  // then the fourth starts
  options.model.element_count = 1000;
  options.model.ballast_bytes = 2'000'000;
  return options;
}

struct Seen {
  WorldResult result;
  Duration gap{};  // the longest between two commits from the first second until it was a member
  Duration entered{};  // when the fourth was a member
  bool computed = false;
  std::uint64_t received = 0;
};

Seen run_with_a_learner(WorldOptions options, std::function<void(JobWorld&)> prepare = {}) {
  JobWorld world(std::move(options));
  Seen seen;
  for (int i = 0; i < 4000; ++i)
    world.at(i * 10ms, [&] {
      if (!world.alive(0) || !world.alive(3) || seen.entered != Duration{}) return;
      if (world.core(0).view().members.size() == 4) {
        seen.entered = world.now() - Time{};
        seen.received = world.core(3).status(world.now()).sync_received_bytes;
      }
    });
  if (prepare) prepare(world);
  seen.result = world.run();
  const bool in = seen.entered != Duration{};
  seen.gap = longest_gap(world, 1s, in ? seen.entered + 500ms : 1000s);
  seen.computed = world.computed_slices().contains(world.id(3));
  return seen;
}

TEST(JobLearner, members_go_on_while_the_state_comes_over_a_slow_link) {
  WorldOptions options = with_a_learner();
  options.last_node_rate = 200'000;  // from three members: the state alone takes three seconds
  const Seen seen = run_with_a_learner(options);
  expect_good(seen.result);
  EXPECT_GT(seen.entered, 4s);
  EXPECT_TRUE(seen.computed);
  EXPECT_GT(seen.received, 2'000'000u);
  EXPECT_LT(seen.gap, 400ms);
  EXPECT_EQ(seen.result.learners, 1u) << "the state was fetched more than once";
}

TEST(JobLearner, the_time_of_members_depends_neither_on_the_state_nor_on_the_link) {
  Duration gaps[2];
  for (const std::uint64_t ballast : {0, 2'000'000}) {
    WorldOptions options = with_a_learner();
    options.model.ballast_bytes = ballast;
    options.last_node_rate = 200'000;
    const Seen seen = run_with_a_learner(options);
    expect_good(seen.result);
    gaps[ballast > 0] = seen.gap;
  }
  EXPECT_LT(gaps[1], gaps[0] + 300ms) << "the state alone takes three seconds";
}

TEST(JobLearner, without_the_rule_that_it_be_ready_members_wait_for_its_state) {
  WorldOptions options = with_a_learner();
  options.last_node_rate = 200'000;
  options.broken_rule = "admits_unready";
  const Seen seen = run_with_a_learner(options);
  EXPECT_TRUE(seen.gap > 1s || !seen.result.failures.empty());
}

TEST(JobLearner, who_does_not_keep_up_stays_outside_and_costs_nothing) {
  WorldOptions options = with_a_learner();
  options.last_node_rate = 5'000;  // a tenth of what the results need
  options.model.ballast_bytes = 0;
  const Seen seen = run_with_a_learner(options);
  expect_good(seen.result);
  EXPECT_EQ(seen.entered, Duration{});
  EXPECT_LT(seen.gap, 400ms);
}

TEST(JobLearner, results_that_a_learner_lacks_are_kept_until_it_has_them) {
  for (const bool forgets : {false, true}) {
    WorldOptions options = with_a_learner();
    options.last_node_rate = 2'000'000;
    if (forgets) options.broken_rule = "forgets_results";
    const Seen seen = run_with_a_learner(options);
    if (forgets) {
      EXPECT_TRUE(seen.entered == Duration{} || seen.result.learners > 1);
      continue;
    }
    expect_good(seen.result);
    EXPECT_EQ(seen.result.learners, 1u);
    EXPECT_GT(seen.result.followed, 10u);
    EXPECT_TRUE(seen.computed);
  }
}

TEST(JobLearner, who_does_not_reach_every_member_is_not_let_in) {
  for (const bool any_way : {false, true}) {
    WorldOptions options = with_a_learner();
    options.model.ballast_bytes = 0;
    options.fault_time = 8s;
    if (any_way) options.broken_rule = "admits_unreached";
    std::size_t members = 0;
    const Seen seen = run_with_a_learner(options, [&](JobWorld& world) {
      world.at(500ms, [&] {
        world.set_cut(2, 3, true);  // one way: n3 does not hear n2
        world.restart(3);
      });
      world.at(7500ms, [&] { members = world.core(0).view().members.size(); });
    });
    if (any_way) {
      EXPECT_GT(seen.gap, 400ms) << "a member that is not reached would hold all up";
      continue;
    }
    expect_good(seen.result);
    EXPECT_EQ(members, 3u);
    EXPECT_LT(seen.gap, 400ms);
  }
}

// The view that is to name it is asked for when a step is through: just then it has that step to
// apply, and a view that does without it would stop the member for nothing.
TEST(JobLearner, who_takes_long_to_apply_a_step_comes_in_with_the_first_view_that_is_for_it) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    WorldOptions options = with_a_learner();
    options.seed = seed;
    options.node_count = 2;
    options.candidate_count = 1;
    options.wanted_nodes = 2;
    options.model.total_steps = 40;
    options.model.ballast_bytes = 0;
    options.compute_low = options.compute_high = 20ms;
    options.apply_low = options.apply_high = 150ms;
    JobWorld world(std::move(options));
    std::uint64_t named_by = 0;
    for (int i = 0; i < 2000; ++i)
      world.at(i * 10ms, [&] {
        const view::View& view = world.core(0).view();
        if (named_by == 0 && view.members.size() == 2) named_by = view.view_id;
      });
    expect_good(world.run());
    EXPECT_EQ(named_by, 2u) << "seed " << seed;
  }
}

// Steps that members commit in half a second while a learner fetches the state from all of them.
int steps_beside_a_learner(bool learner, bool it_goes_first) {
  WorldOptions options = with_a_learner();
  options.model.total_steps = 60;
  options.model.element_count = 4000;
  options.model.ballast_bytes = 6'000'000;
  options.uplink_rate = 16'000'000;
  options.compute_low = options.compute_high = 20ms;
  if (it_goes_first) options.broken_rule = "learners_go_first";
  if (!learner) options.fault_time = 60s;
  JobWorld world(options);
  const WorldResult result = world.run();
  EXPECT_TRUE(result.failures.empty());
  int steps = 0;
  for (const auto& [step, when] : world.commit_times())
    if (when > Time{} + 1100ms && when < Time{} + 1600ms) ++steps;
  return steps;
}

TEST(JobLearner, a_learner_takes_little_of_the_speed_of_members) {
  const int alone = steps_beside_a_learner(false, false);
  const int beside = steps_beside_a_learner(true, false);
  const int behind = steps_beside_a_learner(true, true);
  std::printf("steps in half a second: %d, with a learner %d, with one that goes first %d\n", alone,
              beside, behind);
  EXPECT_GE(2 * beside, alone);
  EXPECT_LT(behind, beside);
}

// The lone member's compute hangs, and it alone has checkpoints. Whoever takes the job up is new,
// and no member keeps the results that it lacks: the hung one's checkpoint is what there is.
TEST(JobLearner, a_new_lone_member_fetches_the_checkpoint_that_only_a_hung_node_has) {
  WorldOptions options = calm_world(1, 900);
  options.node_count = 3;
  options.checkpoint_every = 10;
  options.fault_time = 40s;
  JobWorld world(options);
  for (const std::size_t spare : {1, 2}) world.slow_checkpoints(spare, 1h);
  std::uint64_t before = 0, after = 0;
  world.at(6s, [&] {
    before = world.core(0).committed();
    world.hang_compute(0, 1h);
  });
  world.at(39s, [&] { after = reached(world, {1, 2}); });
  expect_good(world.run());
  EXPECT_GT(before, 50u);
  EXPECT_GT(after, before + 10);
}

}  // namespace
}  // namespace gpunode::sim
