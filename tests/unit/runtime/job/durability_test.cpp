#include "runtime/job/durability.hpp"

#include "tests/unit/runtime/job/context_fixture.hpp"

namespace gpunode::job {
namespace {

// Members 1 and 2 after step 8.
class DurabilityTest : public ContextTest {
 protected:
  DurabilityTest() {
    enter({1, 2});
    stand_at(8);
  }
  static view::CheckpointName name_of(std::uint64_t step) { return {{}, step}; }
  void keep(std::uint64_t step) { job_.checkpoint = {step, digest(1000 + step), {}, {}}; }
  void told(int from, std::uint64_t step, bool keeps_copies = true) {
    durability_.on_told(node(from), {job_.now, false, keeps_copies, name_of(step)});
  }
  // The step that is to be noted now; 0: none.
  std::uint64_t to_note(std::size_t spares = 0) {
    const auto floor = durability_.to_note(spares);
    return floor ? floor->name.step : 0;
  }
  void note(std::uint64_t step) { durability_.on_noted({name_of(step), {node(1), node(2)}}, out_); }

  Durability durability_{job_};
};

TEST_F(DurabilityTest, a_checkpoint_on_two_nodes_is_to_be_noted_with_who_holds_it) {
  keep(6);
  EXPECT_EQ(to_note(), 0u);
  told(2, 6);
  const auto floor = durability_.to_note(0);
  ASSERT_TRUE(floor);
  EXPECT_EQ(floor->name, name_of(6));
  EXPECT_EQ(floor->holders, (std::vector{node(1), node(2)}));
}

TEST_F(DurabilityTest, it_is_durable_and_told_once_it_is_noted) {
  keep(6);
  EXPECT_FALSE(durability_.is_durable(job_.checkpoint));
  note(6);
  EXPECT_TRUE(durability_.is_durable(job_.checkpoint));
  EXPECT_TRUE(reports(out_, "step 6 is durable: on 2 nodes"));
  told(2, 6);
  EXPECT_EQ(to_note(), 0u) << "it is noted already";
}

TEST_F(DurabilityTest, an_older_note_changes_nothing) {
  note(6);
  note(4);
  EXPECT_EQ(durability_.floor().name, name_of(6));
  EXPECT_EQ(out_.size(), 1u);
}

TEST_F(DurabilityTest, who_has_a_later_one_of_the_history_holds_the_earlier_too) {
  keep(6);
  told(2, 7);
  EXPECT_EQ(to_note(), 6u);
}

TEST_F(DurabilityTest, the_newest_that_is_on_enough_nodes_is_noted_this_nodes_own_or_not) {
  enter({1, 2, 3});
  keep(4);
  told(2, 6);
  told(3, 7);
  EXPECT_EQ(to_note(), 6u);
}

TEST_F(DurabilityTest, a_checkpoint_of_a_step_to_come_or_of_another_history_is_not_noted) {
  keep(9);
  told(2, 9);
  EXPECT_EQ(to_note(), 0u) << "this node knows of step 8";
  job_.checkpoint = {7, digest(1), {}, {1, 99}};
  durability_.on_told(node(2), {job_.now, false, true, {{1, 99}, 7}});
  EXPECT_EQ(to_note(), 0u);
}

TEST_F(DurabilityTest, no_checkpoint_is_none_to_be_noted) {
  told(2, 0);
  EXPECT_EQ(to_note(), 0u);
  EXPECT_TRUE(durability_.holders_of(name_of(0)).empty());
}

TEST_F(DurabilityTest, only_a_member_of_this_history_that_has_promised_nothing_notes) {
  keep(6);
  told(2, 6);
  job_.member = false;
  EXPECT_EQ(to_note(), 0u);
  job_.member = true;
  job_.progress.begin_load();
  EXPECT_EQ(to_note(), 0u);
  job_.progress.end_load();
  freeze();
  EXPECT_EQ(to_note(), 0u);
}

TEST_F(DurabilityTest, an_older_word_of_a_node_does_not_replace_a_newer_one) {
  told(2, 6);
  durability_.on_told(node(2), {job_.now - 1s, false, true, name_of(3)});
  EXPECT_TRUE(durability_.is_told_by(node(2), name_of(6)));
  told(2, 3);
  EXPECT_FALSE(durability_.is_told_by(node(2), name_of(6))) << "it has lost it";
  EXPECT_TRUE(durability_.is_told_by(node(2), name_of(3)));
}

TEST_F(DurabilityTest, a_lone_member_without_anybody_else_needs_no_copy) {
  enter({1});
  keep(6);
  EXPECT_EQ(to_note(), 6u);
  durability_.on_noted({name_of(6), {node(1)}}, out_);
  EXPECT_TRUE(reports(out_, "on this node alone"));
}

TEST_F(DurabilityTest, spare_nodes_that_could_hold_copies_are_waited_for_ten_seconds) {
  enter({1});
  keep(6);
  EXPECT_EQ(to_note(1), 0u);
  pass(9999ms);
  EXPECT_EQ(to_note(1), 0u);
  pass(1ms);
  EXPECT_EQ(to_note(1), 6u);
}

TEST_F(DurabilityTest, the_wait_begins_anew_with_a_view_or_when_the_spares_are_gone) {
  enter({1});
  keep(6);
  to_note(1);
  pass(9s);
  enter({1});
  durability_.on_view();
  to_note(1);
  pass(9s);
  EXPECT_EQ(to_note(1), 0u);
  to_note(0);
  pass(9s);
  EXPECT_EQ(to_note(1), 0u);
}

TEST_F(DurabilityTest, a_witness_that_keeps_copies_is_waited_for_as_long_as_it_takes) {
  enter({1}, {2, 3});
  keep(6);
  told(2, 0);
  pass(1h);
  EXPECT_EQ(to_note(), 0u);
  told(2, 6);
  EXPECT_EQ(to_note(), 6u);
}

TEST_F(DurabilityTest, witnesses_that_keep_none_need_not_be_waited_for_once_all_said_so) {
  enter({1}, {2, 3});
  keep(6);
  told(2, 0, false);
  EXPECT_EQ(to_note(), 0u) << "node 3 may keep some";
  told(3, 0, false);
  EXPECT_EQ(to_note(), 6u);
}

TEST_F(DurabilityTest, what_is_durable_stays_so_in_later_views_of_the_history) {
  note(6);
  view::View next = next_view({1, 2});
  next.floor = {name_of(4), {node(2)}};
  install(next);
  durability_.on_view();
  EXPECT_EQ(durability_.floor().name, name_of(6));
  next = next_view({1, 2});
  next.floor = {name_of(7), {node(2)}};
  install(next);
  durability_.on_view();
  EXPECT_EQ(durability_.floor(), next.floor) << "noted by others";
}

TEST_F(DurabilityTest, in_another_history_what_its_view_says_is_durable) {
  note(6);
  view::View next = next_history({1, 2}, 4);
  next.floor = {name_of(4), {node(2)}};
  install(next);
  durability_.on_history();
  EXPECT_EQ(durability_.floor(), next.floor);
}

}  // namespace
}  // namespace gpunode::job
