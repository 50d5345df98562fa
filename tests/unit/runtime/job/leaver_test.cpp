#include "runtime/job/leaver.hpp"

#include "tests/unit/runtime/job/context_fixture.hpp"

namespace gpunode::job {
namespace {

using Ask = Leaver::Ask;

// Members 1 and 2 after step 5.
class LeaverTest : public ContextTest {
 protected:
  LeaverTest() {
    enter({1, 2});
    stand_at(5);
  }
  Ask tick() { return leaver_.on_tick(facts_, out_); }
  Ask tick_after(Duration time) {
    for (; time > 1s; time -= 1s) {
      pass(1s);
      tick();
    }
    pass(time);
    return tick();
  }
  void enter_without_it(const view::View& view) { leaver_.on_view(install(view)); }
  void be_alone() { leaver_.on_view(enter({1})); }
  void keep(std::uint64_t step) { job_.checkpoint = {step, digest(1000 + step), {}, {}}; }
  bool has_left() const { return !of<Left>(out_).empty(); }
  std::size_t saves() const { return of<SaveState>(out_).size(); }

  Leaver::Facts facts_;
  Leaver leaver_{job_};
};

TEST_F(LeaverTest, who_was_not_asked_to_leave_stays) {
  facts_.stuck = true;
  EXPECT_EQ(tick_after(1h), Ask::nothing);
  EXPECT_FALSE(leaver_.leaves());
  EXPECT_FALSE(leaver_.try_now());
  EXPECT_TRUE(out_.empty());
}

TEST_F(LeaverTest, a_view_without_it_is_due_between_two_steps_and_again_after_a_second) {
  EXPECT_TRUE(leaver_.begin(30s));
  EXPECT_TRUE(leaver_.leaves());
  EXPECT_EQ(tick(), Ask::nothing) << "there is time to finish the step";
  EXPECT_TRUE(leaver_.try_now());
  pass(999ms);
  EXPECT_FALSE(leaver_.try_now());
  pass(1ms);
  EXPECT_TRUE(leaver_.try_now());
}

TEST_F(LeaverTest, who_leaves_already_leaves_earlier_but_not_later) {
  leaver_.begin(30s);
  EXPECT_FALSE(leaver_.begin(31s));
  EXPECT_FALSE(leaver_.begin(kWhenOthersCan));
  EXPECT_TRUE(leaver_.begin(10s));
  tick_after(10s);
  EXPECT_TRUE(has_left());
}

TEST_F(LeaverTest, with_less_time_than_two_steps_it_does_not_wait_for_the_step_to_end) {
  leaver_.begin(30s);
  facts_.step_time = 15s;
  EXPECT_EQ(tick(), Ask::nothing);
  EXPECT_EQ(tick_after(1ms), Ask::end_view);
  EXPECT_EQ(tick_after(1ms), Ask::nothing) << "it was asked for a moment ago";
  EXPECT_EQ(tick_after(1s), Ask::end_view);
}

TEST_F(LeaverTest, who_lacks_the_state_has_no_step_to_finish) {
  job_.state_ready = false;
  leaver_.begin(30s);
  EXPECT_EQ(tick(), Ask::end_view);
}

TEST_F(LeaverTest, a_view_that_ends_already_need_not_be_ended) {
  job_.state_ready = false;
  leaver_.begin(30s);
  want_change();
  EXPECT_EQ(tick(), Ask::nothing);
}

TEST_F(LeaverTest, outside_it_stays_until_the_others_know_the_view_it_voted_on) {
  leaver_.begin(30s);
  leaver_.on_view(enter({2}));
  EXPECT_EQ(tick(), Ask::ask_members);
  EXPECT_EQ(tick_after(49ms), Ask::nothing);
  EXPECT_EQ(tick_after(1ms), Ask::ask_members);
  facts_.others_know = true;
  EXPECT_EQ(tick(), Ask::nothing);
  EXPECT_TRUE(has_left());
  EXPECT_TRUE(reports(out_, "leaves the job after step 5"));
}

TEST_F(LeaverTest, who_did_not_vote_on_the_view_leaves_at_once) {
  view::View next = next_view({1, 2});
  next.acceptors = {node(2)};
  install(next);
  leaver_.begin(30s);
  leaver_.on_view(enter({2}));
  tick();
  EXPECT_TRUE(has_left());
}

TEST_F(LeaverTest, it_is_left_once) {
  leaver_.begin(30s);
  tick_after(30s);
  tick_after(30s);
  EXPECT_EQ(of<Left>(out_).size(), 1u);
  EXPECT_TRUE(reports(out_, "its time to leave is over"));
  EXPECT_TRUE(job_.holding) << "a member that may be ended commits nothing more";
  EXPECT_TRUE(leaver_.leaves());
}

TEST_F(LeaverTest, outside_too_its_time_ends) {
  leaver_.begin(30s);
  leaver_.on_view(enter({2}));
  tick_after(30s);
  EXPECT_TRUE(has_left());
  EXPECT_FALSE(job_.holding);
}

TEST_F(LeaverTest, time_in_which_it_stood_still_does_not_count) {
  leaver_.begin(30s);
  tick();
  pass(60s);
  tick();
  EXPECT_FALSE(has_left());
  tick_after(29s);
  EXPECT_FALSE(has_left());
  tick_after(1s);
  EXPECT_TRUE(has_left());
}

TEST_F(LeaverTest, who_gives_the_members_their_state_stays_until_they_have_it) {
  view::View next = next_view({2});
  next.acceptors = {node(2)};
  next.restores = true;
  next.base_step = 4;
  next.sync_sources = {node(1)};
  install(next_view({2}));
  leaver_.begin(30s);
  leaver_.on_view(install(next));
  EXPECT_EQ(tick(), Ask::ask_members);
  EXPECT_FALSE(has_left());
  facts_.others_know = true;
  tick();
  EXPECT_TRUE(has_left());
}

TEST_F(LeaverTest, a_view_that_names_it_again_as_nobody_else_was_there_is_left_too) {
  leaver_.begin(30s);
  leaver_.on_view(enter({2}));
  leaver_.on_view(enter({1, 2}));
  EXPECT_TRUE(leaver_.try_now());
}

TEST_F(LeaverTest, who_comes_back_stays_and_computes) {
  leaver_.begin(30s);
  be_alone();
  tick();
  EXPECT_TRUE(job_.holding);
  leaver_.take_back();
  EXPECT_FALSE(job_.holding);
  EXPECT_FALSE(leaver_.leaves());
  tick_after(1h);
  EXPECT_FALSE(has_left());
}

TEST_F(LeaverTest, a_voter_of_an_earlier_life_has_to_change_the_view_itself) {
  view::View next = next_view({1, 2});
  next.members[0].boot = 9;
  install(next);
  leaver_.begin(30s);
  EXPECT_EQ(tick(), Ask::want_change);
}

TEST_F(LeaverTest, a_witness_tells_every_second_that_it_leaves_and_waits_five_to_be_replaced) {
  enter({2}, {1, 3});
  leaver_.begin(30s);
  EXPECT_EQ(tick(), Ask::tell_it_leaves);
  EXPECT_EQ(tick_after(999ms), Ask::nothing);
  EXPECT_EQ(tick_after(1ms), Ask::tell_it_leaves);
  pass(3999ms);
  EXPECT_EQ(tick(), Ask::tell_it_leaves);
  EXPECT_FALSE(has_left());
  tick_after(1ms);
  EXPECT_TRUE(has_left());
}

TEST_F(LeaverTest, a_witness_of_a_job_that_is_finished_or_stopped_waits_for_nobody) {
  view::View stopped = next_view({2}, {1, 3});
  stopped.stopped = true;
  install(stopped);
  leaver_.begin(30s);
  tick();
  EXPECT_TRUE(has_left());
  out_.clear();
  stopped = next_view({2}, {1, 3});
  stopped.stopped = false;
  install(stopped);
  job_.finished = true;
  leaver_.begin(30s);
  tick();
  EXPECT_TRUE(has_left());
}

TEST_F(LeaverTest, the_last_holder_saves_the_state_and_leaves_when_it_is_durable) {
  be_alone();
  leaver_.begin(30s);
  tick();
  EXPECT_TRUE(reports(out_, "nobody is on the way in"));
  ASSERT_EQ(saves(), 1u);
  EXPECT_EQ(of<SaveState>(out_)[0].step, 5u);
  EXPECT_TRUE(job_.holding) << "no step follows the one that is saved";
  facts_.durable = true;
  tick();
  EXPECT_FALSE(has_left()) << "an older one is";
  keep(5);
  facts_.copies = 2;
  tick();
  EXPECT_TRUE(has_left());
  EXPECT_TRUE(reports(out_, "step 5 is durable here and on 2 other nodes"));
}

TEST_F(LeaverTest, copies_are_waited_for_seven_seconds_and_while_they_are_read) {
  be_alone();
  leaver_.begin(30s);
  tick();
  keep(5);
  tick();
  tick_after(6999ms);
  EXPECT_FALSE(has_left());
  facts_.copies_read = true;
  tick_after(1s);
  EXPECT_FALSE(has_left());
  facts_.copies_read = false;
  tick();
  EXPECT_TRUE(has_left());
}

TEST_F(LeaverTest, a_checkpoint_of_that_step_is_not_written_twice) {
  keep(5);
  be_alone();
  leaver_.begin(30s);
  tick();
  EXPECT_EQ(saves(), 0u);
  facts_.durable = true;
  tick();
  EXPECT_TRUE(has_left());
}

TEST_F(LeaverTest, before_the_first_step_there_is_nothing_to_save) {
  stand_at(0);
  be_alone();
  facts_.durable = true;
  leaver_.begin(30s);
  tick();
  tick();
  EXPECT_EQ(saves(), 0u);
  EXPECT_TRUE(has_left());
}

TEST_F(LeaverTest, a_step_that_is_being_applied_is_saved_after_that) {
  be_alone();
  commit();
  leaver_.begin(30s);
  tick();
  EXPECT_TRUE(job_.holding);
  EXPECT_EQ(saves(), 0u);
  apply();
  tick();
  EXPECT_EQ(of<SaveState>(out_)[0].step, 6u);
}

TEST_F(LeaverTest, a_step_that_a_view_brings_meanwhile_is_saved_instead) {
  be_alone();
  leaver_.begin(30s);
  tick();
  commit();
  apply();
  keep(5);
  facts_.durable = true;
  tick();
  EXPECT_FALSE(has_left());
  EXPECT_EQ(of<SaveState>(out_)[1].step, 6u);
}

TEST_F(LeaverTest, the_last_holder_waits_for_who_comes_until_it_is_time_to_save) {
  be_alone();
  facts_.somebody_comes = true;
  leaver_.begin(30s);
  tick();
  EXPECT_TRUE(reports(out_, "when the node on its way in is ready"));
  tick_after(19999ms);
  EXPECT_EQ(saves(), 0u);
  EXPECT_FALSE(job_.holding);
  tick_after(1ms);
  EXPECT_EQ(saves(), 1u) << "ten seconds before its time is over";
  EXPECT_EQ(of<Report>(out_).size(), 1u) << "it is told once";
}

TEST_F(LeaverTest, of_a_short_time_half_is_for_saving) {
  be_alone();
  facts_.somebody_comes = true;
  leaver_.begin(8s);
  tick_after(3999ms);
  EXPECT_EQ(saves(), 0u);
  tick_after(1ms);
  EXPECT_EQ(saves(), 1u);
}

TEST_F(LeaverTest, who_is_left_in_late_saves_as_if_it_were_the_last) {
  leaver_.begin(30s);
  EXPECT_TRUE(leaver_.try_now());
  tick_after(19999ms);
  EXPECT_EQ(saves(), 0u);
  tick_after(1ms);
  EXPECT_EQ(saves(), 1u) << "no view came";
}

TEST_F(LeaverTest, without_a_quorum_everybody_is_the_last) {
  leaver_.begin(30s);
  facts_.stuck = facts_.somebody_comes = true;
  tick();
  EXPECT_EQ(saves(), 1u);
  EXPECT_TRUE(of<Report>(out_).empty());
}

TEST_F(LeaverTest, a_view_without_it_ends_its_saving) {
  leaver_.begin(30s);
  facts_.stuck = true;
  tick();
  leaver_.on_view(enter({2}));
  EXPECT_FALSE(job_.holding);
  EXPECT_EQ(tick(), Ask::ask_members);
}

TEST_F(LeaverTest, who_leaves_when_others_can_goes_on_while_it_is_the_last) {
  be_alone();
  leaver_.begin(kWhenOthersCan);
  tick_after(1h);
  facts_.stuck = true;
  tick_after(1h);
  EXPECT_TRUE(out_.empty());
  EXPECT_FALSE(job_.holding);
  leaver_.on_view(enter({1, 2}));
  EXPECT_TRUE(leaver_.try_now());
}

TEST_F(LeaverTest, after_the_last_step_it_stays_until_all_are_through) {
  stand_at(10);
  leaver_.begin(30s);
  tick();
  EXPECT_FALSE(has_left());
  job_.finished = true;
  tick();
  EXPECT_TRUE(has_left());
  EXPECT_EQ(saves(), 0u) << "the others have it";
}

TEST_F(LeaverTest, a_lone_member_does_not_leave_with_the_result_in_memory) {
  stand_at(10);
  be_alone();
  job_.finished = true;
  facts_.durable = true;
  leaver_.begin(30s);
  tick();
  EXPECT_EQ(saves(), 1u);
  tick();
  EXPECT_FALSE(has_left());
  keep(10);
  tick();
  EXPECT_TRUE(has_left());
}

TEST_F(LeaverTest, who_is_through_with_the_result_of_others_has_nothing_to_save) {
  stand_at(10);
  be_alone();
  job_.state_ready = false;
  job_.finished = job_.through = true;
  leaver_.begin(kWhenOthersCan);
  tick();
  EXPECT_TRUE(has_left());
  EXPECT_EQ(saves(), 0u);
}

TEST_F(LeaverTest, who_has_left_and_is_asked_to_leave_again_leaves_again) {
  leaver_.begin(30s);
  tick_after(30s);
  EXPECT_TRUE(leaver_.begin(30s));
  EXPECT_FALSE(job_.holding);
  tick_after(30s);
  EXPECT_EQ(of<Left>(out_).size(), 2u);
}

TEST_F(LeaverTest, asked_to_leave_sooner_the_last_holder_saves_again_what_is_not_on_its_disk) {
  be_alone();
  leaver_.begin(30s);
  tick();
  leaver_.begin(20s);
  EXPECT_FALSE(job_.holding);
  tick();
  EXPECT_EQ(saves(), 2u);
}

}  // namespace
}  // namespace gpunode::job
