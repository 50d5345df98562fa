#include "runtime/job/stall_watch.hpp"

#include "tests/unit/runtime/job/context_fixture.hpp"

namespace gpunode::job {
namespace {

// The step of members 1, 2 and 3 began just now and lacks everything.
class StallWatchTest : public ContextTest {
 protected:
  StallWatchTest() {
    enter({1, 2, 3});
    stand_at(5);
    collective::AllReduce::Options options;
    options.member_count = 3;
    options.tree = job_.options.tree;
    options.plan = collective::balanced_plan(options.tree, 3);
    options.layout = collective::ChunkLayout::of(job_.options.element_count);
    options.add = job_.options.add;
    exchange_.emplace(std::move(options), job_.now);
    began_ = job_.now;
  }
  void tick_after(Duration time) {
    pass(time);
    watch_.on_tick(exchange_, began_, out_);
  }
  // Steps that take so long each, until that is usual.
  void practise(Duration time) {
    for (int i = 0; i < 2; ++i, pass(time)) watch_.on_commit(out_);
    watch_.on_commit(out_);
    began_ = job_.now;
  }

  std::optional<collective::AllReduce> exchange_;
  Time began_;
  StallWatch watch_{job_};
};

TEST_F(StallWatchTest, a_wait_is_told_once_it_lasts_half_a_second) {
  tick_after(499ms);
  EXPECT_TRUE(out_.empty());
  tick_after(1ms);
  EXPECT_TRUE(reports(out_, "step 6 waits for node " + node(2).short_text()));
  EXPECT_TRUE(reports(out_, "no partial sums"));
}

TEST_F(StallWatchTest, it_is_told_once_and_told_how_it_ended) {
  tick_after(500ms);
  tick_after(500ms);
  EXPECT_EQ(out_.size(), 1u);
  watch_.on_commit(out_);
  ASSERT_EQ(of<Report>(out_).size(), 2u);
  EXPECT_TRUE(reports(out_, "ended after"));
  EXPECT_TRUE(reports(out_, "it came"));
  EXPECT_EQ(of<Report>(out_)[1].lasted, 1s);
  watch_.on_commit(out_);
  EXPECT_EQ(out_.size(), 2u);
}

TEST_F(StallWatchTest, a_view_that_takes_the_steps_place_ends_the_wait) {
  tick_after(500ms);
  enter({1, 2});
  watch_.on_view(out_);
  EXPECT_TRUE(reports(out_, "view 2 takes its place"));
  EXPECT_EQ(watch_.stall(std::nullopt, began_), std::nullopt);
}

TEST_F(StallWatchTest, who_was_heard_least_recently_is_named) {
  pass(300ms);
  hear(2);
  tick_after(300ms);
  EXPECT_TRUE(reports(out_, node(3).short_text()));
}

TEST_F(StallWatchTest, what_is_unusual_depends_on_how_long_steps_usually_take) {
  practise(1s);
  EXPECT_EQ(watch_.usual_step(), 1s);
  tick_after(3999ms);
  EXPECT_TRUE(out_.empty());
  tick_after(1ms);
  EXPECT_EQ(out_.size(), 1u);
}

TEST_F(StallWatchTest, the_usual_step_follows_what_steps_take_by_an_eighth) {
  EXPECT_EQ(watch_.usual_step(), 0s);
  practise(800ms);
  pass(1600ms);
  watch_.on_commit(out_);
  EXPECT_EQ(watch_.usual_step(), 900ms);
}

TEST_F(StallWatchTest, the_time_across_a_view_is_no_steps_time) {
  watch_.on_commit(out_);
  pass(1h);
  watch_.on_view(out_);
  watch_.on_commit(out_);
  EXPECT_EQ(watch_.usual_step(), 0s);
}

TEST_F(StallWatchTest, without_a_step_nobody_is_waited_for) {
  exchange_.reset();
  tick_after(10s);
  EXPECT_TRUE(out_.empty());
  EXPECT_EQ(watch_.stall(exchange_, began_), std::nullopt);
}

TEST_F(StallWatchTest, the_stall_that_froze_the_view_stays_until_the_next) {
  pass(700ms);
  const auto stall = watch_.stall(exchange_, began_);
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->lack, collective::Lack::partial_sums);
  EXPECT_EQ(stall->lasts, 700ms);
  watch_.on_tick(exchange_, began_, out_);
  pass(1s);
  ASSERT_TRUE(watch_.stall(std::nullopt, began_)) << "nothing is exchanged any more";
  EXPECT_EQ(watch_.stall(std::nullopt, began_)->lasts, 1700ms);
}

TEST_F(StallWatchTest, every_lack_has_a_name) {
  using collective::Lack;
  EXPECT_EQ(to_string(Lack::partial_sums), "partial sums");
  EXPECT_EQ(to_string(Lack::results), "results");
  EXPECT_EQ(to_string(Lack::confirmation), "confirmation");
  EXPECT_EQ(to_string(Lack::nothing), "nothing");
}

}  // namespace
}  // namespace gpunode::job
