// One node lies: as a stranger to the job, and as a member of it. Among the honest ones nothing may
// come of it, in worlds with the usual faults; and each rule that holds it off is needed.
#include <optional>

#include <gtest/gtest.h>

#include "tests/sim/job_liar.hpp"
#include "tests/sim/job_scenario.hpp"
#include "tests/sim/job_swarm.hpp"
#include "tests/support/ids.hpp"

namespace gpunode::sim {
namespace {

using namespace std::chrono_literals;

// A world with the usual faults, in which somebody has a lie for one of the nodes every 20 ms: who
// has no part, or the member of this number.
WorldResult with_liar(Kind kind, std::uint64_t seed, bool member, std::uint64_t* told,
                      const std::string& broken = {}) {
  constexpr int kStranger = 200;
  WorldOptions options = drawn_world(kind, seed);
  options.goes_on_alone = false;  // which gives up what a quorum is for
  // One member of two may be a quorum by itself.
  options.broken_rule = broken;
  if (member) options.candidate_count = std::max(options.candidate_count, 3u);
  if (member) options.node_count = std::max(options.node_count, 3 + options.witness_count);
  const std::size_t number = seed % options.candidate_count;
  const std::uint32_t node_count = options.node_count;
  std::optional<Liar> liar;
  options.overhears = [&liar](const NodeId& from, job::JobMessage& message) {
    liar->overhear(from, message);
  };
  const JobModel model = options.model;
  JobWorld world(std::move(options));
  liar.emplace(member ? world.id(number) : node(kStranger), member, model, mix(seed, 90));
  world.distrust(liar->self());
  Rng rng(mix(seed, 91));
  std::function<void(Duration)> lie = [&](Duration when) {
    const std::size_t to = rng.below(node_count);
    for (job::JobMessage& one : liar->lies()) world.tell(to, liar->self(), std::move(one)), ++*told;
    world.at(when, [&lie, when] { lie(when + 20ms); });
  };
  lie(20ms);
  return world.run();
}

TEST(JobLiar, nothing_comes_of_what_a_stranger_says) {
  std::uint64_t lies = 0;
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    const WorldResult result = with_liar(kKinds[seed % std::size(kKinds)], seed, false, &lies);
    for (const std::string& failure : result.failures) ADD_FAILURE() << seed << ": " << failure;
  }
  EXPECT_GT(lies, 10'000u);
}

TEST(JobLiar, a_member_makes_no_view_and_orders_nothing_by_itself) {
  std::uint64_t lies = 0;
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    const WorldResult result = with_liar(kKinds[seed % std::size(kKinds)], seed, true, &lies);
    for (const std::string& failure : result.failures) ADD_FAILURE() << seed << ": " << failure;
  }
  EXPECT_GT(lies, 10'000u);
}

// Without the rule it does harm.
void expect_harm(const std::string& rule, bool member) {
  std::uint64_t lies = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const WorldResult result = with_liar(Kind::normal, seed, member, &lies, rule);
    if (result.failures.empty()) continue;
    // What fails with the rule kept shows nothing.
    for (const std::string& failure : with_liar(Kind::normal, seed, member, &lies).failures)
      ADD_FAILURE() << seed << ": " << failure;
    std::printf("%-16s seed %2llu  %s\n", rule.c_str(), static_cast<unsigned long long>(seed),
                result.failures.front().c_str());
    return;
  }
  ADD_FAILURE() << rule << " is not needed";
}

TEST(JobLiar, views_without_signatures_would_be_a_strangers) {
  expect_harm("views_unsigned", false);
}
TEST(JobLiar, or_a_members) {
  expect_harm("views_unsigned", true);
}
TEST(JobLiar, orders_without_signatures_would_be_a_members) {
  expect_harm("orders_unsigned", true);
}
TEST(JobLiar, or_a_strangers) {
  expect_harm("orders_unsigned", false);
}
TEST(JobLiar, a_proposer_that_is_believed_would_do_as_it_likes) {
  expect_harm("proposals_unproven", true);
}
TEST(JobLiar, a_stranger_that_is_heard_ends_jobs) {
  expect_harm("hears_strangers", false);
}

}  // namespace
}  // namespace gpunode::sim
