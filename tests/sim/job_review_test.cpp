// Situations that a review of the first version found by reading, each as a test of its own: what a
// person who runs a job may expect of it. What they need is made by hand; nothing else goes wrong.
// Those that led to a rule of their own: job_rule_test.cpp.
#include <algorithm>

#include "tests/sim/job_scenario.hpp"

namespace gpunode::sim {
namespace {

using namespace std::chrono_literals;

// ---- 1: what was called durable stays

// Alone, its checkpoint is durable once it is on its disk. Then two spare nodes vote with it, and
// it dies before they have a copy.
TEST(JobReview, a_checkpoint_of_a_job_alone_is_not_forgotten_once_spare_nodes_vote) {
  WorldOptions options = calm_world(1, 900);
  options.node_count = 3;
  options.late_count = 2;  // they come when it has run alone for a while
  options.fault_time = 12s;
  options.checkpoint_every = 50;
  options.checkpoints_kept = 3;
  options.heal_time = 300s;
  JobWorld world(options);
  std::uint64_t before = 0, base = ~std::uint64_t{0};
  for (const std::size_t spare : {1, 2}) world.slow_checkpoints(spare, 60s);
  bool died = false;
  for (Duration when = 12s; when < 25s; when += 10ms)
    world.at(when, [&] {
      if (died || world.core(0).view().acceptors.size() != 3) return;
      died = true;
      before = world.core(0).committed();
      world.crash(0);
    });
  world.at(50s, [&] {
    base = world.core(1).view().members.empty() ? 0 : world.core(1).view().base_step;
    if (world.core(1).view().has_member({world.id(0), 1})) base = before;  // it still waits for it
  });
  world.at(60s, [&] { world.restart(0); });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_TRUE(died) << "no spare node ever voted";
  EXPECT_GT(before, 50u);
  EXPECT_GE(base + 50, before) << "what its disk holds was given up";
}

// Two members and two spare nodes, whose copies take longer than the members live.
TEST(JobReview, two_deaths_before_a_copy_is_made_give_up_no_checkpoint) {
  WorldOptions options = calm_world(2, 600);
  options.node_count = 4;
  options.compute_low = 20ms;
  options.model.ballast_bytes = 400'000;
  options.uplink_rate = 40'000;  // ten seconds for the state
  options.checkpoint_every = 20;
  options.checkpoints_kept = 3;
  options.fault_time = 60s;
  options.heal_time = 300s;
  JobWorld world(options);
  for (const std::size_t spare : {2, 3}) world.slow_checkpoints(spare, 60s);
  std::uint64_t before = 0, after = ~std::uint64_t{0};
  world.at(6s, [&] { world.crash(0); });
  world.at(11s, [&] {
    before = reached(world, {1});
    world.crash(1);
  });
  for (Duration when = 12s; when < 60s; when += 100ms)
    world.at(when, [&] {
      for (const std::size_t spare : {2, 3}) {
        const view::View& view = world.core(spare).view();
        if (view.rank_of(world.id(spare))) after = std::min(after, view.base_step);
      }
    });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_GT(before, 60u);
  if (after != ~std::uint64_t{0}) {
    EXPECT_GE(after + 60, before) << "what two disks hold was given up";
  }
}

// ---- 2: halves that went on without each other meet

struct Halves {
  WorldResult result;
  HistoryId ends[4];
  std::size_t members = 0;  // a while after they could hear each other again
};

Halves two_halves(bool swim) {
  WorldOptions options = calm_world(4, 6000);
  options.goes_on_alone = true;
  options.swim_detects = swim;
  options.fault_time = 60s;
  options.heal_time = 600s;
  JobWorld world(options);
  Halves halves;
  const std::pair<std::size_t, std::size_t> links[] = {{0, 2}, {0, 3}, {1, 2}, {1, 3}};
  world.at(1s, [&] {
    for (const auto& [one, other] : links) world.cut_link(one, other);
  });
  world.at(30s, [&] {
    EXPECT_NE(history_of(world.core(0).view()), history_of(world.core(3).view()));
    EXPECT_GT(world.core(3).committed(), 100u) << "the half without the tie works, too";
    for (const auto& [one, other] : links) heal_link(world, one, other);
  });
  world.at(60s, [&] {
    for (std::size_t node = 0; node < 4; ++node)
      halves.ends[node] = history_of(world.core(node).view());
    halves.members = world.core(0).view().members.size();
  });
  halves.result = world.run();
  return halves;
}

void expect_that_one_half_yielded(const Halves& halves) {
  expect_good(halves.result);
  for (const HistoryId& end : halves.ends) EXPECT_EQ(end, halves.ends[0]) << "nobody yielded";
  EXPECT_EQ(halves.members, 4u) << "who yielded came back";
}

TEST(JobReview, of_two_halves_that_went_on_one_yields_within_half_a_minute_of_meeting) {
  expect_that_one_half_yielded(two_halves(false));
}

TEST(JobReview, of_two_halves_one_yields_with_the_real_detector_too) {
  expect_that_one_half_yielded(two_halves(true));
}

// It has no state: to go on from step 0 alone is no help to anybody.
TEST(JobReview, a_witness_that_holds_no_state_never_goes_on_alone) {
  WorldOptions options = calm_world(2, 2500);
  options.node_count = 3;
  options.goes_on_alone = true;
  options.fault_time = 45s;
  options.heal_time = 300s;
  JobWorld world(options);
  std::uint32_t voters = 0;
  world.at(5s, [&] {
    voters = static_cast<std::uint32_t>(world.core(0).view().acceptors.size());
    world.cut_link(2, 0);
    world.cut_link(2, 1);
  });
  bool alone = false;
  for (Duration when = 6s; when < 45s; when += 200ms)
    world.at(when, [&] { alone = alone || world.core(2).view().members.size() == 1; });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_EQ(voters, 3u);
  EXPECT_FALSE(alone);
  EXPECT_EQ(result.generations, 0u);
}

// ---- 5: a rollback waits for everyone who may still commit

// Two members, of which one is new and has no vote yet. It sleeps while the other dies and comes
// back with nothing; when it wakes it still holds its state, and what the other had said.
TEST(JobReview, a_member_that_does_not_vote_commits_nothing_that_a_rollback_has_undone) {
  std::uint64_t struck = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    WorldOptions options = calm_world(2, 200);
    options.candidate_count = 1;
    options.seed = seed;
    options.checkpoint_every = 10;
    options.compute_high = 4ms;
    options.fault_time = 20s;
    options.heal_time = 120s;
    JobWorld world(options);
    bool done = false;
    for (Duration when = 50ms; when < 10s; when += 1ms)
      world.at(when + Duration(seed * 7us), [&] {
        const view::View& view = world.core(1).view();
        if (done || !view.rank_of(world.id(1)) || view.is_acceptor(world.id(1))) return;
        if (world.core(1).status(world.clock(1)).phase != job::Phase::running) return;
        done = true;
        ++struck;
        world.pause(1, 12s);
        world.at(world.now() - Time{} + Duration(seed % 20 * 500us), [&] {
          world.crash(0);
          world.restart(0);
        });
      });
    const WorldResult result = world.run();
    for (const std::string& failure : result.failures)
      ADD_FAILURE() << failure << ", seed " << seed;
  }
  EXPECT_GT(struck, 100u) << "seldom is a member without a vote";
}

// The member that was left out may still have a lease of the view before.
TEST(JobReview, a_lease_of_an_earlier_view_is_waited_for_too) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    WorldOptions options = calm_world(2, 400);
    options.node_count = 5;
    options.seed = seed;
    options.checkpoint_every = 10;
    options.fault_time = 20s;
    options.heal_time = 120s;
    JobWorld world(options);
    const Duration when = 6s + Duration(seed * 3ms);
    // One member is cut off from all, the other goes on without it, and dies at once.
    world.at(when, [&] {
      for (std::size_t other = 0; other < 5; ++other)
        if (other != 1) world.cut_link(1, other);
      for (const std::size_t other : {0, 2, 3, 4}) world.tell_link(other, 1, LinkState::refused);
    });
    world.at(when + 300ms, [&] { world.crash(0); });
    const WorldResult result = world.run();
    for (const std::string& failure : result.failures)
      ADD_FAILURE() << failure << ", seed " << seed;
  }
}

