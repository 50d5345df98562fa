#include "runtime/job/progress.hpp"

#include "tests/unit/runtime/job/context_fixture.hpp"

namespace gpunode::job {
namespace {

class ProgressTest : public ContextTest {};

TEST_F(ProgressTest, a_step_is_committed_first_and_applied_later) {
  Progress here(digest(3));
  here.commit(digest(21), {digest(5), 4});
  EXPECT_EQ(here.committed(), 1u);
  EXPECT_EQ(here.applied(), 0u);
  EXPECT_EQ(here.state_digest(), digest(3)) << "of the state before it";
  EXPECT_EQ(here.result_digest(), digest(21));
  here.apply(digest(11));
  EXPECT_EQ(here.applied(), 1u);
  EXPECT_EQ(here.state_digest(), digest(11));
}

TEST_F(ProgressTest, the_fingerprint_runs_over_all_steps) {
  Progress here(digest(3));
  here.commit(digest(21), {digest(5), 4});
  here.commit(digest(22), {digest(6), 4});
  EXPECT_EQ(here.running(), (collective::DataFingerprint{digest(11), 8}));
}

TEST_F(ProgressTest, a_state_that_is_loaded_takes_the_place_of_everything) {
  Progress here(digest(3));
  here.commit(digest(21), {});
  here.begin_load();
  EXPECT_TRUE(here.is_loading());
  here.load({7, digest(17), {digest(5), 28}, {1, 99}}, digest(27));
  EXPECT_FALSE(here.is_loading());
  EXPECT_EQ(here.committed(), 7u);
  EXPECT_EQ(here.applied(), 7u);
  EXPECT_EQ(here.state_digest(), digest(17));
  EXPECT_EQ(here.result_digest(), digest(27));
  EXPECT_EQ(here.running().sample_count, 28u);
  EXPECT_EQ(here.history(), (HistoryId{1, 99}));
}

TEST_F(ProgressTest, the_context_tells_by_it_whether_the_state_is_of_the_views_history) {
  enter({1, 2});
  EXPECT_TRUE(job_.is_of_history());
  job_.progress.begin_load();
  EXPECT_FALSE(job_.is_of_history()) << "it is being replaced";
  job_.progress.end_load();
  install(next_history({1, 2}, 0));
  EXPECT_FALSE(job_.is_of_history());
  job_.progress.follow(job_.view().history());
  EXPECT_TRUE(job_.is_of_history());
}

}  // namespace
}  // namespace gpunode::job
