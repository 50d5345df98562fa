#include "runtime/job/watchdog.hpp"

#include <gtest/gtest.h>

namespace gpunode::job {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Work = Watchdog::Work;

// Ticks once a second, as a watchdog counts no more of one tick.
class WatchdogTest : public ::testing::Test {
 protected:
  std::optional<Watchdog::Hang> pass(int ticks) {
    std::optional<Watchdog::Hang> told;
    for (int i = 0; i < ticks; ++i) {
      if (auto hang = watchdog_.on_tick(now_ += seconds(1))) {
        EXPECT_FALSE(told) << "told once";
        told = hang;
      }
    }
    return told;
  }
  // The work is done so often, and takes so long each time.
  void practise(Work work, int times, int takes) {
    for (int i = 0; i < times; ++i) {
      watchdog_.asked(work, now_);
      pass(takes);
      watchdog_.done(work, now_);
    }
  }

  Watchdog watchdog_{{.multiple = 8, .least = seconds(10), .first = seconds(60)}};
  Time now_{};
};

TEST_F(WatchdogTest, nothing_hangs_that_was_not_asked_for) {
  EXPECT_FALSE(pass(1000));
  EXPECT_FALSE(watchdog_.hangs());
}

TEST_F(WatchdogTest, work_that_was_never_done_has_the_long_time) {
  pass(1);
  watchdog_.asked(Work::compute, now_);
  EXPECT_FALSE(pass(59));
  EXPECT_FALSE(watchdog_.hangs());
  const auto hang = pass(1);
  ASSERT_TRUE(hang);
  EXPECT_EQ(hang->work, Work::compute);
  EXPECT_EQ(hang->lasts, seconds(60));
  EXPECT_EQ(hang->usual, Duration{});
  EXPECT_NE(hang->text().find("never done here"), std::string::npos) << hang->text();
  EXPECT_TRUE(watchdog_.hangs());
  EXPECT_FALSE(pass(100)) << "it is told once";
}

TEST_F(WatchdogTest, work_that_was_done_has_a_multiple_of_its_time_and_no_less_than_the_least) {
  pass(1);
  practise(Work::compute, 3, 2);
  watchdog_.asked(Work::compute, now_);
  EXPECT_FALSE(pass(15));
  const auto hang = pass(1);
  ASSERT_TRUE(hang);
  EXPECT_EQ(hang->usual, seconds(2));
  EXPECT_NE(hang->text().find("usually takes 2.0 s"), std::string::npos) << hang->text();
  practise(Work::apply, 1, 1);
  watchdog_.asked(Work::apply, now_);
  EXPECT_FALSE(pass(9));
  EXPECT_TRUE(pass(1));
}

TEST_F(WatchdogTest, a_large_state_has_extra_time) {
  pass(1);
  practise(Work::install, 1, 1);
  watchdog_.asked(Work::install, now_, seconds(30));
  EXPECT_FALSE(pass(39));
  EXPECT_TRUE(pass(1));
}

TEST_F(WatchdogTest, progress_lets_it_wait_from_then_on) {
  pass(1);
  practise(Work::compute, 1, 1);
  watchdog_.asked(Work::compute, now_);
  pass(9);
  watchdog_.progressed(Work::compute);
  EXPECT_FALSE(pass(9));
  EXPECT_TRUE(pass(1));
  watchdog_.progressed(Work::compute);
  EXPECT_FALSE(watchdog_.hangs());
  EXPECT_FALSE(pass(9));
  EXPECT_TRUE(pass(1)) << "it hangs again";
}

TEST_F(WatchdogTest, being_asked_again_is_no_progress) {
  pass(1);
  practise(Work::compute, 1, 1);
  watchdog_.asked(Work::compute, now_);
  pass(6);
  watchdog_.asked(Work::compute, now_);
  EXPECT_TRUE(pass(4)) << "it goes on waiting";
  watchdog_.asked(Work::compute, now_);
  EXPECT_TRUE(watchdog_.hangs()) << "it goes on hanging";
}

TEST_F(WatchdogTest, what_is_done_or_dropped_is_waited_for_no_longer) {
  pass(1);
  practise(Work::compute, 1, 1);
  watchdog_.asked(Work::compute, now_);
  EXPECT_TRUE(pass(10));
  watchdog_.done(Work::compute, now_);
  EXPECT_FALSE(watchdog_.hangs());
  EXPECT_FALSE(pass(100));
  watchdog_.asked(Work::compute, now_);
  EXPECT_FALSE(pass(9)) << "a hang is no measure of what it usually takes";
  EXPECT_TRUE(pass(1));
  watchdog_.done(Work::compute, now_);
  watchdog_.asked(Work::compute, now_);
  watchdog_.dropped(Work::compute);
  EXPECT_FALSE(pass(100));
}

TEST_F(WatchdogTest, a_process_that_stood_still_as_a_whole_does_not_hang) {
  pass(1);
  practise(Work::compute, 1, 1);
  watchdog_.asked(Work::compute, now_);
  now_ += seconds(3600);
  EXPECT_FALSE(pass(8)) << "the hour counts for one tick";
  EXPECT_TRUE(pass(2));
}

TEST_F(WatchdogTest, one_kind_of_work_does_not_answer_for_another) {
  pass(1);
  practise(Work::compute, 1, 1);
  watchdog_.asked(Work::compute, now_);
  watchdog_.asked(Work::install, now_);
  pass(5);
  watchdog_.done(Work::install, now_);
  const auto hang = pass(5);
  ASSERT_TRUE(hang);
  EXPECT_EQ(hang->work, Work::compute);
}

}  // namespace
}  // namespace gpunode::job