// ---- 6: whose state it is

// Two halves go on at once from the same step in an inexact mode, and all meet again: nobody may
// take part with the state of the half that was given up.
TEST(JobReview, who_worked_on_in_a_history_that_was_given_up_takes_its_state_anew) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    WorldOptions options = calm_world(4, 400);
    options.seed = seed;
    options.fault_time = 30s;
    options.heal_time = 120s;
    JobWorld world(options);
    const Duration when = 2s + Duration(seed * 17ms);
    world.at(when, [&] {
      for (const std::size_t one : {0, 1})
        for (const std::size_t other : {2, 3}) world.cut_link(one, other);
    });
    world.at(when + 4s, [&] { world.recover_job(0); });
    world.at(when + 4s, [&] { world.recover_job(2); });
    world.at(when + 8s, [&] {
      for (const std::size_t one : {0, 1})
        for (const std::size_t other : {2, 3}) heal_link(world, one, other);
    });
    const WorldResult result = world.run();
    for (const std::string& failure : result.failures)
      ADD_FAILURE() << failure << ", seed " << seed;
  }
}

// ---- 7: stuck although a quorum lives

// Everybody hears it, and it hears nobody.
TEST(JobReview, a_lone_member_that_has_gone_deaf_is_replaced) {
  WorldOptions options = calm_world(1, 900);
  options.node_count = 3;
  options.checkpoint_every = 10;
  options.fault_time = 60s;
  options.heal_time = 120s;
  JobWorld world(options);
  std::uint64_t before = 0, after = 0;
  world.at(6s, [&] {
    EXPECT_EQ(world.core(0).view().acceptors.size(), 3u);
    before = world.core(0).committed();
    for (const std::size_t other : {1, 2}) world.set_cut(other, 0, true);
  });
  world.at(55s, [&] { after = reached(world, {1, 2}); });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_GT(after, before);
}

