#include "runtime/job/step_account.hpp"

#include <gtest/gtest.h>

#include "tests/support/ids.hpp"

namespace gpunode::job {
namespace {

using namespace std::chrono_literals;

collective::StepTimes times_of(std::uint32_t compute_us, std::uint32_t gather_us,
                               std::uint16_t last_rank, std::uint32_t last_us) {
  collective::StepTimes times;
  times.compute = {compute_us, 0, 4, 1};
  times.gather_us = gather_us;
  times.last_rank = last_rank;
  times.last_us = last_us;
  times.before = {100, 2000, 10, 20};
  return times;
}

using Steps = std::vector<std::vector<collective::StepTimes>>;

// Three members; steps of `took`, after the first commit, which only starts the clock.
Explanation explained(Duration took, const Steps& steps, const std::set<NodeId>& busy = {}) {
  StepAccount account;
  view::View view;
  for (int i = 1; i <= 3; ++i) view.members.push_back({node(i), 1});
  account.on_view(view);
  Time now{};
  account.on_committed(now, {});
  for (const auto& times : steps) {
    now += took;
    Committed committed;
    committed.plan = collective::plan_of_shares(collective::Tree::of_slices(12), {4, 4, 4});
    committed.times = times;
    account.on_committed(now, committed);
  }
  return account.explain(busy);
}
// Nine steps in which each tells the same.
Explanation explained(Duration took, const std::vector<collective::StepTimes>& times) {
  return explained(took, Steps(9, times));
}

TEST(StepAccount, splits_a_step_into_compute_wait_and_exchange) {
  const auto out =
      explained(50ms, {times_of(20000, 25000, 1, 20000), times_of(40000, 5000, 1, 20000),
                       times_of(20000, 25000, 1, 20000)});
  EXPECT_EQ(out.steps, 9u);
  EXPECT_NEAR(out.step, 0.050, 1e-9);
  ASSERT_EQ(out.members.size(), 3u);
  EXPECT_NEAR(out.members[0].compute, 0.020, 1e-9);
  EXPECT_NEAR(out.members[0].wait, 0.020, 1e-9);
  EXPECT_NEAR(out.members[0].exchange, 0.005, 1e-9);
  EXPECT_NEAR(out.members[1].wait, 0, 1e-9);
  EXPECT_NEAR(out.members[1].slice, 0.010, 1e-9);
  EXPECT_NEAR(out.members[1].apply, 0.002, 1e-9);
  EXPECT_NEAR(out.members[2].received_bytes, 20 * 1024, 1e-6);
  EXPECT_EQ(out.members[2].slices, 4u);
}

TEST(StepAccount, names_who_computes_longest) {
  const auto out =
      explained(50ms, {times_of(20000, 25000, 1, 20000), times_of(40000, 5000, 1, 20000),
                       times_of(20000, 25000, 1, 20000)});
  ASSERT_TRUE(out.slowest);
  EXPECT_EQ(out.slowest->node, node(2));
  EXPECT_EQ(out.slowest->cause, Cause::compute);
  EXPECT_NEAR(out.slowest->lost, 0.020, 1e-9);
}

TEST(StepAccount, names_who_waited_least_where_sums_come_by_way_of_others) {
  const auto none = collective::kNoRank;
  const auto out = explained(50ms, {times_of(20000, 25000, none, 0), times_of(40000, 5000, none, 0),
                                    times_of(22000, 23000, none, 0)});
  ASSERT_TRUE(out.slowest);
  EXPECT_EQ(out.slowest->node, node(2));
  EXPECT_EQ(out.slowest->cause, Cause::compute);
  EXPECT_NEAR(out.slowest->lost, 0.018, 1e-9);
}

TEST(StepAccount, names_a_slow_link_where_the_late_one_computed_as_long_as_all) {
  const auto out =
      explained(80ms, {times_of(20000, 50000, 2, 30000), times_of(21000, 50000, 2, 30000),
                       times_of(20000, 49000, 1, 500)});
  ASSERT_TRUE(out.slowest);
  EXPECT_EQ(out.slowest->node, node(3));
  EXPECT_EQ(out.slowest->cause, Cause::link);
}

TEST(StepAccount, names_data_where_the_late_one_waited_for_it) {
  auto late = times_of(40000, 5000, 0, 20000);
  late.compute.data_us = 18000;
  const auto out =
      explained(50ms, {late, times_of(20000, 25000, 0, 20000), times_of(20000, 25000, 0, 20000)});
  ASSERT_TRUE(out.slowest);
  EXPECT_EQ(out.slowest->node, node(1));
  EXPECT_EQ(out.slowest->cause, Cause::data);
}

TEST(StepAccount, names_nobody_in_a_balanced_job) {
  const auto out = explained(50ms, {times_of(40000, 5000, 1, 500), times_of(40400, 5000, 1, 300),
                                    times_of(40000, 5000, 2, 400)});
  EXPECT_FALSE(out.slowest);
  EXPECT_FALSE(out.confirm_is_long);
}

TEST(StepAccount, sees_a_done_that_takes_more_than_a_tenth_of_a_step) {
  auto far = times_of(40000, 5000, 1, 100);
  far.before.confirm_us = 6000;
  const auto out = explained(50ms, {far, far, far});
  EXPECT_TRUE(out.confirm_is_long);
  EXPECT_NEAR(out.confirm, 0.006, 1e-9);
}

// Members share too few processors: somebody is always late, by his sums or before.
Steps on_a_busy_machine() {
  Steps steps;
  std::uint32_t seed = 7;
  const auto random = [&](std::uint32_t below) {
    seed = seed * 1664525 + 1013904223;
    return seed / 65536 % below;
  };
  for (int step = 0; step < 32; ++step) {
    const auto late = static_cast<std::uint16_t>(random(3));
    std::vector<collective::StepTimes> times;
    for (int rank = 0; rank < 3; ++rank)
      times.push_back(
          times_of(20000 + random(20000), 5000 + random(9000), late, 2000 + random(15000)));
    steps.push_back(times);
  }
  return steps;
}

TEST(StepAccount, names_nobody_where_it_is_another_one_each_step) {
  const auto calm = explained(50ms, on_a_busy_machine());
  EXPECT_FALSE(calm.slowest);
  EXPECT_FALSE(calm.busy) << "as nobody tells that it is";
  const auto busy = explained(50ms, on_a_busy_machine(), {node(1), node(2), node(3)});
  EXPECT_FALSE(busy.slowest);
  EXPECT_TRUE(busy.busy);
}

TEST(StepAccount, names_nobody_whose_delays_come_and_go) {
  Steps steps;
  for (std::uint32_t step = 0; step < 30; ++step) {
    const std::uint32_t late = step % 3 == 0 ? 1000 : 4000 * (step % 7 + 1);
    steps.push_back({times_of(20000, 9000, 2, late), times_of(20000, 9000, 2, late),
                     times_of(20000, 5000, 2, late)});
  }
  EXPECT_FALSE(explained(50ms, steps).slowest);
}

TEST(StepAccount, a_slow_link_or_processor_is_named_although_steps_vary) {
  Steps steps;
  for (std::uint32_t step = 0; step < 32; ++step) {
    const std::uint32_t late = 30000 + 900 * (step % 5);
    const auto last = static_cast<std::uint16_t>(step % 8 == 0 ? 0 : 2);  // now and then another
    steps.push_back({times_of(20000 + 300 * (step % 3), 50000, last, late),
                     times_of(21000, 50000, last, late), times_of(20000, 49000, last, late)});
  }
  const auto out = explained(80ms, steps);
  ASSERT_TRUE(out.slowest);
  EXPECT_EQ(out.slowest->node, node(3));
  EXPECT_EQ(out.slowest->cause, Cause::link);
  for (auto& step : steps) step[2].compute.compute_us = 52000;
  const auto slow = explained(80ms, steps, {node(1), node(2), node(3)});
  ASSERT_TRUE(slow.slowest);
  EXPECT_EQ(slow.slowest->cause, Cause::compute) << "which the members measure, busy or not";
}

TEST(StepAccount, no_link_is_named_where_bytes_wait_for_a_processor) {
  const Steps steps(9, {times_of(20000, 50000, 2, 30000), times_of(21000, 50000, 2, 30000),
                        times_of(20000, 49000, 2, 30000)});
  EXPECT_TRUE(explained(80ms, steps, {node(1)}).slowest) << "another one's processors";
  const auto out = explained(80ms, steps, {node(3)});
  EXPECT_FALSE(out.slowest);
  EXPECT_TRUE(out.busy);
}

TEST(StepAccount, names_nobody_after_a_few_steps) {
  EXPECT_FALSE(
      explained(50ms, Steps(7, {times_of(20000, 25000, 1, 20000), times_of(40000, 5000, 1, 20000),
                                times_of(20000, 25000, 1, 20000)}))
          .slowest);
}

TEST(StepAccount, knows_nothing_before_two_steps_of_a_view) {
  EXPECT_EQ(StepAccount().explain().steps, 0u);
}

}  // namespace
}  // namespace gpunode::job
