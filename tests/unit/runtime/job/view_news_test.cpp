#include "runtime/job/view_news.hpp"

#include "tests/unit/runtime/job/context_fixture.hpp"

namespace gpunode::job {
namespace {

class ViewNewsTest : public ContextTest {
 protected:
  ViewNewsTest() {
    enter({1, 2, 3});
    news_.on_view();
    job_.hints = {node(9)};
  }

  ViewNews news_{job_};
};

TEST_F(ViewNewsTest, a_view_is_told_with_its_proof) {
  news_.tell(node(2), false, out_);
  const auto notices = sent<ViewNotice>(out_);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(notices[0].first, node(2));
  ASSERT_EQ(notices[0].second.chain.size(), 1u);
  EXPECT_EQ(notices[0].second.chain.back().view, job_.view());
  EXPECT_EQ(notices[0].second.chain.back().seals.size(), 3u);
}

TEST_F(ViewNewsTest, one_node_is_told_every_hundred_milliseconds_at_most) {
  news_.tell(node(2), false, out_);
  pass(99ms);
  news_.tell(node(2), false, out_);
  EXPECT_EQ(out_.size(), 1u);
  news_.tell(node(3), false, out_);
  EXPECT_EQ(out_.size(), 2u) << "another node";
  pass(1ms);
  news_.tell(node(2), false, out_);
  EXPECT_EQ(out_.size(), 3u);
}

TEST_F(ViewNewsTest, who_asks_is_told_at_once_and_not_as_often_as_it_likes) {
  news_.tell(node(2), false, out_);
  news_.tell(node(2), true, out_);
  EXPECT_EQ(out_.size(), 2u);
  for (int i = 0; i < 100; ++i) news_.tell(node(2), true, out_);
  EXPECT_EQ(out_.size(), 11u);
  pass(100ms);
  news_.tell(node(2), true, out_);
  EXPECT_EQ(out_.size(), 12u);
}

TEST_F(ViewNewsTest, the_view_of_the_manifest_is_told_to_nobody) {
  const ContextTest::Forming forming;
  ViewNews(forming.job).tell(node(2), true, out_);
  EXPECT_TRUE(out_.empty());
}

TEST_F(ViewNewsTest, a_newer_view_is_asked_for_every_fifty_milliseconds_at_most) {
  news_.ask(node(2), out_);
  pass(49ms);
  news_.ask(node(2), out_);
  EXPECT_EQ(receivers<ViewAsk>(out_), std::vector{node(2)});
  pass(1ms);
  news_.ask(node(2), out_);
  EXPECT_EQ(out_.size(), 2u);
}

TEST_F(ViewNewsTest, who_waits_for_a_view_asks_everybody_once_a_second) {
  news_.ask_tick(out_);
  want_change();
  pass(999ms);
  news_.ask_tick(out_);
  EXPECT_TRUE(out_.empty());
  pass(1ms);
  news_.ask_tick(out_);
  EXPECT_EQ(receivers<ViewAsk>(out_), (std::vector{node(2), node(3), node(9)}));
  pass(500ms);
  news_.ask_tick(out_);
  EXPECT_EQ(out_.size(), 3u);
}

TEST_F(ViewNewsTest, who_waits_for_no_view_asks_nobody) {
  for (int i = 0; i < 10; ++i, pass(1s)) news_.ask_tick(out_);
  EXPECT_TRUE(out_.empty());
}

TEST_F(ViewNewsTest, the_members_know_the_view_once_each_was_heard_in_it) {
  news_.on_message(node(1), job_.view().name());
  news_.on_message(node(2), job_.view().name());
  news_.on_message(node(3), {{}, job_.view().view_id - 1});
  EXPECT_FALSE(news_.all_know());
  news_.ask_members(out_);
  EXPECT_EQ(receivers<ViewAsk>(out_), std::vector{node(3)});
  news_.on_message(node(3), {{}, job_.view().view_id + 1});
  EXPECT_TRUE(news_.all_know());
}

TEST_F(ViewNewsTest, whom_this_node_gives_its_state_knows_the_view_once_it_has_that) {
  view::View view = next_view({2, 3});
  view.restores = true;
  view.base_step = 4;
  view.sync_sources = {node(1)};
  install(view);
  news_.on_view();
  for (int i = 2; i <= 3; ++i) news_.on_message(node(i), view.name());
  news_.on_ready(node(2));
  EXPECT_FALSE(news_.all_know());
  news_.on_ready(node(3));
  EXPECT_TRUE(news_.all_know());
  news_.on_view();
  EXPECT_FALSE(news_.all_know()) << "it was that of another view";
}

TEST_F(ViewNewsTest, an_old_message_takes_nothing_back) {
  for (int i = 1; i <= 3; ++i) news_.on_message(node(i), job_.view().name());
  news_.on_message(node(2), {{}, 0});
  EXPECT_TRUE(news_.all_know());
}

TEST_F(ViewNewsTest, a_dead_member_that_does_not_know_the_view_is_not_left_out) {
  for (int i = 1; i <= 2; ++i) news_.on_message(node(i), job_.view().name());
  die(3);
  EXPECT_FALSE(news_.all_know());
}

TEST_F(ViewNewsTest, members_look_outside_every_two_seconds) {
  EXPECT_TRUE(news_.is_gossip_due());
  pass(1999ms);
  EXPECT_FALSE(news_.is_gossip_due());
  pass(1ms);
  EXPECT_TRUE(news_.is_gossip_due());
}

TEST_F(ViewNewsTest, a_job_that_was_split_gossips_and_its_members_alone_do) {
  install(next_history({1, 2}, 0));
  EXPECT_TRUE(news_.is_gossip_due());
  pass(2s);
  job_.member = false;
  EXPECT_FALSE(news_.is_gossip_due());
}

}  // namespace
}  // namespace gpunode::job
