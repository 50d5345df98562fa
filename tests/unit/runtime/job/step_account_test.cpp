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

// Three members; steps of `took` in which each tells the same.
Explanation explained(Duration took, const std::vector<collective::StepTimes>& times) {
  StepAccount account;
  view::View view;
  for (int i = 1; i <= 3; ++i) view.members.push_back({node(i), 1});
  account.on_view(view);
  Time now{};
  for (std::uint64_t step = 1; step <= 5; ++step) {
    now += took;
    Committed committed;
    committed.step = step;
    committed.plan = collective::plan_of_shares(collective::Tree::of_slices(12), {4, 4, 4});
    committed.times = times;
    account.on_committed(now, committed);
  }
  return account.explain();
}

TEST(StepAccount, splits_a_step_into_compute_wait_and_exchange) {
  const auto out =
      explained(50ms, {times_of(20000, 25000, 1, 20000), times_of(40000, 5000, 1, 20000),
                       times_of(20000, 25000, 1, 20000)});
  EXPECT_EQ(out.steps, 4u) << "the first commit of a view only starts the clock";
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

TEST(StepAccount, knows_nothing_before_two_steps_of_a_view) {
  EXPECT_EQ(StepAccount().explain().steps, 0u);
}

}  // namespace
}  // namespace gpunode::job
