#include "actors/job/job_ledger.hpp"

#include <gtest/gtest.h>

#include "tests/support/ids.hpp"

namespace gpunode::jobs {
namespace {

Time at(int milliseconds) {
  return Time(std::chrono::milliseconds(milliseconds));
}

job::Committed step_of(std::uint64_t step, std::vector<int> computed_by = {}) {
  job::Committed committed;
  committed.step = step;
  for (int number : computed_by) committed.computed_by.push_back(node(number));
  return committed;
}

view::View view_of(std::uint64_t id, std::uint64_t base, std::vector<int> members,
                   std::vector<std::uint16_t> plan) {
  view::View view;
  view.view_id = id;
  view.base_step = base;
  for (int member : members) view.members.push_back({node(member), 1});
  view.plan = std::move(plan);
  return view;
}

TEST(JobLedger, counts_slices_by_who_computed_them_in_each_step) {
  JobLedger ledger(100);
  ledger.on_view(view_of(1, 0, {1, 2}, {0, 0, 0, 1}));
  ledger.on_committed(at(10), step_of(1, {1, 1, 1, 2}));
  EXPECT_EQ(ledger.history().slices().at(node(1)), 3u);
  EXPECT_EQ(ledger.history().slices().at(node(2)), 1u);
  ledger.on_committed(at(20), step_of(2, {1, 1, 2, 2}));
  EXPECT_EQ(ledger.history().slices().at(node(1)), 5u);
  EXPECT_EQ(ledger.history().slices().at(node(2)), 3u);
  EXPECT_EQ(ledger.history().first(), 1u);
}

TEST(JobLedger, tells_a_run_of_skipped_steps_as_one_event) {
  JobLedger ledger(100);
  const auto skip = [&](std::uint64_t step) {
    const auto text = ledger.on_skipped(at(static_cast<int>(step)), step);
    ledger.on_applied(step, 1, {});
    return text;
  };
  EXPECT_EQ(skip(3), "step 3 was skipped: its gradient is not finite");
  ledger.on_event(at(3), "view 2");
  EXPECT_EQ(skip(4), "steps 3 to 4 were skipped: their gradients are not finite");
  EXPECT_EQ(skip(5), std::nullopt) << "1, 2, 4, 8 ... are told in the log";
  EXPECT_TRUE(skip(6));
  ASSERT_EQ(ledger.history().events().size(), 2u);
  EXPECT_EQ(ledger.history().events()[0].text,
            "steps 3 to 6 were skipped: their gradients are not finite");
  EXPECT_EQ(ledger.seen().skipped_in_a_row, 4u);
  ledger.on_applied(7, 1, {});
  EXPECT_EQ(ledger.seen().skipped_in_a_row, 0u);
  EXPECT_EQ(ledger.history().skipped(), 4u);
  EXPECT_TRUE(skip(8));
  EXPECT_EQ(ledger.history().events().size(), 3u);
  // Whose event has made way for newer ones goes on being counted.
  for (int i = 0; i < 2000; ++i) ledger.on_event(at(9), "news");
  EXPECT_TRUE(skip(9));
  EXPECT_EQ(ledger.history().skipped(), 6u);
  EXPECT_EQ(ledger.history().events().back().text, "news");
}

TEST(JobLedger, tells_speed_and_time_left_from_the_last_steps) {
  JobLedger ledger(100);
  ledger.on_view(view_of(1, 0, {1}, {0, 0}));
  EXPECT_EQ(ledger.tokens_per_second(), 0);
  for (int step = 1; step <= 11; ++step) ledger.on_committed(at(step * 100), step_of(step));
  EXPECT_NEAR(ledger.tokens_per_second(), 1000, 1e-6);
  EXPECT_NEAR(std::chrono::duration<double>(ledger.time_left(21)).count(), 1.0, 1e-6);
  EXPECT_EQ(ledger.time_left(11), Duration{0});
}

TEST(JobLedger, tells_the_jobs_arithmetic_and_what_this_node_makes_of_its_peak) {
  JobLedger ledger(100);
  const auto run = [&](int first) {
    for (int step = first; step < first + 11; ++step)
      ledger.on_committed(at(step * 100), step_of(static_cast<std::uint64_t>(step), {1, 1, 1, 2}));
  };
  ledger.on_view(view_of(1, 0, {1, 2}, {0, 0, 0, 1}));
  run(1);
  EXPECT_FALSE(ledger.flops_per_second()) << "an opaque program tells nothing of its arithmetic";
  EXPECT_FALSE(ledger.utilisation());
  ledger.know_compute({.self = node(1), .slice_flops = 5e6});
  ledger.on_view(view_of(2, 11, {1, 2}, {0, 0, 0, 1}));
  run(12);
  // Ten steps of four slices in a second.
  EXPECT_NEAR(*ledger.flops_per_second(), 2e8, 1);
  EXPECT_FALSE(ledger.utilisation()) << "its peak is not known";
  ledger.know_compute({.self = node(1), .slice_flops = 5e6, .peak_flops = 3e8});
  EXPECT_NEAR(*ledger.utilisation(), 0.5, 1e-9) << "three of the four slices are its own";
  ledger.know_compute({.self = node(1), .slice_flops = 5e6, .peak_flops = 1e8});
  EXPECT_EQ(*ledger.utilisation(), 1) << "it did more than the peak that was measured";
}

TEST(JobLedger, who_gets_the_result_of_others_tells_of_all_steps) {
  JobLedger ledger(100);
  ledger.on_committed(at(10), step_of(3, {1}));
  const collective::DataFingerprint all{Digest{7, 8}, 90};
  ledger.on_result(at(20), 30, all, Digest{5, 6});
  EXPECT_EQ(ledger.seen().committed, 30u);
  EXPECT_EQ(ledger.seen().running.sample_count, 90u);
  EXPECT_EQ(ledger.seen().state_digest, (Digest{5, 6}));
}

TEST(JobLedger, keeps_a_bounded_number_of_events) {
  JobLedger ledger(1);
  for (int i = 0; i < 5000; ++i) ledger.on_event(at(i), std::to_string(i));
  EXPECT_LE(ledger.history().events().size(), 1000u);
  EXPECT_EQ(ledger.history().events().back().text, "4999");
}

TEST(JobLedger, tells_how_long_the_job_stood_still_at_the_first_commit_of_a_view) {
  JobLedger ledger(1);
  ledger.on_view(view_of(1, 0, {1, 2}, {0}));
  ledger.on_committed(at(100), step_of(1));
  ledger.on_committed(at(200), step_of(2));
  EXPECT_TRUE(ledger.history().events().empty());
  ledger.on_view(view_of(2, 2, {1}, {0}));
  ledger.on_committed(at(950), step_of(3));
  ledger.on_committed(at(1000), step_of(4));
  ASSERT_EQ(ledger.history().events().size(), 1u);
  EXPECT_EQ(ledger.history().events()[0].text,
            "goes on with step 3, 0.750 s after the commit of step 2");
}

TEST(JobLedger, keeps_a_bounded_number_of_commits_with_view_and_state) {
  JobLedger ledger(1);
  ledger.on_view(view_of(7, 0, {1}, {0}));
  for (int step = 1; step <= 5000; ++step) ledger.on_committed(at(step), step_of(step));
  Digest state;
  state.low = 9;
  ledger.on_applied(4999, 0.5, state);
  EXPECT_LE(ledger.history().commits().size(), 4096u);
  const auto& last = ledger.history().commits()[ledger.history().commits().size() - 2];
  EXPECT_EQ(last.step, 4999u);
  EXPECT_EQ(last.view_id, 7u);
  EXPECT_EQ(last.state, state);
  EXPECT_EQ(ledger.history().commits().back().state, Digest{});
}

}  // namespace
}  // namespace gpunode::jobs
