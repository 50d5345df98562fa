#include "runtime/job/joiners.hpp"

#include "tests/unit/runtime/job/context_fixture.hpp"

namespace gpunode::job {
namespace {

// Nodes 1 and 2 are members after step 5, there is room for a third.
class JoinersTest : public ContextTest {
 protected:
  JoinersTest() {
    enter({1, 2});
    stand_at(5);
  }
  static JoinAsk ask_of(std::uint64_t step, bool ready = false) {
    JoinAsk ask;
    ask.fingerprint = digest(77);
    ask.step = step;
    ask.ready = ready;
    return ask;
  }
  Joiners::Answer join(int number, const JoinAsk& ask, Boot boot = 1) {
    return joiners_.on_join(node(number), boot, true, ask, out_);
  }
  // As members see it who keep all results.
  bool is_ready(int number) const {
    for (const Joining& one : joiners_.joining(1))
      if (one.member.node == node(number)) return one.ready;
    return false;
  }
  bool is_asking(int number) const {
    for (const Joining& one : joiners_.joining(1))
      if (one.member.node == node(number)) return true;
    return false;
  }

  Joiners joiners_{job_};
};

TEST_F(JoinersTest, who_asks_is_noted_with_what_it_has) {
  JoinAsk ask = ask_of(4);
  ask.checkpoint = {{}, 3};
  ask.checkpoint_digest = digest(8);
  EXPECT_EQ(join(3, ask, 7), Joiners::Answer::new_life);
  const auto joining = joiners_.joining(1);
  ASSERT_EQ(joining.size(), 1u);
  EXPECT_EQ(joining[0].member, (view::Member{node(3), 7}));
  EXPECT_EQ(joining[0].checkpoint, ask.checkpoint);
  EXPECT_EQ(joining[0].checkpoint_digest, digest(8));
  EXPECT_FALSE(joining[0].ready);
  EXPECT_TRUE(joiners_.anyone_asks());
  EXPECT_TRUE(out_.empty());
}

TEST_F(JoinersTest, who_computes_otherwise_is_told_why_it_is_refused) {
  JoinAsk ask = ask_of(4);
  ask.fingerprint = digest(78);
  EXPECT_EQ(join(3, ask), Joiners::Answer::refused);
  EXPECT_EQ(receivers<JoinRefused>(out_), std::vector{node(3)});
  EXPECT_FALSE(is_asking(3));
}

TEST_F(JoinersTest, while_the_job_forms_everybody_may_ask) {
  view::View forming = job_.view();
  forming.view_id = 0;
  install(forming);
  JoinAsk ask = ask_of(0);
  ask.fingerprint = digest(78);
  EXPECT_EQ(join(3, ask), Joiners::Answer::new_life);
  EXPECT_TRUE(is_asking(3));
}

TEST_F(JoinersTest, an_earlier_life_is_not_listened_to_any_more) {
  join(3, ask_of(4), 2);
  EXPECT_EQ(join(3, ask_of(5, true), 1), Joiners::Answer::old);
  EXPECT_FALSE(is_ready(3));
  EXPECT_EQ(join(3, ask_of(4), 2), Joiners::Answer::noted);
  EXPECT_EQ(join(3, ask_of(4), 3), Joiners::Answer::new_life);
}

TEST_F(JoinersTest, a_wish_is_fresh_for_three_seconds_unless_it_is_repeated) {
  join(3, ask_of(4));
  pass(2999ms);
  EXPECT_TRUE(joiners_.is_fresh(node(3)));
  join(3, ask_of(4));
  pass(2999ms);
  EXPECT_TRUE(is_asking(3));
  pass(1ms);
  EXPECT_FALSE(joiners_.is_fresh(node(3)));
  EXPECT_FALSE(is_asking(3));
  EXPECT_FALSE(joiners_.anyone_asks());
}

TEST_F(JoinersTest, who_is_gone_is_not_named) {
  join(3, ask_of(5, true));
  EXPECT_TRUE(joiners_.somebody_comes());
  die(3);
  EXPECT_FALSE(is_asking(3));
  EXPECT_FALSE(joiners_.somebody_comes());
}

TEST_F(JoinersTest, who_leaves_is_forgotten) {
  join(3, ask_of(5, true));
  joiners_.forget(node(3));
  EXPECT_FALSE(is_asking(3));
}

TEST_F(JoinersTest, who_says_that_it_is_ready_is_so_for_half_a_second) {
  join(3, ask_of(5, true));
  pass(499ms);
  EXPECT_TRUE(is_ready(3));
  pass(1ms);
  EXPECT_FALSE(is_ready(3));
  join(3, ask_of(5, true));
  EXPECT_TRUE(is_ready(3)) << "it said so again";
}

TEST_F(JoinersTest, the_word_of_another_view_makes_nobody_ready) {
  joiners_.on_join(node(3), 1, false, ask_of(5, true), out_);
  EXPECT_TRUE(is_asking(3));
  EXPECT_FALSE(is_ready(3));
}

TEST_F(JoinersTest, a_step_that_it_applies_just_now_takes_nothing_of_its_word_back) {
  stand_at(8);
  join(3, ask_of(8, true));
  join(3, ask_of(5));
  EXPECT_TRUE(is_ready(3));
}

TEST_F(JoinersTest, falling_behind_takes_its_word_back) {
  stand_at(9);
  join(3, ask_of(9, true));
  join(3, ask_of(5));
  EXPECT_FALSE(is_ready(3));
}

TEST_F(JoinersTest, an_old_word_of_a_node_that_stood_still_says_nothing_of_now) {
  stand_at(7);
  join(3, ask_of(3, true));
  EXPECT_FALSE(is_ready(3)) << "its pace is not known: three steps";
  job_.options.total_steps = 100;
  stand_at(36);
  join(3, ask_of(4, true));
  EXPECT_TRUE(is_ready(3)) << "its pace is known: 32 steps";
  join(4, ask_of(4, true));
  stand_at(37);
  join(4, ask_of(4, true));
  pass(500ms);
  EXPECT_FALSE(is_ready(4));
}

TEST_F(JoinersTest, nobody_is_ready_whose_results_are_not_kept_or_after_the_last_step) {
  join(3, ask_of(4, true));
  EXPECT_TRUE(joiners_.joining(5).front().ready);
  EXPECT_FALSE(joiners_.joining(6).front().ready) << "step 5 is what it lacks";
  stand_at(10);
  join(3, ask_of(10, true));
  EXPECT_FALSE(is_ready(3));
}

TEST_F(JoinersTest, who_is_named_by_a_view_is_on_its_way_no_longer) {
  join(3, ask_of(5, true));
  joiners_.on_view(enter({1, 2, 3}), 1);
  EXPECT_FALSE(is_asking(3));
  EXPECT_FALSE(joiners_.is_barred(node(3)));
}

TEST_F(JoinersTest, who_was_ready_and_is_not_named_is_barred_for_five_seconds) {
  join(3, ask_of(5, true));
  join(4, ask_of(1));
  joiners_.on_view(enter({1, 2}), 1);
  EXPECT_TRUE(joiners_.is_barred(node(3)));
  EXPECT_FALSE(joiners_.is_barred(node(4))) << "it was not ready";
  join(3, ask_of(5, true));
  EXPECT_FALSE(is_asking(3));
  pass(5s);
  join(3, ask_of(5, true));
  EXPECT_TRUE(is_ready(3));
}

TEST_F(JoinersTest, who_is_not_named_again_and_again_waits_longer_until_a_view_names_it) {
  for (const auto wait : {5s, 10s, 20s, 40s, 40s}) {
    join(3, ask_of(5, true));
    joiners_.on_view(enter({1, 2}), 1);
    pass(wait - 1ms);
    EXPECT_TRUE(joiners_.is_barred(node(3))) << wait.count();
    pass(1ms);
    EXPECT_FALSE(joiners_.is_barred(node(3))) << wait.count();
  }
  joiners_.on_view(enter({1, 2, 3}), 1);
  enter({1, 2});
  join(3, ask_of(5, true));
  joiners_.on_view(enter({1, 2}), 1);
  pass(5s);
  EXPECT_FALSE(joiners_.is_barred(node(3)));
}

TEST_F(JoinersTest, in_a_full_view_nobody_is_barred_for_not_being_named) {
  join(4, ask_of(5, true));
  joiners_.on_view(enter({1, 2, 3}), 1);
  EXPECT_FALSE(joiners_.is_barred(node(4)));
  EXPECT_FALSE(joiners_.has_learner()) << "there is no room";
}

TEST_F(JoinersTest, who_was_left_out_is_barred_but_not_its_next_life) {
  const view::View before = enter({1, 2, 3});
  joiners_.on_view(before, 1);
  joiners_.on_view(enter({1, 3}), 1);
  join(2, ask_of(5, true));
  EXPECT_FALSE(is_asking(2));
  join(2, ask_of(5, true), 2);
  EXPECT_TRUE(is_asking(2));
}

TEST_F(JoinersTest, a_newer_life_that_asked_already_is_not_barred_with_the_old_one) {
  join(2, ask_of(5), 2);
  joiners_.on_view(enter({1, 3}), 1);
  EXPECT_FALSE(joiners_.is_barred(node(2)));
}

TEST_F(JoinersTest, another_history_takes_back_what_was_ready) {
  join(3, ask_of(5, true));
  joiners_.on_history();
  EXPECT_TRUE(is_asking(3));
  EXPECT_FALSE(is_ready(3));
}

TEST_F(JoinersTest, a_member_that_does_not_get_on_with_its_state_is_barred) {
  JoinAsk ask = ask_of(0);
  ask.outside = false;
  for (int second = 0; second < 20; ++second, pass(1s)) {
    EXPECT_EQ(joiners_.bar_stuck_member(), std::nullopt);
    join(2, ask);
  }
  EXPECT_EQ(joiners_.bar_stuck_member(), node(2));
  pass(29s);
  EXPECT_TRUE(joiners_.is_barred(node(2)));
  pass(1s);
  EXPECT_FALSE(joiners_.is_barred(node(2)));
}

TEST_F(JoinersTest, bytes_that_arrive_are_progress_and_who_is_outside_takes_its_time) {
  JoinAsk ask = ask_of(0);
  for (int second = 0; second <= 30; ++second, pass(1s)) {
    join(3, ask);
    ++ask.received_bytes;
    join(2, ask);
  }
  EXPECT_EQ(joiners_.bar_stuck_member(), std::nullopt);
}

TEST_F(JoinersTest, reached_is_who_is_heard_and_hears_this_node) {
  JoinAsk ask = ask_of(5);
  join(4, ask);
  ask.heard = {node(2), node(1)};
  join(3, ask);
  EXPECT_EQ(joiners_.reached(), std::vector{node(3)});
  pass(1499ms);
  EXPECT_EQ(joiners_.reached().size(), 1u);
  pass(1ms);
  EXPECT_TRUE(joiners_.reached().empty());
  join(3, ask);
  die(3);
  EXPECT_TRUE(joiners_.reached().empty());
}

TEST_F(JoinersTest, a_member_that_asks_is_no_learner) {
  join(2, ask_of(5));
  EXPECT_TRUE(joiners_.anyone_asks());
  EXPECT_FALSE(joiners_.has_learner());
  join(3, ask_of(5));
  EXPECT_TRUE(joiners_.has_learner());
}

}  // namespace
}  // namespace gpunode::job
