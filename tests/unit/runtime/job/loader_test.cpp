#include "runtime/job/loader.hpp"

#include "tests/unit/runtime/job/context_fixture.hpp"

namespace gpunode::job {
namespace {

// Members 1 and 2 stand before step 4; their state is not here.
class LoaderTest : public ContextTest {
 protected:
  LoaderTest() {
    view::View view = next_view({1, 2});
    view.base_step = 3;
    view.state_digest = digest(1003);
    install(view);
    job_.state_ready = false;
  }
  FetchedState fetched(std::uint64_t step, const HistoryId& history = {}) const {
    StateMeta meta;
    meta.step = step;
    meta.size_bytes = 3;
    meta.digest = digest(1000 + step);
    meta.result_digest = digest(2000 + step);
    return {meta, SharedBytes::from(Bytes(3)), history};
  }
  // So long the driver may take before it is said to hang.
  int seconds_until_hang() {
    for (int second = 0; second < 1000; ++second, pass(1s))
      if (watchdog_.on_tick(job_.now)) return second;
    return -1;
  }

  Watchdog watchdog_{{.multiple = 8, .least = 10s, .first = 10s}};
  Loader loader_{job_, watchdog_};
};

TEST_F(LoaderTest, a_state_of_peers_is_installed_and_stands_when_the_driver_says_so) {
  loader_.load(fetched(3), out_);
  ASSERT_EQ(of<InstallState>(out_).size(), 1u);
  EXPECT_EQ(of<InstallState>(out_)[0].step, 3u);
  EXPECT_EQ(of<InstallState>(out_)[0].state.size(), 3u);
  EXPECT_TRUE(job_.progress.is_loading());
  EXPECT_TRUE(loader_.on_loaded(3));
  EXPECT_EQ(job_.progress.committed(), 3u);
  EXPECT_EQ(job_.progress.state_digest(), digest(1003));
  EXPECT_EQ(job_.progress.result_digest(), digest(2003));
  EXPECT_FALSE(watchdog_.hangs());
  EXPECT_EQ(seconds_until_hang(), -1) << "nothing is waited for";
}

TEST_F(LoaderTest, an_answer_of_another_step_or_to_no_question_is_ignored) {
  EXPECT_FALSE(loader_.on_loaded(3));
  loader_.load(fetched(3), out_);
  EXPECT_FALSE(loader_.on_loaded(4));
  EXPECT_TRUE(job_.progress.is_loading());
  EXPECT_TRUE(loader_.on_loaded(3));
  EXPECT_FALSE(loader_.on_loaded(3));
}

TEST_F(LoaderTest, a_checkpoint_is_restored_and_its_result_is_not_known) {
  stand_at(5);
  loader_.restore({3, digest(1003), {digest(1), 12}, {}}, out_);
  EXPECT_EQ(of<RestoreState>(out_).size(), 1u);
  EXPECT_TRUE(loader_.on_loaded(3));
  EXPECT_EQ(job_.progress.committed(), 3u);
  EXPECT_EQ(job_.progress.running().sample_count, 12u);
  EXPECT_EQ(job_.progress.result_digest(), Digest{});
}

TEST_F(LoaderTest, a_state_from_which_the_views_history_has_come_follows_it) {
  loader_.load(fetched(3), out_);
  install(next_history({1, 2}, 3));
  loader_.on_loaded(3);
  EXPECT_EQ(job_.progress.history(), job_.view().history());
}

TEST_F(LoaderTest, a_state_that_the_views_left_behind_meanwhile_keeps_its_history) {
  loader_.load(fetched(3), out_);
  install(next_history({1, 2}, 2));
  loader_.on_loaded(3);
  EXPECT_EQ(job_.progress.history(), HistoryId{});
  EXPECT_FALSE(job_.is_of_history());
}

TEST_F(LoaderTest, a_checkpoint_that_is_lost_is_loaded_no_longer) {
  loader_.restore({3, digest(1003), {}, {1, 99}}, out_);
  EXPECT_FALSE(loader_.on_lost({{1, 99}, 2})) << "another one";
  EXPECT_TRUE(loader_.on_lost({{1, 99}, 3}));
  EXPECT_FALSE(job_.progress.is_loading());
  EXPECT_EQ(seconds_until_hang(), -1);
  EXPECT_FALSE(loader_.on_loaded(3));
}

TEST_F(LoaderTest, of_a_checkpoint_that_is_not_even_found_the_driver_knows_the_step_alone) {
  loader_.restore({3, digest(1003), {}, {1, 99}}, out_);
  EXPECT_TRUE(loader_.on_lost({{}, 3}));
}

TEST_F(LoaderTest, a_state_that_is_not_read_from_disk_cannot_be_lost_there) {
  loader_.load(fetched(3), out_);
  EXPECT_FALSE(loader_.on_lost({{}, 3}));
  loader_.on_loaded(3);
  loader_.restore({0, digest(3), {}, {}}, out_);
  EXPECT_FALSE(loader_.on_lost({{}, 0}));
  EXPECT_TRUE(job_.progress.is_loading());
}

TEST_F(LoaderTest, a_disk_has_a_minute_more_than_usual) {
  loader_.restore({3, digest(1003), {}, {}}, out_);
  EXPECT_EQ(seconds_until_hang(), 70);
}

TEST_F(LoaderTest, a_large_state_has_more_time_and_the_step_before_it_is_waited_for_no_more) {
  watchdog_.asked(Watchdog::Work::apply, job_.now);
  FetchedState large = fetched(3);
  large.meta.size_bytes = 10'000u << 14;
  loader_.load(large, out_);
  EXPECT_EQ(seconds_until_hang(), 20) << "16 MiB a second";
}

TEST_F(LoaderTest, the_views_state_is_at_hand_if_it_is_the_checkpoint_here) {
  EXPECT_FALSE(loader_.at_hand());
  job_.checkpoint = {3, digest(1003), {}, {}};
  ASSERT_TRUE(loader_.at_hand());
  EXPECT_EQ(loader_.at_hand()->step, 3u);
}

TEST_F(LoaderTest, a_checkpoint_of_another_step_state_or_history_is_not_the_views_state) {
  job_.checkpoint = {2, digest(1003), {}, {}};
  EXPECT_FALSE(loader_.at_hand());
  job_.checkpoint = {3, digest(1004), {}, {}};
  EXPECT_FALSE(loader_.at_hand());
  job_.checkpoint = {3, digest(1003), {}, {1, 99}};
  EXPECT_FALSE(loader_.at_hand());
}

TEST_F(LoaderTest, the_state_before_step_one_follows_from_the_manifest) {
  view::View first = next_view({1, 2});
  first.base_step = 0;
  install(first);
  EXPECT_FALSE(loader_.at_hand()) << "the members hold it";
  first = next_view({1, 2});
  first.restores = true;
  install(first);
  ASSERT_TRUE(loader_.at_hand());
  EXPECT_EQ(loader_.at_hand()->state_digest, job_.options.initial_state_digest);
}

}  // namespace
}  // namespace gpunode::job
