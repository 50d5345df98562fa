#include "runtime/job/witnesses.hpp"

#include "tests/unit/runtime/job/context_fixture.hpp"

namespace gpunode::job {
namespace {

// Two members, so one witness or three are wanted.
class WitnessesTest : public ContextTest {
 protected:
  WitnessesTest() {
    enter({1, 2}, {3});
    stand_at(5);
  }
  void offer(int number) { EXPECT_TRUE(witnesses_.on_offer(node(number), {})); }
  bool wants_others_after(Duration time) {
    pass(time);
    return witnesses_.wants_others();
  }
  std::vector<NodeId> recruited() {
    Actions out;
    witnesses_.on_tick(false, std::nullopt, out);
    std::vector<NodeId> nodes;
    for (const Recruit& one : of<Recruit>(out)) nodes.push_back(one.node);
    return nodes;
  }
  bool offers_itself(bool leaves = false) {
    Actions out;
    pass(1s);
    witnesses_.on_tick(leaves, std::nullopt, out);
    return !sent<WitnessOffer>(out).empty();
  }

  Witnesses witnesses_{job_};
};

TEST_F(WitnessesTest, who_offers_itself_is_a_candidate_after_the_witnesses_that_live) {
  offer(4);
  EXPECT_EQ(witnesses_.candidates(), (std::vector{node(3), node(4)}));
}

TEST_F(WitnessesTest, an_offer_is_good_for_three_seconds_unless_it_is_repeated) {
  offer(4);
  pass(2999ms);
  offer(4);
  pass(2999ms);
  EXPECT_EQ(witnesses_.candidates().size(), 2u);
  pass(1ms);
  EXPECT_EQ(witnesses_.candidates(), std::vector{node(3)});
}

TEST_F(WitnessesTest, members_and_the_dead_are_no_candidates) {
  offer(2);
  offer(4);
  die(4);
  EXPECT_EQ(witnesses_.candidates(), std::vector{node(3)});
}

TEST_F(WitnessesTest, a_silent_witness_is_to_be_replaced_after_ten_seconds) {
  hear(3);
  pass(9999ms);
  EXPECT_EQ(witnesses_.candidates(), std::vector{node(3)});
  pass(1ms);
  EXPECT_TRUE(witnesses_.candidates().empty());
  hear(3);
  EXPECT_EQ(witnesses_.candidates().size(), 1u) << "it lives";
}

TEST_F(WitnessesTest, a_witness_that_dies_is_to_be_replaced_at_once) {
  die(3);
  EXPECT_TRUE(witnesses_.candidates().empty());
}

TEST_F(WitnessesTest, who_leaves_is_not_named_for_half_a_minute) {
  offer(4);
  EXPECT_TRUE(witnesses_.on_offer(node(4), {true}));
  EXPECT_TRUE(witnesses_.on_offer(node(3), {true}));
  EXPECT_TRUE(witnesses_.candidates().empty());
  pass(30s);
  hear(3);
  EXPECT_EQ(witnesses_.candidates(), std::vector{node(3)}) << "the offer of node 4 is withdrawn";
}

TEST_F(WitnessesTest, who_left_and_comes_back_may_be_named_again) {
  witnesses_.on_left(node(3));
  witnesses_.on_back(node(3));
  EXPECT_EQ(witnesses_.candidates().size(), 1u);
  witnesses_.on_left(node(4));
  offer(4);
  EXPECT_EQ(witnesses_.candidates().size(), 2u);
}

TEST_F(WitnessesTest, whom_a_view_left_out_is_neither_named_nor_asked) {
  witnesses_.set_spares({node(3), node(2)});
  witnesses_.on_view(enter({1, 4}));
  EXPECT_TRUE(witnesses_.candidates().empty());
  EXPECT_EQ(witnesses_.spare_count(), 0u);
  pass(30s);
  EXPECT_EQ(witnesses_.spare_count(), 2u);
}

TEST_F(WitnessesTest, who_offers_itself_after_the_last_step_is_to_be_told_so) {
  stand_at(10);
  EXPECT_FALSE(witnesses_.on_offer(node(4), {}));
  EXPECT_EQ(witnesses_.candidates(), std::vector{node(3)});
  job_.member = false;
  EXPECT_TRUE(witnesses_.on_offer(node(4), {})) << "of which this node knows nothing";
}

TEST_F(WitnessesTest, spares_are_live_nodes_without_a_part_each_once) {
  offer(4);
  witnesses_.set_spares({node(1), node(2), node(3), node(4), node(5), node(6)});
  die(6);
  EXPECT_EQ(witnesses_.spare_count(), 3u) << "3, 4 and 5";
  EXPECT_EQ(witnesses_.voting_members(), 2u);
}

TEST_F(WitnessesTest, the_witnesses_that_a_view_would_choose_again_need_no_others) {
  EXPECT_FALSE(wants_others_after(2s));
}

TEST_F(WitnessesTest, better_witnesses_are_wanted_at_once_but_not_of_a_young_view) {
  offer(4);
  offer(5);
  EXPECT_FALSE(wants_others_after(999ms)) << "three for two voters";
  EXPECT_TRUE(wants_others_after(1ms));
}

TEST_F(WitnessesTest, to_do_with_fewer_waits_three_seconds_for_those_on_their_way) {
  witnesses_.set_spares({node(4)});
  die(3);
  EXPECT_FALSE(wants_others_after(1s));
  EXPECT_FALSE(wants_others_after(2999ms));
  EXPECT_TRUE(wants_others_after(1ms));
}

TEST_F(WitnessesTest, while_one_waits_to_go_its_replacement_is_waited_for_a_second) {
  witnesses_.set_spares({node(4)});
  witnesses_.on_left(node(3));
  EXPECT_FALSE(wants_others_after(1s));
  EXPECT_FALSE(wants_others_after(999ms));
  EXPECT_TRUE(wants_others_after(1ms));
}

TEST_F(WitnessesTest, a_witness_that_is_back_ends_the_wait) {
  witnesses_.set_spares({node(4)});
  witnesses_.on_left(node(3));
  wants_others_after(1s);
  witnesses_.on_back(node(3));
  hear(3);
  EXPECT_FALSE(wants_others_after(1s));
  witnesses_.on_left(node(3));
  EXPECT_FALSE(wants_others_after(1ms)) << "the wait begins anew";
}

TEST_F(WitnessesTest, a_job_that_forms_wants_no_witnesses) {
  view::View forming = job_.view();
  forming.view_id = 0;
  install(forming);
  offer(4);
  EXPECT_FALSE(wants_others_after(10s));
  EXPECT_TRUE(recruited().empty());
}

TEST_F(WitnessesTest, spare_nodes_are_asked_again_after_five_seconds) {
  enter({1, 2});
  witnesses_.set_spares({node(2), node(4)});
  EXPECT_EQ(recruited(), std::vector{node(4)});
  pass(4999ms);
  EXPECT_TRUE(recruited().empty());
  pass(1ms);
  EXPECT_EQ(recruited(), std::vector{node(4)});
}

TEST_F(WitnessesTest, no_more_are_asked_than_are_wanted) {
  enter({1, 2});
  witnesses_.set_spares({node(4), node(5), node(6), node(7)});
  EXPECT_EQ(recruited(), (std::vector{node(4), node(5), node(6)}));
  enter({1, 2, 3});
  pass(10s);
  EXPECT_TRUE(recruited().empty()) << "three voters need no witness";
}

TEST_F(WitnessesTest, who_offers_itself_already_leaves_or_is_gone_is_not_asked) {
  enter({1, 2});
  witnesses_.set_spares({node(4), node(5), node(6), node(7)});
  offer(4);
  witnesses_.on_left(node(5));
  die(6);
  EXPECT_TRUE(recruited().empty()) << "one is enough, and offers itself";
  pass(3s);
  EXPECT_EQ(recruited(), std::vector{node(4)}) << "it has gone silent";
}

TEST_F(WitnessesTest, the_lowest_live_rank_alone_asks) {
  enter({2, 1});
  witnesses_.set_spares({node(4)});
  EXPECT_TRUE(recruited().empty());
  die(2);
  EXPECT_EQ(recruited(), std::vector{node(4)});
}

TEST_F(WitnessesTest, who_cannot_compute_waits_for_a_view_or_is_stopped_asks_nobody) {
  enter({1, 2});
  witnesses_.set_spares({node(4)});
  job_.state_ready = false;
  EXPECT_TRUE(recruited().empty());
  job_.state_ready = true;
  want_change();
  EXPECT_TRUE(recruited().empty());
  view::View stopped = next_view({1, 2});
  stopped.stopped = true;
  install(stopped);
  EXPECT_TRUE(recruited().empty());
}

TEST_F(WitnessesTest, after_the_end_each_spare_is_asked_once_so_that_it_hears_of_it) {
  enter({1, 2});
  stand_at(10);
  witnesses_.set_spares({node(4)});
  const Time done = job_.now;
  for (int i = 0; i < 20; ++i, pass(1s)) witnesses_.on_tick(false, done, out_);
  EXPECT_EQ(of<Recruit>(out_).size(), 1u);
}

TEST_F(WitnessesTest, a_witness_shows_twice_a_second_that_it_lives) {
  enter({2}, {1, 3});
  job_.hints = {node(9)};
  witnesses_.on_tick(false, std::nullopt, out_);
  EXPECT_EQ(receivers<WitnessOffer>(out_), (std::vector{node(2), node(3), node(9)}));
  pass(499ms);
  witnesses_.on_tick(false, std::nullopt, out_);
  EXPECT_EQ(out_.size(), 3u);
  pass(1ms);
  witnesses_.on_tick(false, std::nullopt, out_);
  EXPECT_EQ(out_.size(), 6u);
}

TEST_F(WitnessesTest, a_node_outside_offers_itself_if_it_never_computes_or_finds_no_room) {
  enter({2, 3});
  EXPECT_FALSE(offers_itself());
  job_.wants_in = true;
  EXPECT_FALSE(offers_itself()) << "there is room to compute";
  job_.options.wanted_nodes = 2;
  EXPECT_TRUE(offers_itself());
  job_.wants_in = false;
  EXPECT_FALSE(offers_itself());
  job_.options.witness_only = true;
  EXPECT_TRUE(offers_itself());
}

TEST_F(WitnessesTest, who_leaves_is_a_member_or_has_finished_does_not_offer_itself) {
  EXPECT_FALSE(offers_itself());
  enter({2}, {1, 3});
  EXPECT_TRUE(offers_itself());
  EXPECT_FALSE(offers_itself(true));
  job_.finished = true;
  EXPECT_FALSE(offers_itself());
}

}  // namespace
}  // namespace gpunode::job