// The only member is lost with its machine; its witnesses do not compute, and somebody who does is
// new.
TEST(JobReview, witnesses_that_do_not_compute_hand_the_job_to_a_new_node) {
  WorldOptions options = calm_world(1, 300);
  options.node_count = 4;
  options.witness_count = 3;
  options.wanted_nodes = 1;
  options.checkpoint_every = 10;
  options.fault_time = 30s;
  options.heal_time = 120s;
  JobWorld world(options);
  world.at(6s, [&] {
    EXPECT_EQ(world.core(0).view().acceptors.size(), 3u);
    world.crash(0);
  });
  // Its disk is new: a compute node that has never seen the job.
  world.at(12s, [&] { world.restart_empty(0); });
  std::uint64_t after = 0;
  world.at(29s, [&] { after = reached(world, {0}); });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_GT(after, 0u) << "nobody computes";
}

// It knows the first candidates only, and all of them have been replaced while it was away.
TEST(JobReview, a_node_that_was_away_while_all_its_peers_were_replaced_finds_back) {
  WorldOptions options = calm_world(4, 2500);
  options.candidate_count = 2;
  options.wanted_nodes = 2;
  options.fault_time = 60s;
  options.heal_time = 200s;
  options.seed = 2;  // in which nobody starts node 0 again
  JobWorld world(options);
  world.set_hints_of(1, {0, 1});
  world.at(2s, [&] {
    for (const std::size_t other : {0, 2, 3}) world.cut_link(1, other);
  });
  world.at(15s, [&] { world.leave(0); });
  bool gone = false;
  world.at(40s, [&] {
    gone = !world.alive(0);
    for (const std::size_t other : {2, 3}) heal_link(world, 1, other);
  });
  std::uint64_t view = 0, newest = 0;
  world.at(58s, [&] {
    view = world.core(1).view().view_id;
    newest = std::max(world.core(2).view().view_id, world.core(3).view().view_id);
  });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_TRUE(gone);
  EXPECT_EQ(view, newest) << "it still asks those that it knew";
}

// The newest of three checkpoints is bad on the only disk that has any; ten seconds are waited for
// somebody who has another copy.
TEST(JobReview, a_bad_newest_checkpoint_costs_the_steps_since_the_one_before) {
  WorldOptions options = calm_world(1, 300);
  options.checkpoint_every = 20;
  options.checkpoints_kept = 3;
  options.fault_time = 20s;
  JobWorld world(options);
  std::uint64_t before = 0, after = 0;
  world.at(4s, [&] {
    before = world.core(0).committed();
    world.crash(0);
    world.spoil_checkpoint(0);
    world.restart(0);
  });
  world.at(18s, [&] { after = world.core(0).view().base_step; });
  const WorldResult result = world.run();
  expect_good(result);
  EXPECT_GT(before, 50u);
  EXPECT_GT(after + 60, before);
}

}  // namespace
}  // namespace gpunode::sim
