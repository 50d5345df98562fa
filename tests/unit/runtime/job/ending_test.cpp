#include "runtime/job/ending.hpp"

#include "runtime/base/block_digest.hpp"
#include "tests/unit/runtime/job/context_fixture.hpp"

namespace gpunode::job {
namespace {

using Heard = Ending::Heard;

const Bytes kResult(20, std::byte{7});  // two parts
const HistoryId kForeign{1, 99};

class EndingTest : public ContextTest {
 protected:
  EndingTest() { enter({1, 2, 3}); }
  // Of a node that is through with the last step, whether it has the result or not.
  static StepStatus through(bool finished = true, bool result = true) {
    return {10, true, finished, 0, result && finished ? block_digest_of(kResult) : Digest{}};
  }
  Heard hear_of(int from, const StepStatus& status, const HistoryId& history) {
    return ending_.on_status(node(from), history, status, out_);
  }
  Heard hear_of(int from, const StepStatus& status) {
    return hear_of(from, status, job_.view().history());
  }
  void be_outside(bool wants_in) {
    enter({2, 3});
    job_.wants_in = wants_in;
  }
  void give_meta(int from) {
    StateMeta meta{10, kResult.size(), block_digest_of(kResult), digest(2010), {}};
    ending_.on_message(node(from), meta, out_);
  }
  void give_part(int from, std::uint64_t offset) {
    const std::uint64_t length = std::min<std::uint64_t>(16, kResult.size() - offset);
    const auto payload = SharedBytes::from(kResult).part(offset, length);
    ending_.on_message(node(from), StatePart{block_digest_of(kResult), offset, payload}, out_);
  }
  std::size_t finished() const { return of<Finished>(out_).size(); }

