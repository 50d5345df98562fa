#include "actors/job/disk_watch.hpp"

#include <gtest/gtest.h>

namespace gpunode::jobs {
namespace {

using std::chrono::seconds;

Time at(int second) {
  return Time{} + seconds(second);
}

TEST(DiskWatch, a_task_is_late_after_a_minute_where_tasks_are_quick) {
  DiskWatch watch;
  EXPECT_FALSE(watch.late(at(1000)));
  watch.add(at(0), {DiskWork::write, 10, false});
  watch.done(at(1));
  watch.add(at(5), {DiskWork::write, 20, false});
  EXPECT_FALSE(watch.late(at(64)));
  const auto late = watch.late(at(65));
  ASSERT_TRUE(late);
  EXPECT_EQ(late->task.step, 20u);
  EXPECT_EQ(late->lasts, seconds(60));
  EXPECT_EQ(late->usual, seconds(1));
  watch.done(at(70));
  EXPECT_FALSE(watch.late(at(1000)));
}

TEST(DiskWatch, a_disk_that_is_slow_by_nature_gets_ten_times_as_long_as_it_takes) {
  DiskWatch watch;
  watch.add(at(0), {DiskWork::search, 0, false});
  watch.done(at(30));
  watch.add(at(30), {DiskWork::read, 20, true});
  EXPECT_EQ(watch.timeout(), seconds(300));
  EXPECT_FALSE(watch.late(at(329)));
  EXPECT_TRUE(watch.late(at(330)));
}

TEST(DiskWatch, a_task_waits_for_those_before_it_without_being_late_itself) {
  DiskWatch watch;
  watch.add(at(0), {DiskWork::write, 10, false});
  watch.add(at(0), {DiskWork::read, 10, true});
  EXPECT_TRUE(watch.restores());
  EXPECT_EQ(watch.late(at(60))->task.work, DiskWork::write);
  watch.done(at(60));
  EXPECT_FALSE(watch.late(at(119)));
  EXPECT_EQ(watch.late(at(10'000))->task.work, DiskWork::read);
}

TEST(DiskWatch, a_search_that_the_writer_begins_by_itself_comes_first) {
  DiskWatch watch;
  watch.add(at(0), {DiskWork::read, 10, true});
  watch.add(at(0), {DiskWork::write, 20, false});
  watch.done(at(1));
  watch.add_first(at(1), {DiskWork::search, 0, true});
  EXPECT_TRUE(watch.restores());
  watch.done(at(2), DiskWork::write);
  EXPECT_TRUE(watch.restores()) << "nothing was written";
  watch.done(at(2), DiskWork::search);
  EXPECT_FALSE(watch.restores());
  EXPECT_EQ(watch.late(at(62))->task.step, 20u);
}

}  // namespace
}  // namespace gpunode::jobs
