// Each rule of the protocol is broken on purpose, and must be missed: by the rule's own check, and
// where it matters by what it does to the result. One table; a rule that is added to the core with
// broken("name") gets its line here, or a situation of its own (job_rule_test, job_lease_test and
// the like). A rule that no world comes by fails, too.
#include <algorithm>
#include <cstdio>

#include <gtest/gtest.h>

#include "tests/sim/job_scenario.hpp"
#include "tests/sim/job_swarm.hpp"
#include "tests/support/broken_rules.hpp"

namespace gpunode::sim {
namespace {

using namespace std::chrono_literals;

enum class World : std::uint8_t {
  numbered,     // world_of
  small,        // small_world_of
  drawn,        // drawn_world, of all kinds in turn
  drawn_usual,  // small ones with all the faults that are usual in a swarm
  // Made by hand, for what chance seldom brings about; the seed moves the moments.
  two_of_three_return,   // with nothing, while the third stands still
  witness_without_copy,  // takes the place of one that has, and then the member dies
  wrong_sums,            // arrive at some members
  // A lone member whose clock goes slow, and everybody takes it for gone as it has installed a
  // view.
  cut_off_in_a_new_view
};
enum class Harm : std::uint8_t {
  result,  // also with the rule's own check left out, some result, step or promise to people breaks
  check    // within these seeds only the rule's own check sees it, or the job ends too late
};
struct Broken {
  const char* rule;
  World world;
  Harm harm;
  std::uint64_t from = 1;  // the seed to begin with, where it takes many
};

constexpr Broken kRules[] = {
    {"apply_on_own_completion", World::numbered, Harm::result},
    {"base_is_lowest_applied", World::numbered, Harm::result},
    {"base_is_highest_held", World::numbered, Harm::check},
    {"joiners_are_acceptors", World::numbered, Harm::check},
    {"no_freeze_on_promise", World::numbered, Harm::result},
    {"paces_not_in_view", World::numbered, Harm::check},
    {"half_quorum_without_tie", World::numbered, Harm::result},
    {"computes_when_stopped", World::numbered, Harm::result},
    {"no_quorum_check", World::numbered, Harm::check},
    {"promise_not_durable", World::numbered, Harm::result},
    {"admits_unready", World::numbered, Harm::check},
    {"tells_held_results", World::numbered, Harm::check},
    {"ends_without_result", World::numbered, Harm::check},
    {"last_holder_leaves", World::numbered, Harm::check},
    {"outlives_lease", World::small, Harm::check},
    {"grants_after_promise", World::small, Harm::check},
};

// Those that a review found unchecked.
constexpr Broken kReviewed[] = {
    {"rollback_by_quorum", World::two_of_three_return, Harm::check},
    {"floor_forgotten", World::witness_without_copy, Harm::check},
    {"floor_unchecked", World::witness_without_copy, Harm::check},
    {"roll_forward_any_digest", World::wrong_sums, Harm::check, 2000},
    {"never_foreign", World::drawn, Harm::result, 1500},
    {"redo_keeps_partials", World::drawn_usual, Harm::check, 1500},
    {"lease_outlives_view", World::cut_off_in_a_new_view, Harm::check},
};

// The same ones whatever else becomes usual: the seeds of the table are of these worlds.
GreySet few_grey() {
  GreySet grey{};
  for (const Grey one :
       {Grey::slow_checkpoint, Grey::failed_read, Grey::removed, Grey::large_state})
    grey[static_cast<std::size_t>(one)] = true;
  return grey;
}

WorldOptions world_for(World world, std::uint64_t seed) {
  WorldOptions options = calm_world(3, 300);
  options.fault_time = 20s;
  options.seed = seed;
  options.compute_low = 1ms;
  options.compute_high = 4ms;
  switch (world) {
    case World::numbered:
      return world_of(seed);
    case World::small:
      return small_world_of(seed);
    case World::drawn:
      return drawn_world(kKinds[seed % std::size(kKinds)], seed, few_grey());
    case World::drawn_usual:
      return drawn_world(Kind::small, seed, usual_grey());
    case World::two_of_three_return:
      return options;
    case World::wrong_sums:
      options.node_count = options.candidate_count = options.wanted_nodes = 4 + seed % 2;
      options.corruption = 0.05;
      options.crash_rate = 0.3;
      return options;
    case World::witness_without_copy:
    case World::cut_off_in_a_new_view:
      options.node_count = 4;
      options.candidate_count = options.wanted_nodes = 1;
      options.model.total_steps = 2000;
      options.checkpoint_every = 20;
      options.clock_drift = 0.1;
      options.fault_time = 30s;
      options.heal_time = 300s;
      return options;
  }
  return options;
}

// A lone member, and who votes with it.
void cut_off(JobWorld& world) {
  for (const std::size_t other : {1, 2, 3}) {
    world.cut_link(0, other);
    world.tell_link(other, 0, LinkState::refused);
  }
}

bool has_witnesses(JobWorld& world, std::uint64_t view_id) {
  const view::View& view = world.core(0).view();
  return view.view_id >= view_id && view.acceptors.size() == 3 && view.members.size() == 1;
}

// What is done in the first millisecond from then on in which it says that it is done.
void at_each_millisecond(JobWorld& world, Duration from, Duration until,
                         std::function<bool()> done) {
  auto over = std::make_shared<bool>(false);
  for (Duration when = from; when < until; when += 1ms)
    world.at(when, [over, done] { *over = *over || done(); });
}

// One witness hears nothing for a while, so that its grant is the older one; the other dies,
// and as soon as the third is in its place the member hears nobody and nobody hears it.
void cut_off_in_a_new_view(JobWorld& world, Duration shift) {
  struct Story {
    std::uint64_t view = 0;  // in which both vote
    std::size_t deaf = 0, dies = 0;
  };
  auto story = std::make_shared<Story>();
  at_each_millisecond(world, 5s + shift, 8s, [&world, story] {
    if (!has_witnesses(world, 2)) return false;
    story->view = world.core(0).view().view_id;
    for (const std::size_t node : {1, 2, 3})
      if (world.core(0).view().is_acceptor(world.id(node)))
        (story->deaf == 0 ? story->deaf : story->dies) = node;
    world.set_cut(0, story->deaf, true);
    world.at(world.now() - Time{} + 1200ms, [&world, story] {
      world.set_cut(0, story->deaf, false);
      world.crash(story->dies);
    });
    return true;
  });
  at_each_millisecond(world, 5s + shift, 20s, [&world, story] {
    if (story->view == 0) return false;
    for (const std::size_t node : {1, 2, 3})
      if (node != story->dies && world.core(node).view().view_id == story->view) return false;
    cut_off(world);
    return true;
  });
}

void direct(JobWorld& world, World kind, std::uint64_t seed) {
  const Duration shift = Duration(seed * 3137us);
  switch (kind) {
    case World::two_of_three_return:
      world.at(500ms + shift, [&world] { world.pause(2, 8s); });
      world.at(500ms + shift + Duration(seed % 7 * 1ms), [&world] {
        for (const std::size_t node : {0, 1}) world.crash(node);
        for (const std::size_t node : {0, 1}) world.restart(node);
      });
      return;
    case World::witness_without_copy: {
      // The first witness holds what was called durable; it dies, and another takes its place.
      auto first = std::make_shared<std::size_t>(0);
      at_each_millisecond(world, 2s + shift, 8s, [&world, first] {
        if (!has_witnesses(world, 2) || world.core(0).status(world.clock(0)).durable.name.step == 0)
          return false;
        for (const std::size_t node : {1, 2, 3}) {
          const bool holds = world.holds_checkpoint(node);
          if (!holds) world.slow_checkpoints(node, 1h);
          if (holds && *first == 0) *first = node;
        }
        for (const std::size_t node : {1, 2, 3})
          if (node != *first) world.slow_checkpoints(node, 1h);
        if (*first > 0) world.crash(*first);
        return *first > 0;
      });
      at_each_millisecond(world, 3s + shift, 15s, [&world, first] {
        if (*first == 0 || !has_witnesses(world, 2)) return false;
        if (world.core(0).view().is_acceptor(world.id(*first))) return false;
        world.crash(0);
        return true;
      });
      return;
    }
    case World::cut_off_in_a_new_view:
      return cut_off_in_a_new_view(world, shift);
    default:
      return;
  }
}

WorldResult outcome(const Broken& broken, std::uint64_t seed, bool only_effects) {
  WorldOptions options = world_for(broken.world, seed);
  options.only_effects = only_effects;
  JobWorld world(options);
  direct(world, broken.world, seed);
  return world.run();
}

// The first seed whose failure shows that the rule is broken; 0: none does.
std::uint64_t seeds_until_caught(const Broken& broken, bool only_effects, std::string* how,
                                 std::uint64_t* asked) {
  const std::uint64_t kMost = only_effects ? 1000 : 600;
  for (std::uint64_t seed = broken.from; seed < broken.from + kMost; ++seed) {
    std::optional<WorldResult> result;
    {
      const testing::BreakRule rule(broken.rule);
      result = outcome(broken, seed, only_effects);
      *asked += rule.asked();
    }
    if (*asked == 0 && seed >= broken.from + 400) return 0;  // no code has this rule
    if (result->failures.empty()) continue;
    // What fails with all rules kept shows nothing.
    if (!outcome(broken, seed, false).failures.empty()) continue;
    *how = result->failures.front();
    return seed;
  }
  return 0;
}

void expect_caught(const Broken& one) {
  for (const bool only_effects : {false, true}) {
    if (only_effects && one.harm == Harm::check) continue;
    std::string how;
    std::uint64_t asked = 0;
    const std::uint64_t seed = seeds_until_caught(one, only_effects, &how, &asked);
    std::printf("%-32s seed %4llu  %s\n", one.rule, static_cast<unsigned long long>(seed),
                how.c_str());
    EXPECT_GT(seed, 0u) << one.rule << " was not caught; the core asked for it " << asked
                        << " times";
  }
}

TEST(JobSimMutations, each_broken_rule_is_caught) {
  for (const Broken& one : kRules) expect_caught(one);
}

TEST(JobReviewMutations, each_rule_that_a_review_found_unchecked_is_caught) {
  for (const Broken& one : kReviewed) expect_caught(one);
}

}  // namespace
}  // namespace gpunode::sim
