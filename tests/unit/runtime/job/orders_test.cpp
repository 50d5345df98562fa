#include "runtime/job/orders.hpp"

#include "tests/unit/runtime/job/context_fixture.hpp"

namespace gpunode::job {
namespace {

using view::OrderKind;

class OrdersTest : public ContextTest {
 protected:
  OrdersTest() {
    enter({1, 2, 3});
    stand_at(5);
  }
  void enter_stopped(const std::optional<view::SignedOrder>& order = {}) {
    view::View view = next_view({1, 2, 3});
    view.stopped = true;
    view.order = order;
    const view::View before = job_.view();
    install(view);
    orders_.on_view(before, out_);
  }
  int told_stopped() {
    orders_.tell_stopped(out_);
    return static_cast<int>(of<Stopped>(out_).size());
  }
  bool says_lost_quorum() {
    Actions out;
    orders_.watch_lost_quorum(paused_, out);
    return !of<LostQuorum>(out).empty();
  }

  Time paused_{};
  Orders orders_{job_};
};

TEST_F(OrdersTest, nothing_is_due_without_an_order) {
  EXPECT_EQ(orders_.due(false), std::nullopt);
  EXPECT_FALSE(orders_.order());
}

TEST_F(OrdersTest, a_stop_waits_for_the_step_under_way_but_not_for_ever) {
  orders_.take(ordered(OrderKind::stop));
  EXPECT_TRUE(orders_.due(false));
  EXPECT_FALSE(orders_.due(true));
  pass(19999ms);
  EXPECT_FALSE(orders_.due(true));
  pass(1ms);
  EXPECT_EQ(orders_.due(true), "it was ordered to stop");
}

TEST_F(OrdersTest, everything_else_is_due_at_once) {
  orders_.take(ordered(OrderKind::resume));
  EXPECT_EQ(orders_.due(true), "it was ordered to go on");
  orders_.take(ordered(OrderKind::resume_from, 2, 4));
  EXPECT_NE(orders_.due(true)->find("checkpoint of step 4"), std::string::npos);
}

TEST_F(OrdersTest, a_newer_order_takes_the_place_of_an_older_one) {
  orders_.take(ordered(OrderKind::stop, 5));
  const Result<void> older = orders_.may_be_taken(ordered(OrderKind::resume, 4));
  ASSERT_FALSE(older);
  EXPECT_EQ(older.error().code, ErrorCode::wrong_state);
  EXPECT_NE(older.error().detail.find("clocks"), std::string::npos);
  EXPECT_TRUE(orders_.may_be_taken(ordered(OrderKind::resume, 6)));
  orders_.take(ordered(OrderKind::resume, 6));
  EXPECT_TRUE(orders_.wants(OrderKind::resume));
}

TEST_F(OrdersTest, what_a_view_has_carried_out_is_not_taken_again) {
  const view::SignedOrder stop = ordered(OrderKind::stop, 5);
  ASSERT_TRUE(orders_.may_be_taken(stop));
  enter_stopped(stop);
  EXPECT_FALSE(orders_.may_be_taken(stop));
  EXPECT_FALSE(orders_.may_be_taken(ordered(OrderKind::resume, 4)));
  EXPECT_TRUE(orders_.may_be_taken(ordered(OrderKind::resume, 6)));
}

TEST_F(OrdersTest, whoever_has_a_part_may_not_order_for_that) {
  const Result<void> of_member =
      orders_.may_be_taken(view::order_of({1, 1}, node(2), OrderKind::stop, 7));
  ASSERT_FALSE(of_member);
  EXPECT_EQ(of_member.error().code, ErrorCode::permission_denied);
  view::SignedOrder forged = ordered(OrderKind::stop, 7);
  forged.kind = OrderKind::resume;
  EXPECT_FALSE(orders_.may_be_taken(forged));
  EXPECT_FALSE(orders_.may_be_taken(view::order_of({1, 2}, node(kOwner), OrderKind::stop, 7)))
      << "of another job";
}

TEST_F(OrdersTest, an_order_that_nobody_may_give_any_more_is_dropped_and_told) {
  orders_.take(ordered(OrderKind::stop));
  orders_.drop_if_void(out_);
  EXPECT_TRUE(orders_.order());
  job_.options.may_order = view::orders_of([](const NodeId&) { return false; });
  orders_.drop_if_void(out_);
  EXPECT_FALSE(orders_.order());
  EXPECT_TRUE(reports(out_, "is dropped"));
}

TEST_F(OrdersTest, the_view_that_carries_an_order_out_ends_it) {
  const view::SignedOrder stop = ordered(OrderKind::stop);
  orders_.take(stop);
  orders_.on_view(enter({1, 2, 3}), out_);
  EXPECT_TRUE(orders_.wants(OrderKind::stop)) << "that view goes on";
  EXPECT_TRUE(of<Report>(out_).empty());
  enter_stopped(stop);
  EXPECT_FALSE(orders_.order());
  EXPECT_TRUE(
      reports(out_, "stops after step 0, as node " + stop.by.short_text() + " has ordered"));
  out_.clear();
  enter_stopped(stop);
  EXPECT_TRUE(of<Report>(out_).empty()) << "told once";
}

TEST_F(OrdersTest, a_view_that_carries_out_a_later_order_ends_the_earlier_one) {
  enter_stopped(ordered(OrderKind::stop, 1));
  orders_.take(ordered(OrderKind::resume, 2));
  enter_stopped(ordered(OrderKind::stop, 1));
  EXPECT_TRUE(orders_.wants(OrderKind::resume));
  enter_stopped(ordered(OrderKind::stop, 3));
  EXPECT_FALSE(orders_.order());
}

TEST_F(OrdersTest, whatever_view_comes_the_job_need_go_back_no_longer) {
  orders_.take(ordered(OrderKind::resume_from, 1, 4));
  orders_.on_view(enter({1, 2, 3}), out_);
  EXPECT_FALSE(orders_.order());
}

TEST_F(OrdersTest, a_stopped_view_is_told_once_when_the_state_is_in_place) {
  enter_stopped();
  commit();
  EXPECT_EQ(told_stopped(), 0) << "the last step is not applied";
  apply();
  EXPECT_EQ(told_stopped(), 1);
  EXPECT_EQ(told_stopped(), 1);
  EXPECT_TRUE(orders_.stop_told());
  EXPECT_EQ(of<Stopped>(out_)[0].step, 6u);
  EXPECT_EQ(of<Stopped>(out_)[0].state, digest(1006));
}

TEST_F(OrdersTest, each_stopped_view_is_told) {
  enter_stopped();
  told_stopped();
  enter_stopped();
  EXPECT_FALSE(orders_.stop_told());
  EXPECT_EQ(told_stopped(), 2);
}

TEST_F(OrdersTest, who_goes_on_lacks_the_state_has_promised_or_is_through_tells_no_stop) {
  EXPECT_EQ(told_stopped(), 0) << "the view goes on";
  enter_stopped();
  job_.state_ready = false;
  EXPECT_EQ(told_stopped(), 0);
  job_.state_ready = true;
  job_.options.total_steps = 5;
  EXPECT_EQ(told_stopped(), 0);
  job_.options.total_steps = 10;
  freeze();
  EXPECT_EQ(told_stopped(), 0);
}

TEST_F(OrdersTest, an_order_is_for_who_has_a_part_in_a_job_that_goes_on) {
  EXPECT_TRUE(orders_.has_part());
  enter({2, 3}, {1});
  EXPECT_TRUE(orders_.has_part()) << "it votes";
  enter({2, 3});
  ASSERT_FALSE(orders_.has_part());
  EXPECT_EQ(orders_.has_part().error().code, ErrorCode::invalid_argument);
  EXPECT_NE(orders_.has_part().error().detail.find("ask one that has"), std::string::npos);
}

TEST_F(OrdersTest, after_the_last_step_there_is_nothing_to_order) {
  job_.finished = true;
  EXPECT_FALSE(orders_.has_part());
  job_.finished = false;
  stand_at(10);
  EXPECT_FALSE(orders_.has_part());
  job_.state_ready = false;
  EXPECT_TRUE(orders_.has_part()) << "who lacks the state may still order";
}

TEST_F(OrdersTest, from_outside_a_job_is_recovered_while_all_that_had_a_part_are_silent) {
  EXPECT_TRUE(orders_.may_recover(0));
  enter({2, 3});
  hear(3);
  const Result<void> asks_another = orders_.may_recover(0);
  ASSERT_FALSE(asks_another);
  EXPECT_NE(asks_another.error().detail.find(node(3).short_text()), std::string::npos);
  die(3);
  pass(3s);
  EXPECT_FALSE(orders_.may_recover(0)) << "there is no checkpoint here";
  job_.checkpoint.step = 4;
  EXPECT_TRUE(orders_.may_recover(0));
  EXPECT_FALSE(orders_.has_part()) << "any other order is for those that had a part";
  job_.finished = true;
  EXPECT_FALSE(orders_.may_recover(0));
}

TEST_F(OrdersTest, who_only_votes_recovers_a_job_with_a_copy_of_what_is_durable) {
  enter({2, 3}, {1});
  job_.checkpoint.step = 4;
  EXPECT_TRUE(orders_.may_recover(4));
  const Result<void> without = orders_.may_recover(6);
  ASSERT_FALSE(without);
  EXPECT_NE(without.error().detail.find("checkpoint of step 6"), std::string::npos);
  EXPECT_TRUE(orders_.may_recover(0)) << "what is durable is given up";
}

TEST_F(OrdersTest, a_lost_quorum_is_said_every_ten_seconds_where_the_job_goes_on_alone) {
  pass(20s);
  EXPECT_FALSE(says_lost_quorum()) << "the job waits";
  job_.options.goes_on_alone = true;
  EXPECT_TRUE(says_lost_quorum());
  pass(9999ms);
  EXPECT_FALSE(says_lost_quorum());
  pass(1ms);
  EXPECT_TRUE(says_lost_quorum());
}

TEST_F(OrdersTest, the_pause_counts_from_when_it_began) {
  job_.options.goes_on_alone = true;
  pass(20s);
  paused_ = job_.now - 9s;
  EXPECT_FALSE(says_lost_quorum());
  pass(1s);
  EXPECT_TRUE(says_lost_quorum());
}

TEST_F(OrdersTest, each_live_member_of_lower_rank_goes_first) {
  job_.options.goes_on_alone = true;
  enter({2, 3, 1});
  die(2);
  paused_ = job_.now;
  pass(11999ms);
  EXPECT_FALSE(says_lost_quorum());
  pass(1ms);
  EXPECT_TRUE(says_lost_quorum());
}

TEST_F(OrdersTest, who_holds_no_state_never_goes_on_alone) {
  job_.options.goes_on_alone = true;
  pass(1h);
  job_.state_ready = false;
  EXPECT_FALSE(says_lost_quorum());
  job_.member = false;
  EXPECT_FALSE(says_lost_quorum());
}

}  // namespace
}  // namespace gpunode::job
