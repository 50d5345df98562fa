// The learner of a member that lacks the state its view starts from.
#include "tests/unit/runtime/job/learner_fixture.hpp"

namespace gpunode::job {
namespace {

// Node 1 is named by a view whose state it lacks.
class LateMemberTest : public LearnerTest {
 protected:
  LateMemberTest() {
    view::View view = next_view({1, 2, 3});
    view.base_step = 6;
    view.state_digest = block_digest_of(kState);
    view.sync_sources = {node(2), node(1)};
    install(view);
    job_.state_ready = false;
  }
};

TEST_F(LateMemberTest, a_member_that_lacks_results_alone_follows_them_up_to_the_base) {
  stand_at(4);
  EXPECT_TRUE(learner_.is_late());
  hear_both(6, 5);
  give_result(5);
  apply_next();
  give_result(6);
  apply_next();
  EXPECT_FALSE(learner_.is_late());
}

TEST_F(LateMemberTest, a_member_whose_results_are_gone_is_late_no_longer) {
  stand_at(4);
  hear_both(7, 7);
  EXPECT_TRUE(learner_.take_cut());
  EXPECT_FALSE(learner_.is_late());
  EXPECT_TRUE(sent<StateAsk>(out_).empty()) << "which state it fetches is the view's to say";
}

TEST_F(LateMemberTest,
       once_it_fetches_a_state_a_further_view_does_not_send_it_after_results_again) {
  stand_at(4);
  hear_both(7, 7);
  ASSERT_TRUE(learner_.fetch_base(out_));
  learner_.on_view(enter({1, 2, 3}));
  job_.state_ready = false;
  EXPECT_FALSE(learner_.is_late());
  learner_.on_installed();
  EXPECT_TRUE(learner_.is_late()) << "with another state it may be";
}

TEST_F(LateMemberTest, the_state_that_the_view_starts_from_is_fetched_from_its_sources) {
  EXPECT_TRUE(learner_.fetch_base(out_));
  const auto asks = sent<StateAsk>(out_);
  ASSERT_EQ(asks.size(), 1u);
  EXPECT_EQ(asks[0].first, node(2));
  EXPECT_EQ(asks[0].second.step, 6u);
  EXPECT_EQ(asks[0].second.digest, block_digest_of(kState));
  give_state(6);
  EXPECT_TRUE(learner_.take_state());
}

TEST_F(LateMemberTest, a_fetch_of_the_base_goes_on_with_each_tick) {
  stand_at(8);  // beyond the base: no results lead there
  learner_.fetch_base(out_);
  pass(500ms);
  learner_.on_tick(out_);
  EXPECT_EQ(states_asked().size(), 2u);
}

TEST_F(LateMemberTest, what_has_come_of_the_base_is_kept_when_the_view_changes) {
  learner_.fetch_base(out_);
  learner_.on_offer(node(2), {}, {6, kState.size(), block_digest_of(kState), {}, {}}, out_);
  view::View again = next_view({1, 2, 3});
  again.sync_sources = {node(3)};
  learner_.on_view(install(again));
  job_.state_ready = false;
  EXPECT_TRUE(learner_.fetch_base(out_));
  EXPECT_TRUE(learner_.fetch()->meta());
  EXPECT_EQ(learner_.fetch()->sources(), std::vector{node(3)});
}

TEST_F(LateMemberTest, if_only_this_node_was_to_give_the_state_nobody_does) {
  view::View own = next_view({1, 2, 3});
  own.sync_sources = {node(1)};
  install(own);
  EXPECT_FALSE(learner_.fetch_base(out_));
}

TEST_F(LateMemberTest, who_is_given_nothing_for_twenty_seconds_is_starved) {
  learner_.fetch_base(out_);
  pass(19999ms);
  EXPECT_FALSE(learner_.is_starved());
  pass(1ms);
  EXPECT_TRUE(learner_.is_starved());
  learner_.fetch_base(out_);
  EXPECT_FALSE(learner_.is_starved()) << "in another view it is asked for anew";
}

TEST_F(LateMemberTest, a_state_at_hand_ends_the_fetch) {
  learner_.fetch_base(out_);
  learner_.on_load();
  EXPECT_FALSE(learner_.is_under_way());
}

}  // namespace
}  // namespace gpunode::job
