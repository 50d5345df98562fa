#include "runtime/job/learner.hpp"

#include "tests/unit/runtime/job/learner_fixture.hpp"

namespace gpunode::job {
namespace {

TEST_F(LearnerTest, one_that_was_away_for_a_short_while_needs_the_results_alone) {
  stand_at(4);
  hear_both(6, 5);
  const auto reads = sent<ResultRead>(out_);
  ASSERT_FALSE(reads.empty());
  EXPECT_EQ(reads[0].second.step, 5u);
  EXPECT_TRUE(sent<StateAsk>(out_).empty());
  EXPECT_TRUE(learner_.is_under_way());
}

TEST_F(LearnerTest, results_are_given_in_order_each_once_the_one_before_is_applied) {
  stand_at(4);
  hear_both(6, 5);
  give_result(6);
  EXPECT_EQ(next(), 0u);
  give_result(5);
  EXPECT_EQ(next(), 5u);
  commit();
  EXPECT_EQ(next(), 0u) << "step 5 is being applied";
  apply();
  EXPECT_EQ(next(), 6u);
}

TEST_F(LearnerTest, what_nobody_told_or_who_is_no_member_told_is_not_followed) {
  learner_.on_tick(out_);
  hear_status(9, 6, 5);
  learner_.on_status(node(2), {6, false, false, 5, {}}, out_);
  hear_status(2, 6, 0);
  EXPECT_TRUE(sent<ResultRead>(out_).empty());
}

TEST_F(LearnerTest, who_is_too_far_behind_for_results_is_cut_off_and_fetches_a_state) {
  stand_at(2);
  hear_both(6, 5);
  EXPECT_TRUE(reports(out_, "no longer kept by the members"));
  EXPECT_EQ(states_asked().front(), 6u);
  EXPECT_TRUE(learner_.take_cut());
  EXPECT_FALSE(learner_.take_cut()) << "told once";
}

TEST_F(LearnerTest, a_state_of_another_history_is_not_followed_but_fetched) {
  install(next_history({2, 3}, 0));
  job_.wants_in = true;
  stand_at(4);
  job_.progress.follow({7, 7});
  hear_both(6, 5);
  EXPECT_EQ(states_asked().front(), 6u);
  EXPECT_TRUE(sent<ResultRead>(out_).empty());
}

TEST_F(LearnerTest, a_state_that_has_come_is_given_once_with_its_history) {
  stand_at(2);
  hear_both(6, 5);
  give_state(6);
  const auto state = learner_.take_state();
  ASSERT_TRUE(state);
  EXPECT_EQ(state->meta.step, 6u);
  EXPECT_EQ(state->history, job_.view().history());
  EXPECT_EQ(to_bytes(state->bytes.view), kState);
  EXPECT_FALSE(learner_.take_state());
  EXPECT_FALSE(learner_.is_under_way());
}

TEST_F(LearnerTest, after_a_state_the_results_since_are_followed) {
  stand_at(2);
  hear_both(6, 5);
  give_state(6);
  learner_.take_state();
  stand_at(6);
  learner_.on_installed();
  out_.clear();
  hear_both(8, 5);
  ASSERT_FALSE(sent<ResultRead>(out_).empty());
  EXPECT_EQ(sent<ResultRead>(out_)[0].second.step, 7u);
}

TEST_F(LearnerTest, a_state_that_members_have_copied_already_is_taken_instead) {
  stand_at(2);
  hear_both(6, 5);
  give_state(5);
  ASSERT_TRUE(learner_.fetch() == std::nullopt);
  EXPECT_EQ(learner_.take_state()->meta.step, 5u);
}

TEST_F(LearnerTest, a_state_that_is_here_already_or_of_another_history_is_not_taken) {
  stand_at(2);
  hear_both(6, 5);
  give_state(2);
  learner_.on_offer(node(2), {1, 99}, {6, kState.size(), block_digest_of(kState), {}, {}}, out_);
  EXPECT_FALSE(learner_.fetch()->meta());
  EXPECT_FALSE(learner_.take_state());
}

TEST_F(LearnerTest, a_step_that_all_have_passed_is_given_up_for_one_further_ahead) {
  stand_at(2);
  hear_both(5, 5);
  EXPECT_EQ(states_asked().back(), 5u);
  hear_both(7, 7);
  pass(249ms);
  learner_.on_tick(out_);
  EXPECT_EQ(states_asked().back(), 5u);
  pass(1ms);
  learner_.on_tick(out_);
  EXPECT_EQ(states_asked().back(), 10u) << "twice as far as was passed, within the job";
}

TEST_F(LearnerTest, a_state_from_which_no_results_lead_on_is_given_up_for_a_newer_one) {
  stand_at(2);
  hear_both(6, 5);
  StateMeta meta{6, 20, digest(1006), {}, {}};
  learner_.on_offer(node(2), {}, meta, out_);
  ASSERT_TRUE(learner_.fetch()->meta());
  hear_both(9, 8);
  EXPECT_TRUE(reports(out_, "a newer one fetched"));
  EXPECT_EQ(states_asked().back(), 9u);
}

TEST_F(LearnerTest, the_way_to_the_state_of_another_history_begins_anew) {
  stand_at(4);
  hear_both(6, 5);
  const view::View before = install(next_history({2, 3}, 6));
  learner_.on_view(before);
  EXPECT_FALSE(learner_.is_under_way());
  learner_.on_tick(out_);
  EXPECT_TRUE(sent<StateAsk>(out_).empty()) << "no member of it has told where it is";
}

TEST_F(LearnerTest, a_view_of_the_same_history_takes_nothing_of_what_is_under_way) {
  stand_at(4);
  hear_both(6, 5);
  learner_.on_view(enter({3, 4}));
  EXPECT_TRUE(learner_.is_under_way());
  give_result(5);
  EXPECT_EQ(next(), 0u) << "what was asked of node 2 is lost with it";
  hear_status(3, 6, 5);
  give_result(5);
  EXPECT_EQ(next(), 5u);
}

TEST_F(LearnerTest, who_is_gone_or_dials_anew_is_asked_again) {
  stand_at(4);
  hear_both(5, 5);
  const std::size_t asked = sent<ResultRead>(out_).size();
  learner_.on_reconnected(node(2));
  learner_.on_reconnected(node(3));
  learner_.on_tick(out_);
  EXPECT_EQ(sent<ResultRead>(out_).size(), 2 * asked);
  learner_.on_gone(node(2));
  learner_.on_gone(node(3));
  learner_.on_tick(out_);
  EXPECT_EQ(sent<ResultRead>(out_).size(), 2 * asked) << "nobody is left to ask";
}

TEST_F(LearnerTest, who_takes_no_part_or_finds_no_room_learns_nothing) {
  stand_at(4);
  job_.wants_in = false;
  hear_both(6, 5);
  job_.wants_in = true;
  job_.options.wanted_nodes = 2;
  hear_both(6, 5);
  job_.options.wanted_nodes = 3;
  job_.finished = true;
  hear_both(6, 5);
  job_.finished = false;
  job_.work_lost = true;
  hear_both(6, 5);
  job_.work_lost = false;
  job_.takes_result = true;
  hear_both(6, 5);
  EXPECT_FALSE(learner_.is_under_way());
  EXPECT_TRUE(out_.empty());
}

TEST_F(LearnerTest, of_a_stopped_job_nothing_is_learnt) {
  view::View stopped = next_view({2, 3});
  stopped.stopped = true;
  install(stopped);
  hear_both(6, 1);
  EXPECT_FALSE(learner_.is_under_way());
}

TEST_F(LearnerTest, what_is_under_way_ends_when_it_learns_no_more) {
  stand_at(4);
  hear_both(6, 5);
  job_.wants_in = false;
  learner_.on_tick(out_);
  EXPECT_FALSE(learner_.is_under_way());
}

TEST_F(LearnerTest, it_asks_to_come_in_twice_a_second_wherever_somebody_may_know_the_job) {
  learner_.join_tick(out_);
  EXPECT_EQ(receivers<JoinAsk>(out_), (std::vector{node(2), node(3), node(9)}));
  pass(499ms);
  EXPECT_FALSE(join());
  pass(1ms);
  EXPECT_TRUE(join());
  learner_.on_join_wanted();
  EXPECT_TRUE(join()) << "it was asked to a moment ago";
}

TEST_F(LearnerTest, while_it_learns_it_shows_the_members_ten_times_a_second_how_far_it_is) {
  stand_at(4);
  hear_both(6, 5);
  join();
  pass(100ms);
  give_result(5);
  Actions out;
  learner_.join_tick(out);
  EXPECT_EQ(receivers<JoinAsk>(out), (std::vector{node(2), node(3)}));
  EXPECT_EQ(sent<JoinAsk>(out)[0].second.received_bytes, 32u);
  EXPECT_EQ(sent<JoinAsk>(out)[0].second.step, 4u);
}

TEST_F(LearnerTest, in_a_full_job_it_asks_four_times_less_often) {
  job_.options.wanted_nodes = 2;
  join();
  pass(1999ms);
  EXPECT_FALSE(join());
  pass(1ms);
  EXPECT_TRUE(join());
}

TEST_F(LearnerTest, it_tells_whom_it_hears_and_what_is_on_its_disk) {
  job_.checkpoint = {4, digest(1004), {}, {}};
  hear(2);
  const auto ask = join();
  ASSERT_TRUE(ask);
  EXPECT_TRUE(ask->outside);
  EXPECT_EQ(ask->heard, std::vector{node(2)});
  EXPECT_EQ(ask->checkpoint, job_.checkpoint.name());
  EXPECT_EQ(ask->checkpoint_digest, digest(1004));
  pass(1s);
  EXPECT_TRUE(join()->heard.empty()) << "it has gone silent";
}

TEST_F(LearnerTest, who_has_its_state_is_through_or_wants_nothing_does_not_ask) {
  job_.wants_in = false;
  EXPECT_FALSE(join());
  job_.wants_in = job_.finished = true;
  EXPECT_FALSE(join());
  job_.finished = false;
  enter({1, 2});
  EXPECT_FALSE(join());
  job_.state_ready = false;
  ASSERT_TRUE(learner_.is_late() || join()) << "it is a member that lacks its state";
}

TEST_F(LearnerTest, it_is_ready_when_a_step_at_most_is_missing) {
  stand_at(4);
  hear_both(6, 5);
  EXPECT_FALSE(join()->ready);
  give_result(5);
  apply_next();
  pass(500ms);
  EXPECT_TRUE(join()->ready);
  pass(501ms);
  EXPECT_FALSE(join()->ready) << "no member has told for a second";
}

TEST_F(LearnerTest, once_its_pace_is_known_it_is_ready_when_little_time_is_missing) {
  job_.options.total_steps = 100;
  stand_at(4);
  hear_both(8, 5);
  for (std::uint64_t step = 5; step <= 8; ++step) {
    give_result(step);
    pass(50ms);
    apply_next();
  }
  hear_both(13, 5);
  EXPECT_TRUE(join()->ready) << "five steps of 50 ms";
  hear_both(14, 5);
  pass(500ms);
  EXPECT_FALSE(join()->ready);
}

TEST_F(LearnerTest, that_it_is_up_to_date_is_told_with_what_it_cost) {
  stand_at(4);
  hear_both(5, 5);
  give_result(5);
  pass(2s);
  apply_next();
  learner_.on_up_to_date(out_);
  EXPECT_TRUE(reports(out_, "is up to date at step 5"));
  EXPECT_TRUE(reports(out_, "in 2.0 s, results of 1 steps"));
  EXPECT_FALSE(learner_.is_under_way());
  out_.clear();
  learner_.on_up_to_date(out_);
  EXPECT_TRUE(out_.empty());
}

TEST_F(LearnerTest, its_way_is_shown_to_people) {
  stand_at(2);
  hear_both(6, 5);
  give_state(6);
  hear_both(7, 5);
  learner_.on_offer(node(2), {}, {7, kState.size(), digest(5), {}, {}}, out_);
  pass(3s);
  JobStatus status;
  learner_.tell(status);
  EXPECT_EQ(status.waiting_for, (std::vector{node(2), node(3)}));
  EXPECT_EQ(status.sync_total_bytes, kState.size());
  EXPECT_EQ(status.sync_received_bytes, kState.size());
  EXPECT_EQ(status.sync_behind, 5u);
  EXPECT_EQ(status.sync_time, 3s);
}

TEST_F(LearnerTest, whom_nobody_answers_for_five_seconds_says_for_whom_it_waits) {
  pass(4999ms);
  EXPECT_FALSE(learner_.is_unanswered());
  pass(1ms);
  EXPECT_TRUE(learner_.is_unanswered());
  JobStatus status;
  learner_.tell(status);
  EXPECT_EQ(status.waiting_for, (std::vector{node(2), node(3)}));
  EXPECT_FALSE(status.reason.empty());
  hear(3);
  EXPECT_FALSE(learner_.is_unanswered());
  pass(1s);
  die(3);
  EXPECT_TRUE(learner_.is_unanswered()) << "what it said is no answer any more";
}

TEST_F(LearnerTest, who_votes_or_wants_nothing_waits_for_no_answer) {
  pass(1h);
  EXPECT_TRUE(learner_.is_unanswered());
  job_.wants_in = false;
  EXPECT_FALSE(learner_.is_unanswered());
  job_.wants_in = true;
  job_.work_lost = true;
  EXPECT_FALSE(learner_.is_unanswered()) << "it asks nobody while its own work hangs";
  job_.work_lost = false;
  enter({2, 3}, {1});
  pass(1h);
  EXPECT_FALSE(learner_.is_unanswered());
}

}  // namespace
}  // namespace gpunode::job