  Joiners joiners_{job_};
  Ending ending_{job_, joiners_};
};

TEST_F(EndingTest, who_is_not_through_tells_nothing_of_the_end) {
  EXPECT_EQ(hear_of(2, {9, true, false, 1, {}}), Heard::nothing);
  EXPECT_EQ(hear_of(9, through(false)), Heard::nothing) << "it is no member";
  EXPECT_TRUE(out_.empty());
}

TEST_F(EndingTest, a_member_that_holds_the_state_goes_on_when_another_is_through) {
  stand_at(9);
  EXPECT_EQ(hear_of(2, through()), Heard::member_is);
  EXPECT_FALSE(job_.takes_result);
  EXPECT_FALSE(job_.finished);
}

TEST_F(EndingTest, who_wanted_to_be_a_member_fetches_the_result_by_its_digest) {
  be_outside(true);
  EXPECT_EQ(hear_of(2, through()), Heard::fetches);
  EXPECT_TRUE(job_.takes_result);
  EXPECT_TRUE(reports(out_, "fetches the result"));
  ending_.on_tick(out_);
  const auto asks = sent<StateAsk>(out_);
  ASSERT_EQ(asks.size(), 1u);
  EXPECT_EQ(asks[0].first, node(2));
  EXPECT_EQ(asks[0].second.step, 10u);
  EXPECT_EQ(asks[0].second.digest, block_digest_of(kResult));
}

TEST_F(EndingTest, who_wanted_nothing_is_through_without_the_result) {
  be_outside(false);
  EXPECT_EQ(hear_of(2, through()), Heard::is_through);
  EXPECT_TRUE(job_.finished);
  EXPECT_TRUE(job_.through);
  EXPECT_EQ(finished(), 1u);
  EXPECT_EQ(hear_of(3, through()), Heard::member_is) << "once";
}

TEST_F(EndingTest, who_is_finished_without_the_result_is_no_source_of_it) {
  be_outside(true);
  EXPECT_EQ(hear_of(2, through(true, false)), Heard::member_is);
  EXPECT_EQ(hear_of(2, through(false)), Heard::member_is);
  EXPECT_FALSE(job_.takes_result);
}

TEST_F(EndingTest, a_learner_that_has_come_to_the_end_itself_is_through_with_its_result) {
  be_outside(true);
  stand_at(9);
  commit();
  hear_of(2, through());
  EXPECT_FALSE(job_.finished) << "it is still being applied";
  apply();
  hear_of(2, through());
  EXPECT_TRUE(job_.finished);
  EXPECT_FALSE(job_.takes_result);
  EXPECT_TRUE(reports(out_, "its result is here"));
}

TEST_F(EndingTest, outside_a_node_that_is_no_member_is_believed_if_the_members_are_dead) {
  be_outside(false);
  EXPECT_EQ(hear_of(9, through()), Heard::nothing);
  die(2);
  die(3);
  EXPECT_EQ(hear_of(9, through()), Heard::is_through);
}

TEST_F(EndingTest, a_member_that_lacks_the_views_state_takes_the_result_instead) {
  job_.wants_in = true;
  job_.state_ready = false;
  EXPECT_EQ(hear_of(2, through()), Heard::fetches);
  EXPECT_FALSE(job_.can_exchange());
}

TEST_F(EndingTest, a_member_of_a_view_that_begins_with_the_result_gets_it_from_that_views_sources) {
  view::View last = next_view({1, 2, 3});
  last.base_step = 10;
  last.sync_sources = {node(2)};
  install(last);
  job_.wants_in = true;
  job_.state_ready = false;
  EXPECT_EQ(hear_of(2, through()), Heard::member_is);
  EXPECT_EQ(hear_of(9, through()), Heard::fetches);
}

TEST_F(EndingTest, the_result_of_another_history_ends_this_one) {
  stand_at(7);
  job_.wants_in = true;
  EXPECT_EQ(hear_of(9, through(), kForeign), Heard::nothing) << "anybody could say so";
  job_.peers.on_part({node(9)});
  EXPECT_EQ(hear_of(9, through(), kForeign), Heard::fetches);
  EXPECT_TRUE(reports(out_, "another part of the job has finished it"));
}

TEST_F(EndingTest, who_has_its_own_result_needs_that_of_no_other_history) {
  stand_at(10);
  job_.wants_in = true;
  job_.peers.on_part({node(9)});
  EXPECT_EQ(hear_of(9, through(), kForeign), Heard::is_through);
  EXPECT_TRUE(job_.finished);
  EXPECT_FALSE(job_.takes_result);
}

TEST_F(EndingTest, the_result_is_given_once_when_all_of_it_has_come) {
  be_outside(true);
  hear_of(2, through(), kForeign);
  give_part(2, 0);
  give_meta(2);
  give_part(2, 0);
  EXPECT_FALSE(ending_.take());
  EXPECT_EQ(ending_.received_bytes(), 16u);
  give_part(2, 16);
  const auto result = ending_.take();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->history, kForeign);
  EXPECT_EQ(to_bytes(result->bytes.view), kResult);
  EXPECT_FALSE(ending_.take());
}

TEST_F(EndingTest, while_it_is_fetched_whoever_has_it_too_is_one_source_more) {
  be_outside(true);
  hear_of(2, through());
  EXPECT_EQ(hear_of(3, through()), Heard::nothing);
  EXPECT_EQ(hear_of(9, {10, true, true, 0, digest(5)}), Heard::nothing) << "it has another result";
  EXPECT_EQ(ending_.sources(), (std::set{node(2), node(3)}));
  ending_.on_tick(out_);
  EXPECT_EQ(receivers<StateAsk>(out_), (std::vector{node(2), node(3)}));
}

TEST_F(EndingTest, while_it_is_loaded_nothing_is_fetched_again) {
  be_outside(true);
  hear_of(2, through());
  give_meta(2);
  give_part(2, 0);
  give_part(2, 16);
  EXPECT_EQ(hear_of(3, through()), Heard::nothing);
  ending_.take();
  EXPECT_EQ(hear_of(3, through()), Heard::nothing);
}

TEST_F(EndingTest, the_result_that_is_installed_ends_the_job_here) {
  be_outside(true);
  hear_of(2, through());
  ending_.on_installed(out_);
  EXPECT_FALSE(job_.finished) << "that was another state";
  stand_at(10);
  ending_.on_installed(out_);
  EXPECT_TRUE(job_.finished);
  EXPECT_TRUE(job_.through);
  EXPECT_FALSE(job_.wants_in);
  EXPECT_FALSE(job_.takes_result);
  EXPECT_EQ(finished(), 1u);
}

TEST_F(EndingTest, who_comes_to_the_end_itself_while_it_fetches_is_through_once) {
  stand_at(9);
  commit();
  job_.wants_in = true;
  job_.peers.on_part({node(8), node(9)});
  EXPECT_EQ(hear_of(9, through(), kForeign), Heard::fetches);
  apply();
  EXPECT_EQ(hear_of(8, through(), kForeign), Heard::is_through);
  EXPECT_FALSE(job_.takes_result);
  give_meta(9);
  give_part(9, 0);
  give_part(9, 16);
  EXPECT_FALSE(ending_.take());
  EXPECT_EQ(finished(), 1u);
}

TEST_F(EndingTest, when_nobody_is_left_that_has_it_the_job_goes_on_here) {
  be_outside(true);
  hear_of(2, through());
  hear_of(3, through());
  die(2);
  EXPECT_TRUE(ending_.on_tick(out_));
  die(3);
  EXPECT_FALSE(ending_.on_tick(out_));
  EXPECT_FALSE(job_.takes_result);
  EXPECT_TRUE(reports(out_, "is gone: this node waits for it"));
  EXPECT_EQ(hear_of(9, through()), Heard::fetches) << "somebody tells that has it";
}

TEST_F(EndingTest, who_gives_nothing_for_a_minute_is_waited_for_no_longer) {
  be_outside(true);
  hear_of(2, through());
  pass(59s);
  give_meta(2);
  give_part(2, 0);
  EXPECT_TRUE(ending_.on_tick(out_));
  pass(59999ms);
  EXPECT_TRUE(ending_.on_tick(out_));
  pass(1ms);
  EXPECT_FALSE(ending_.on_tick(out_));
  EXPECT_TRUE(reports(out_, "gives nothing of it"));
}

TEST_F(EndingTest, what_a_broken_connection_lost_is_asked_for_again) {
  be_outside(true);
  hear_of(2, through());
  give_meta(2);
  EXPECT_EQ(sent<StateRead>(out_).size(), 2u);
  ending_.on_tick(out_);
  EXPECT_EQ(sent<StateRead>(out_).size(), 2u) << "they are under way";
  ending_.on_reconnected(node(2));
  ending_.on_tick(out_);
  EXPECT_EQ(sent<StateRead>(out_).size(), 4u);
}

TEST_F(EndingTest, another_history_makes_void_what_is_fetched_and_what_was_told) {
  be_outside(true);
  hear_of(2, through());
  ending_.on_history();
  EXPECT_FALSE(job_.takes_result);
  EXPECT_TRUE(ending_.sources().empty());
  EXPECT_TRUE(ending_.on_tick(out_));
  EXPECT_TRUE(sent<StateAsk>(out_).empty());
}

// Members 1, 2 and 3 have just done the last step, as far as node 1 knows only itself.
class LastStepTest : public EndingTest {
 protected:
  LastStepTest() {
    stand_at(10);
    ending_.on_last_step();
  }
  std::size_t told() const { return sent<StepStatus>(out_).size(); }
  void finish() {
    hear_of(2, through(false));
    hear_of(3, through(false));
    ending_.tell(true, out_);
    ASSERT_TRUE(job_.finished);
    out_.clear();
  }
};

TEST_F(LastStepTest, the_others_are_told_again_and_again_until_they_have_told_too) {
  ending_.tell(true, out_);
  EXPECT_EQ(receivers<StepStatus>(out_), (std::vector{node(2), node(3)}));
  EXPECT_FALSE(sent<StepStatus>(out_)[0].second.finished);
  pass(299ms);
  ending_.tell(true, out_);
  EXPECT_EQ(told(), 2u);
  pass(1ms);
  ending_.tell(true, out_);
  EXPECT_EQ(told(), 4u);
  EXPECT_EQ(finished(), 0u);
}

TEST_F(LastStepTest, it_is_finished_once_when_all_have_told_and_says_so_with_the_result) {
  hear_of(2, through(false));
  ending_.tell(true, out_);
  EXPECT_FALSE(job_.finished);
  hear_of(3, through(false));
  ending_.tell(true, out_);
  ending_.tell(true, out_);
  EXPECT_EQ(finished(), 1u);
  const StepStatus last = sent<StepStatus>(out_).back().second;
  EXPECT_TRUE(last.finished);
  EXPECT_EQ(last.result, digest(1010));
}

TEST_F(LastStepTest, the_dead_and_those_that_never_answer_are_not_waited_for) {
  hear_of(2, through(false));
  die(3);
  ending_.tell(true, out_);
  EXPECT_TRUE(job_.finished);
}

TEST_F(LastStepTest, after_ten_seconds_it_is_finished_whoever_did_not_tell) {
  pass(9999ms);
  ending_.tell(true, out_);
  EXPECT_FALSE(job_.finished);
  pass(1ms);
  ending_.tell(true, out_);
  EXPECT_TRUE(job_.finished);
}

TEST_F(LastStepTest, nothing_is_told_before_it_is_certain_and_applied) {
  ending_.tell(false, out_);
  EXPECT_TRUE(out_.empty());
  stand_at(9);
  ending_.tell(true, out_);
  EXPECT_TRUE(out_.empty()) << "the last step is to come";
  commit();
  ending_.tell(true, out_);
  EXPECT_TRUE(out_.empty());
  apply();
  ending_.tell(true, out_);
  EXPECT_FALSE(out_.empty());
}

TEST_F(LastStepTest, who_still_tells_is_answered) {
  finish();
  hear_of(2, through(false));
  ASSERT_EQ(receivers<StepStatus>(out_), std::vector{node(2)});
  EXPECT_TRUE(sent<StepStatus>(out_)[0].second.finished);
  out_.clear();
  hear_of(2, through());
  EXPECT_TRUE(out_.empty()) << "it knows";
}

TEST_F(LastStepTest, gradients_are_let_go_of_once_when_all_are_through) {
  EXPECT_FALSE(ending_.releases());
  finish();
  EXPECT_TRUE(ending_.releases());
  EXPECT_FALSE(ending_.releases());
}

TEST_F(LastStepTest, gradients_are_held_for_a_minute_for_who_has_not_told_or_asks) {
  hear_of(2, through(false));
  die(3);
  ending_.tell(true, out_);
  EXPECT_FALSE(ending_.releases());
  hear_of(3, through(false));
  JoinAsk ask;
  ask.fingerprint = digest(77);
  joiners_.on_join(node(4), 1, true, ask, out_);
  EXPECT_FALSE(ending_.releases());
  pass(60s);
  joiners_.on_join(node(4), 1, true, ask, out_);
  EXPECT_TRUE(ending_.releases());
}

TEST_F(LastStepTest, whoever_asks_is_told_where_this_node_is) {
  StepStatus status = ending_.status(7);
  EXPECT_EQ(status.committed, 10u);
  EXPECT_TRUE(status.state_ready);
  EXPECT_EQ(status.results_from, 7u);
  EXPECT_EQ(status.result, Digest{}) << "not before it is certain";
  job_.state_ready = false;
  status = ending_.status(7);
  EXPECT_FALSE(status.state_ready);
  EXPECT_EQ(status.results_from, 0u);
  job_.finished = true;
  EXPECT_TRUE(ending_.status(7).state_ready) << "who has the result gives it, member or not";
  EXPECT_EQ(ending_.status(7).result, digest(1010));
}

}  // namespace
}  // namespace gpunode::job
