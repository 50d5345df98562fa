// Situations for each of which the protocol has a rule of its own, most of them found by reviews:
// all is well with the rule, and without it comes what it was made against. Chance seldom brings
// them about, so they are made by hand.
#include <functional>
#include <memory>

#include "tests/sim/job_scenario.hpp"

namespace gpunode::sim {
namespace {

using namespace std::chrono_literals;

// What went wrong in the first of these worlds in which anything did.
std::vector<std::string> first_failures(
    std::uint64_t seeds, const std::string& broken,
    const std::function<WorldResult(std::uint64_t seed, const std::string& broken)>& world) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed)
    if (const WorldResult result = world(seed, broken); !result.failures.empty())
      return result.failures;
  return {};
}

// Nothing fails in any of them with the rule, and `with` is what fails first without it.
void expect_needed(
    const std::string& rule, const std::string& with, std::uint64_t seeds,
    const std::function<WorldResult(std::uint64_t seed, const std::string& broken)>& world) {
  for (const std::string& failure : first_failures(seeds, {}, world)) ADD_FAILURE() << failure;
  const std::vector<std::string> failures = first_failures(seeds, rule, world);
  ASSERT_FALSE(failures.empty()) << rule << " is not needed";
  EXPECT_TRUE(failures.front().starts_with(with)) << failures.front();
}

// Two members, and three spare nodes to vote with them.
WorldOptions with_spares(std::uint64_t seed, const std::string& broken) {
  WorldOptions options = calm_world(2, 900);
  options.seed = seed;
  options.broken_rule = broken;
  options.node_count = 5;
  options.checkpoint_every = 10;
  options.fault_time = 20s;
  return options;
}

// The second member stands still, and all others take it for gone.
void hold_second(JobWorld& world, Duration when, Duration time) {
  world.at(when, [&world, time] {
    world.pause(1, time);
    for (const std::size_t other : {0, 2, 3, 4}) world.tell_link(other, 1, LinkState::refused);
  });
}

// ---- leaving

// The one that leaves has the tie, and decides the view without it while the other's link is down.
// Who has left is not there to be asked; the world restarts it only if it is missed.
WorldResult tie_leaves_while_a_link_is_down(std::uint64_t seed, const std::string& broken) {
  WorldOptions options = calm_world(2, 300);
  options.seed = seed;
  options.broken_rule = broken;
  options.fault_time = 8s;
  options.heal_time = 60s;
  JobWorld world(options);
  const Duration when = 1s + Duration(seed * 11ms);
  world.at(when, [&] { world.leave(0, 25s); });
  world.at(when + Duration(seed % 10 * 5ms), [&] {
    world.cut_link(0, 1);
    world.tell_peer(0, 1, PeerHealth::dead);
  });
  world.at(when + 3s, [&] { heal_link(world, 0, 1); });
  return world.run();
}

TEST(JobRule, who_leaves_with_the_tie_does_not_strand_a_member_whose_link_is_down_for_a_moment) {
  expect_needed("leaves_past_gone", "stuck", 50, tie_leaves_while_a_link_is_down);
}

// ---- grey failures

std::uint64_t steps_while_hung(bool compute, const std::string& broken) {
  WorldOptions options = calm_world(3, 3000);
  options.broken_rule = broken;
  options.fault_time = 100s;
  options.heal_time = 300s;
  JobWorld world(options);
  std::uint64_t before = 0, after = 0;
  world.at(2s, [&] {
    before = world.highest_commit();
    compute ? world.hang_compute(1, 1h) : world.hang_apply(1, 1h);
  });
  world.at(90s, [&] { after = world.highest_commit(); });
  expect_good(world.run());
  return after - before;
}

TEST(JobRule, a_member_whose_compute_or_update_hangs_does_not_stop_the_others_for_ever) {
  for (const bool compute : {true, false}) {
    EXPECT_GT(steps_while_hung(compute, {}), 100u);
    EXPECT_LE(steps_while_hung(compute, "no_watchdog"), 2u) << "the steps under way at most";
  }
}

// Whether somebody else votes 45 s after a witness has lost its part in the job.
bool silent_witness_is_replaced(const std::string& broken) {
  WorldOptions options = calm_world(2, 900);
  options.broken_rule = broken;
  options.node_count = 4;
  options.witness_count = 2;
  options.fault_time = 60s;
  JobWorld world(options);
  NodeId dead{};
  world.at(5s, [&] {
    for (const std::size_t spare : {2, 3})
      if (dead == NodeId{} && world.core(0).view().is_witness(world.id(spare))) {
        dead = world.id(spare);
        world.kill_job(spare);
      }
  });
  bool replaced = false;
  world.at(50s, [&] {
    const view::View& view = world.core(0).view();
    replaced = !view.is_acceptor(dead) && view.acceptors.size() == 3;
  });
  expect_good(world.run());
  EXPECT_NE(dead, NodeId{});
  return replaced;
}

TEST(JobRule, a_witness_whose_job_has_died_is_replaced_though_its_node_lives) {
  EXPECT_TRUE(silent_witness_is_replaced({}));
  EXPECT_FALSE(silent_witness_is_replaced("keeps_silent_witnesses"));
}

