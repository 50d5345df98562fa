#include "tests/unit/runtime/job/step_runner_fixture.hpp"

namespace gpunode::job {
namespace {

TEST_F(StepRunnerTest, a_step_begins_with_a_wish_for_this_members_share) {
  EXPECT_FALSE(runner_.under_way());
  const Compute asked = begin();
  EXPECT_EQ(asked.step, 5u);
  EXPECT_EQ(asked.nodes, std::vector{kOurs});
  EXPECT_FALSE(asked.discard_kept);
  EXPECT_TRUE(runner_.under_way());
  EXPECT_EQ(runner_.step(), 5u);
  EXPECT_EQ(runner_.began(), job_.now);
}

TEST_F(StepRunnerTest, a_step_is_complete_when_every_member_holds_the_same_result) {
  EXPECT_TRUE(compute(begin().id));
  EXPECT_FALSE(runner_.is_complete());
  EXPECT_FALSE(runner_.newly_held());
  compute_at_peer();
  EXPECT_TRUE(runner_.newly_held());
  EXPECT_FALSE(runner_.newly_held()) << "once a step";
  EXPECT_FALSE(runner_.is_complete()) << "the other has not confirmed it";
  talk();
  ASSERT_TRUE(runner_.is_complete());
  EXPECT_EQ(runner_.end().result().host().front(), 3.0f);
  EXPECT_FALSE(runner_.under_way());
}

TEST_F(StepRunnerTest, members_that_hold_different_results_disagree) {
  compute(begin().id);
  compute_at_peer();
  EXPECT_TRUE(hear(5, collective::Done{digest(666), {}, {}}));
  EXPECT_TRUE(runner_.exchange()->disagreed());
  EXPECT_FALSE(runner_.is_complete());
}

TEST_F(StepRunnerTest, what_of_the_result_is_here_may_be_made_use_of_before_the_commit) {
  compute(begin().id);
  compute_at_peer();
  runner_.tell_arrived(out_);
  const auto updates = of<SpeculativeUpdate>(out_);
  ASSERT_EQ(updates.size(), 1u);
  EXPECT_EQ(updates[0].step, 5u);
  EXPECT_EQ(updates[0].count, 8u);
  runner_.tell_arrived(out_);
  EXPECT_EQ(of<SpeculativeUpdate>(out_).size(), 1u);
}

TEST_F(StepRunnerTest, sums_travel_in_bulk_and_questions_do_not) {
  view::View turned = view_of_two();
  turned.owner_rotation = 1;  // node 2 owns the chunk
  runner_.on_view(false);
  install(turned);
  const Compute asked = begin();
  out_.clear();
  compute(asked.id);
  ASSERT_EQ(said<collective::PartialChunk>(), 1u);
  EXPECT_TRUE(of<Send>(out_)[0].bulk);
  out_.clear();
  pass(600ms);
  runner_.on_tick(out_);
  ASSERT_EQ(said<collective::Need>(), 1u);
  EXPECT_FALSE(of<Send>(out_)[0].bulk);
}

TEST_F(StepRunnerTest, a_sum_that_is_here_before_its_step_begins_is_not_asked_for) {
  EXPECT_FALSE(runner_.on_partial(partial(7), true, out_));
  EXPECT_TRUE(runner_.has_partials());
  EXPECT_TRUE(begin().nodes.empty());
  compute_at_peer();
  talk();
  EXPECT_TRUE(runner_.is_complete());
}

TEST_F(StepRunnerTest, a_sum_may_come_range_by_range_of_one_vector) {
  PartialRange half = partial(begin().id);
  half.count = 4;
  EXPECT_TRUE(runner_.on_partial(half, true, out_));
  PartialRange other = half;
  other.sum = floats(9);
  EXPECT_FALSE(runner_.on_partial(other, true, out_)) << "another vector";
  half.first = 4;
  EXPECT_TRUE(runner_.on_partial(half, true, out_));
  EXPECT_FALSE(runner_.on_partial(half, true, out_)) << "it is whole";
  compute_at_peer();
  talk();
  EXPECT_TRUE(runner_.is_complete());
}

TEST_F(StepRunnerTest, a_mere_range_of_an_older_order_is_void) {
  PartialRange half = partial(begin().id - 1);
  half.count = 4;
  EXPECT_FALSE(runner_.on_partial(half, true, out_));
  EXPECT_FALSE(runner_.has_partials());
}

TEST_F(StepRunnerTest, a_sum_that_does_not_fit_the_job_or_the_step_is_ignored) {
  const std::uint64_t order = begin().id;
  EXPECT_FALSE(runner_.on_partial(partial(order, 6), true, out_));
  PartialRange bad = partial(order);
  bad.node = {7, 0};
  EXPECT_FALSE(runner_.on_partial(bad, true, out_));
  bad = partial(order);
  bad.sum = std::make_shared<const std::vector<float>>(7);
  EXPECT_FALSE(runner_.on_partial(bad, true, out_));
  bad.sum = {};
  EXPECT_FALSE(runner_.on_partial(bad, true, out_));
  bad = partial(order);
  bad.first = 1;
  EXPECT_FALSE(runner_.on_partial(bad, true, out_)) << "beyond the end";
  EXPECT_FALSE(runner_.has_partials());
}

TEST_F(StepRunnerTest, where_the_step_may_not_go_on_the_sum_is_kept_for_the_next_view) {
  EXPECT_FALSE(runner_.on_partial(partial(begin().id), false, out_));
  EXPECT_TRUE(runner_.has_partials());
  EXPECT_EQ(runner_.on_view(false), std::nullopt);
  install(view_of_two());
  EXPECT_TRUE(begin().nodes.empty());
}

TEST_F(StepRunnerTest, a_sum_of_somebody_elses_share_is_kept_but_not_sent) {
  PartialRange theirs = partial(begin().id);
  theirs.node = kTheirs;
  EXPECT_FALSE(runner_.on_partial(theirs, true, out_));
  EXPECT_TRUE(runner_.has_partials());
}

TEST_F(StepRunnerTest, a_member_that_follows_another_plan_ends_the_view) {
  begin();
  const auto heard = runner_.on_message(node(2), 1, {5, digest(9), collective::Need{}}, out_);
  ASSERT_FALSE(heard);
  EXPECT_EQ(heard.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(heard.error().detail.find(node(2).short_text()), std::string::npos);
}

TEST_F(StepRunnerTest, messages_of_the_next_two_steps_are_kept_until_they_begin) {
  for (const std::uint64_t step : {4, 5, 6, 7}) EXPECT_TRUE(hear(step, collective::Need{}));
  const auto early = runner_.take_early();
  ASSERT_EQ(early.size(), 2u);
  EXPECT_EQ(early[0].second.step, 5u);
  EXPECT_EQ(early[1].second.step, 6u);
}

TEST_F(StepRunnerTest, who_lacks_the_views_state_counts_early_from_its_base) {
  stand_at(2);
  job_.state_ready = false;
  for (const std::uint64_t step : {3, 4, 5, 6, 7}) EXPECT_TRUE(hear(step, collective::Need{}));
  EXPECT_EQ(runner_.take_early().size(), 2u);
}

TEST_F(StepRunnerTest, what_came_of_a_view_ahead_is_early_in_that_view) {
  const view::View next = view_of_two();
  runner_.keep_early(node(2), {{1, 1}, next.name(), 1, StepMessage{5, {}, collective::Need{}}});
  runner_.keep_early(node(2), {{1, 1}, next.name(), 1, ViewAsk{}});
  install(next);
  runner_.on_view(false);
  EXPECT_EQ(runner_.take_early().size(), 1u);
}

TEST_F(StepRunnerTest, a_late_member_is_told_again_that_the_step_before_is_held_here) {
  complete_step();
  const Digest followed = runner_.plan().digest();
  commit_step();
  out_.clear();
  EXPECT_TRUE(hear(5, collective::Need{{}, {}, true}));
  ASSERT_EQ(said<collective::Done>(), 1u);
  EXPECT_EQ(sent<StepMessage>(out_)[0].second.plan, followed);
}

TEST_F(StepRunnerTest, a_new_connection_is_asked_for_what_is_missing_at_once) {
  begin();
  out_.clear();
  runner_.on_reconnected(1, out_);
  EXPECT_EQ(said<collective::Need>(), 1u);
}

TEST_F(StepRunnerTest, over_a_new_connection_the_step_before_is_confirmed_again) {
  complete_step();
  commit_step();
  out_.clear();
  runner_.on_reconnected(1, out_);
  EXPECT_EQ(said<collective::Done>(), 1u);
  EXPECT_EQ(sent<StepMessage>(out_)[0].second.step, 5u);
}

TEST_F(StepRunnerTest, a_silent_member_is_asked_after_half_a_second) {
  begin();
  out_.clear();
  runner_.on_tick(out_);
  EXPECT_TRUE(out_.empty());
  pass(500ms);
  runner_.on_tick(out_);
  EXPECT_EQ(said<collective::Need>(), 1u);
}

TEST_F(StepRunnerTest, a_view_ends_the_step_under_way) {
  begin();
  pass(3s);
  EXPECT_EQ(runner_.on_view(false), std::nullopt);
  EXPECT_FALSE(runner_.under_way());
  EXPECT_EQ(runner_.began(), job_.now);
  runner_.on_tick(out_);
}

TEST_F(StepRunnerTest, a_view_is_given_the_result_that_is_held) {
  compute(begin().id);
  compute_at_peer();
  const auto held = runner_.on_view(false);
  ASSERT_TRUE(held);
  EXPECT_EQ(held->result().host().front(), 3.0f);
  EXPECT_FALSE(runner_.under_way());
}

TEST_F(StepRunnerTest, a_held_result_that_does_not_follow_the_state_here_is_void) {
  compute(begin().id);
  compute_at_peer();
  stand_at(2);
  EXPECT_EQ(runner_.on_view(false), std::nullopt);
}

TEST_F(StepRunnerTest, a_view_that_computes_its_first_step_anew_wants_no_sum_of_before) {
  compute(begin().id);
  runner_.on_view(true);
  EXPECT_FALSE(runner_.has_partials());
  install(view_of_two());
  const Compute asked = begin();
  EXPECT_TRUE(asked.discard_kept);
  EXPECT_EQ(asked.nodes.size(), 1u);
  EXPECT_GT(asked.id, 1u);
}

TEST_F(StepRunnerTest, another_state_makes_void_what_the_driver_has_kept_once) {
  runner_.on_partial(partial(1), true, out_);
  runner_.on_state_replaced();
  EXPECT_FALSE(runner_.has_partials());
  EXPECT_TRUE(begin().discard_kept);
  runner_.on_view(false);
  install(view_of_two());
  EXPECT_FALSE(begin().discard_kept);
}

TEST_F(StepRunnerTest, each_done_tells_how_long_the_step_before_took_to_confirm_and_apply) {
  complete_step();
  runner_.newly_held();
  pass(300ms);
  EXPECT_EQ(commit_step(), 300'000u);
  pass(20ms);
  apply();
  runner_.on_applied();
  complete_step();
  const collective::AfterTimes before = runner_.exchange()->done().times.before;
  EXPECT_EQ(before.confirm_us, 300'000u);
  EXPECT_EQ(before.apply_us, 20'000u);
}

TEST_F(StepRunnerTest, the_plan_of_the_next_step_follows_from_what_all_told) {
  complete_step();
  commit_step();
  EXPECT_EQ(runner_.plan().paces().members.size(), 2u);
  EXPECT_FALSE(runner_.has_partials());
  apply();
  EXPECT_EQ(begin().step, 6u);
}

TEST_F(StepRunnerTest, a_step_that_takes_longer_than_the_last_counts_already) {
  begin();
  pass(2s);
  EXPECT_EQ(runner_.step_time(), 2s);
  compute(1);
  compute_at_peer();
  talk();
  commit_step();
  begin();
  EXPECT_EQ(runner_.step_time(), 2s);
  pass(3s);
  EXPECT_EQ(runner_.step_time(), 3s);
  runner_.begin_waiting();
  EXPECT_EQ(runner_.step_time(), 2s);
}

TEST_F(StepRunnerTest, computing_that_does_not_end_hangs_and_what_is_here_does_not) {
  const std::uint64_t order = begin().id;
  const auto hangs = [this] {
    bool told = false;
    for (int i = 0; i < 12; ++i, pass(1s)) told |= watchdog_.on_tick(job_.now).has_value();
    return told;
  };
  EXPECT_TRUE(hangs());
  compute(order);
  EXPECT_FALSE(watchdog_.hangs());
  EXPECT_FALSE(hangs());
}

TEST_F(StepRunnerTest, after_the_last_step_all_memory_is_let_go_of) {
  complete_step();
  commit_step();
  runner_.on_partial(partial(9, 6), true, out_);
  runner_.release();
  out_.clear();
  EXPECT_TRUE(hear(5, collective::Need{{}, {}, true}));
  EXPECT_TRUE(out_.empty()) << "nobody can be given its sums any more";
  EXPECT_FALSE(runner_.has_partials());
}

}  // namespace
}  // namespace gpunode::job