// A lone member's machine is lost. The one witness that has a copy is told to leave; the other is
// to go on from that copy, and has to fetch it first.
WorldResult holder_of_the_copy_leaves(std::uint64_t seed, const std::string& broken) {
  WorldOptions options = calm_world(1, 600);
  options.seed = seed;
  options.broken_rule = broken;
  options.node_count = 3;
  options.checkpoint_every = 50;
  options.fault_time = 20s;
  options.heal_time = 60s;
  options.model.ballast_bytes = 100'000;
  options.uplink_rate = 100'000;
  JobWorld world(options);
  world.slow_checkpoints(2, 1h);
  const Duration when = 9s + Duration(seed * 100ms);
  world.at(when, [&] {
    world.lose_machine(0);
    world.leave(1);
  });
  WorldResult result = world.run();
  if (result.waits) result.failures.push_back("waits for the copy");
  return result;
}

TEST(JobRule, who_leaves_first_gives_the_members_the_state_that_they_go_back_to) {
  expect_needed("leaves_with_the_base", "waits", 5, holder_of_the_copy_leaves);
}

// ---- what is durable

// A lone member's machine is lost with its disk, before the witnesses have its newest checkpoint.
WorldResult lone_machine_is_lost(std::uint64_t seed, const std::string& broken) {
  WorldOptions options = calm_world(1, 300);
  options.seed = seed;
  options.broken_rule = broken;
  options.node_count = 3;
  options.checkpoint_every = 10;
  options.fault_time = 20s;
  options.heal_time = 60s;
  JobWorld world(options);
  for (const std::size_t spare : {1, 2}) world.slow_checkpoints(spare, 300ms);
  world.at(6s, [&] {
    EXPECT_EQ(world.core(0).view().acceptors.size(), 3u);
    world.lose_machine(0);
  });
  WorldResult result = world.run();
  if (result.waits) result.failures.push_back("waits for the lost machine");
  return result;
}

TEST(JobRule, the_loss_of_one_machine_takes_nothing_away_that_was_reported_durable) {
  expect_needed("durable_on_one", "waits", 5, lone_machine_is_lost);
}

// Two members go on by what is left of their lease, write checkpoints, and die. They hear one
// witness still, which is held for a while as it would ask them, too. Two others hear neither; with
// that one they go back to what they have copies of.
WorldResult witnesses_go_back_while_the_members_write(std::uint64_t seed,
                                                      const std::string& broken) {
  WorldOptions options = with_spares(seed, broken);
  options.checkpoint_every = 60;
  options.checkpoints_kept = 4;
  options.fault_time = 25s;
  JobWorld world(options);
  const Duration when = 6s + Duration(seed * 130ms);
  world.at(when, [&] {
    for (const std::size_t member : {0, 1})
      for (const std::size_t witness : {3, 4}) {
        world.cut_link(member, witness);
        world.tell_link(witness, member, LinkState::refused);
      }
  });
  world.at(when + 300ms, [&] { world.pause(2, 1300ms); });
  world.at(when + 2400ms, [&] {
    for (const std::size_t member : {0, 1}) world.crash(member);
  });
  return world.run();
}

TEST(JobRule, who_has_promised_notes_nothing_that_the_view_to_come_does_not_know) {
  expect_needed("note_after_promise", "19", 14, witnesses_go_back_while_the_members_write);
}

// ---- leases of earlier views

// One of two members is held for two seconds while all that it lacks for its next step comes. The
// other goes on without it, dies, and comes back at once with nothing but its checkpoint.
WorldResult left_out_with_a_lease(std::uint64_t seed, const std::string& broken) {
  JobWorld world(with_spares(seed, broken));
  const Duration when = 6s + Duration(seed * 3ms);
  hold_second(world, when, 2s);
  auto died = std::make_shared<bool>(false);
  for (Duration later = 0ms; later < 2s; later += 1ms)
    world.at(when + later, [&world, died] {
      if (*died || !world.alive(0)) return;
      const view::View& view = world.core(0).view();
      if (view.members.size() != 1 || !view.rank_of(world.id(0))) return;
      *died = true;
      world.crash(0);
      world.restart(0);
    });
  return world.run();
}

TEST(JobRule, a_rollback_waits_for_the_lease_of_who_was_left_out_though_all_members_answer) {
  expect_needed("forgets_who_was_left_out", "18", 5, left_out_with_a_lease);
}

// As above; but a further view with the same member follows, and that member dies as soon as a
// witness has it: nobody has granted anything in this one yet. What a person orders brings about
// that view, and the next.
WorldResult left_out_a_view_ago(std::uint64_t seed, const std::string& broken) {
  JobWorld world(with_spares(seed, broken));
  const Duration when = 6s + Duration(seed * 3ms);
  hold_second(world, when, 2400ms);
  auto first = std::make_shared<std::uint64_t>(0);  // the view without the one that is held
  for (Duration later = 0ms; later < 2s; later += 500us)
    world.at(when + later, [&world, first] {
      if (!world.alive(0)) return;
      for (const std::size_t witness : {2, 3, 4}) {
        const view::View& view = world.core(witness).view();
        if (view.members.size() != 1 || !view.rank_of(world.id(0))) continue;
        if (*first == 0 && view.is_witness(world.id(witness))) {
          *first = view.view_id;
          world.stop_job(witness);
        }
        if (view.view_id == *first) continue;
        world.crash(0);
        for (const std::size_t other : {2, 3, 4}) world.resume_job(other);
        return;
      }
    });
  return world.run();
}

TEST(JobRule, what_was_granted_stands_in_the_views_after_the_one_that_left_the_holder_out) {
  expect_needed("grants_end_with_view", "18", 5, left_out_a_view_ago);
}

}  // namespace
}  // namespace gpunode::sim
