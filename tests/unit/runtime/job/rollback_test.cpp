// Going back to a checkpoint: whether it may be done with what is known, and to which one.
#include "runtime/job/rollback.hpp"

#include <gtest/gtest.h>

#include "runtime/collective/paced_plan.hpp"
#include "runtime/job/view_proposal.hpp"
#include "tests/support/ids.hpp"
#include "tests/support/twin_orders.hpp"

namespace gpunode::job {
namespace {

using std::chrono::seconds;
using view::CheckpointName;
using Promiser = view::ViewAgreement::Promiser;
using Promisers = std::vector<Promiser>;
using Nodes = std::vector<NodeId>;

const Digest kFingerprint{7, 7};

// Of so many members; those after them vote only.
view::View view_of(int members, int acceptors) {
  view::View view;
  view.view_id = 5;
  view.base_step = 10;
  view.fingerprint = kFingerprint;
  for (int i = 1; i <= members; ++i) view.members.push_back({node(i), 1});
  for (int i = 1; i <= acceptors; ++i) view.acceptors.push_back(node(i));
  view.tie = node(1);
  view.plan =
      collective::balanced_plan(collective::Tree::of_slices(8), static_cast<std::uint16_t>(members))
          .owner;
  return view;
}
// Node 1 computes, 2 and 3 vote.
view::View lone_member() {
  return view_of(1, 3);
}

// Has lost its memory, or never had any; step 0: it has no checkpoint.
Promiser with(int number, CheckpointName checkpoint, Duration lease_left = {}) {
  view::Standing standing;
  standing.boot = 1;
  standing.fingerprint = kFingerprint;
  standing.checkpoint = checkpoint;
  standing.checkpoint_digest = {checkpoint.step, checkpoint.step};
  standing.lease_left = lease_left;
  return {node(number), standing};
}
Promiser with(int number, std::uint64_t step) {
  return with(number, CheckpointName{{}, step});
}

Result<Rollback> choose(const view::View& view, const Promisers& promisers,
                        const std::vector<Joining>& joining = {},
                        Permission permission = Permission::none,
                        std::optional<std::uint64_t> from = {}) {
  return choose_rollback(view, promisers, joining, permission, from);
}
std::uint64_t step_of(const Result<Rollback>& back) {
  EXPECT_TRUE(back) << back.error().detail;
  return back ? back->name.step : ~std::uint64_t{0};
}
void expect_waits(const Result<Rollback>& back, const std::string& why) {
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().code, ErrorCode::unavailable);
  EXPECT_NE(back.error().detail.find(why), std::string::npos) << back.error().detail;
}

TEST(Rollback, is_to_the_newest_checkpoint_and_says_who_gives_it) {
  const auto back = choose(lone_member(), {with(2, 30), with(3, 40)});
  ASSERT_TRUE(back) << back.error().detail;
  EXPECT_EQ(back->name, (CheckpointName{{}, 40}));
  EXPECT_EQ(back->state_digest, (Digest{40, 40}));
  EXPECT_EQ(back->holders, Nodes{node(3)});
  ASSERT_EQ(back->fit.size(), 1u);
  EXPECT_EQ(back->fit[0].node, node(3));
}

TEST(Rollback, without_any_checkpoint_the_job_begins_anew_with_whoever_can_compute) {
  const auto back = choose(view_of(2, 2), {with(1, 0), with(2, 0)});
  EXPECT_EQ(step_of(back), 0u);
  EXPECT_EQ(back->fit.size(), 2u);
  EXPECT_TRUE(back->holders.empty());
  EXPECT_EQ(back->state_digest, Digest{});
}

TEST(Rollback, where_the_members_are_a_quorum_each_of_them_must_answer) {
  const view::View view = view_of(2, 2);
  ASSERT_FALSE(view::needs_lease(view));
  expect_waits(choose(view, {with(2, 40)}), node(1).short_text());
  EXPECT_EQ(step_of(choose(view, {with(1, 30), with(2, 40)})), 40u);
}

TEST(Rollback, waits_until_the_lease_of_a_silent_member_has_run_out) {
  ASSERT_TRUE(view::needs_lease(lone_member()));
  expect_waits(choose(lone_member(), {with(2, {{}, 40}, seconds(1)), with(3, 40)}), "lease");
  EXPECT_EQ(step_of(choose(lone_member(), {with(2, 40), with(3, 40)})), 40u);
}

// A restarted member has promised: no earlier life of it commits any more.
TEST(Rollback, of_members_that_all_answer_no_lease_is_waited_for) {
  EXPECT_EQ(step_of(choose(lone_member(), {with(1, {{}, 40}, seconds(3)),  //
                                           with(2, {{}, 40}, seconds(3))})),
            40u);
}

TEST(Rollback, never_goes_behind_a_durable_checkpoint_whose_holders_may_come_back) {
  view::View view = lone_member();
  view.floor = {{{}, 40}, {node(1), node(2)}};
  const auto waits = choose(view, {with(1, 0), with(3, 30)});
  expect_waits(waits, "step 40");
  expect_waits(waits, node(2).short_text());
  expect_waits(waits, "--from 30");
  EXPECT_EQ(step_of(choose(view, {with(1, 0), with(2, 40), with(3, 30)})), 40u);
  EXPECT_EQ(step_of(choose(view, {with(1, 0), with(3, 50)})), 50u) << "a newer one is as good";
}

TEST(Rollback, goes_behind_one_of_which_every_copy_is_lost_when_all_have_said_what_they_have) {
  view::View view = lone_member();
  view.floor = {{{}, 40}, {node(1), node(2)}};
  const auto waits = choose(view, {with(1, 0), with(2, 20)});
  expect_waits(waits, "every copy");
  expect_waits(waits, node(3).short_text());
  EXPECT_EQ(step_of(choose(view, {with(1, 0), with(2, 20), with(3, 30)})), 30u);
}

TEST(Rollback, does_not_begin_anew_by_itself_where_a_checkpoint_was_durable) {
  view::View view = lone_member();
  view.floor = {{{}, 40}, {node(2)}};
  expect_waits(choose(view, {with(1, 0), with(2, 0), with(3, 0)}), "--from 0");
}

TEST(Rollback, knows_of_a_floor_that_a_promiser_has_noted_since_the_view_began) {
  view::View view = lone_member();
  view.turns = {{4, 10, 44, view::Turn::Kind::rollback}};
  Promiser noted = with(2, {{1, 44}, 20});
  noted.standing.floor = {{{1, 44}, 40}, {node(1), node(3)}};
  EXPECT_EQ(floor_of(view, {with(3, 0), noted}), noted.standing.floor);
  expect_waits(choose(view, {noted, with(3, {{1, 44}, 30})}), "step 40");
  // Noted by a part of the job that has split off.
  noted.standing.floor.name = {{1, 45}, 60};
  EXPECT_EQ(floor_of(view, {noted}), view.floor);
  EXPECT_EQ(step_of(choose(view, {noted, with(3, {{1, 44}, 30})})), 30u);
}

TEST(Rollback, takes_no_checkpoint_of_a_history_that_was_undone_or_is_not_known) {
  view::View view = lone_member();
  view.turns = {{4, 10, 44, view::Turn::Kind::rollback}};
  EXPECT_EQ(step_of(choose(view, {with(2, {{}, 60}), with(3, {{1, 44}, 20})})), 20u);
  EXPECT_EQ(step_of(choose(view, {with(2, {{1, 45}, 60}), with(3, {{1, 44}, 20})})), 20u);
  EXPECT_EQ(step_of(choose(view, {with(2, {{2, 9}, 60}), with(3, {{1, 44}, 20})})), 20u);
  EXPECT_EQ(step_of(choose(view, {with(2, {{}, 10}), with(3, 0)})), 10u)
      << "what the rollback went back to is shared";
}

TEST(Rollback, a_checkpoint_of_a_later_history_counts_for_more_than_an_older_one) {
  view::View view = lone_member();
  view.turns = {{4, 60, 44, view::Turn::Kind::rollback}};
  const auto back = choose(view, {with(2, {{}, 60}), with(3, {{1, 44}, 60})});
  ASSERT_TRUE(back) << back.error().detail;
  EXPECT_EQ(back->name, (CheckpointName{{1, 44}, 60}));
  EXPECT_EQ(back->holders, Nodes{node(3)});
}

TEST(Rollback, who_comes_back_with_the_durable_checkpoint_gives_it) {
  view::View view = view_of(1, 1);
  view.floor = {{{}, 40}, {node(6)}};
  const Joining newcomer{{node(5), 1}, false, {{}, 30}, {30, 30}};
  const Joining back{{node(6), 2}, false, {{}, 40}, {40, 40}};
  const Joining stranger{{node(7), 1}, false, {{1, 9}, 50}, {50, 50}};
  expect_waits(choose(view, {with(1, 0)}, {newcomer, stranger}), node(6).short_text());
  const auto chosen = choose(view, {with(1, 0)}, {newcomer, back});
  EXPECT_EQ(step_of(chosen), 40u);
  ASSERT_EQ(chosen->fit.size(), 1u);
  EXPECT_EQ(chosen->fit[0].node, node(6));
  EXPECT_EQ(chosen->fit[0].standing.boot, 2u);
}

TEST(Rollback, who_holds_it_and_cannot_compute_gives_it_to_those_who_can) {
  Promiser unfit = with(2, 40);
  unfit.standing.fingerprint = {};
  const auto back = choose(lone_member(), {unfit, with(3, 0)});
  EXPECT_EQ(step_of(back), 40u);
  EXPECT_EQ(back->holders, Nodes{node(2)});
  ASSERT_EQ(back->fit.size(), 1u);
  EXPECT_EQ(back->fit[0].node, node(3));
}

TEST(Rollback, a_witness_that_leaves_is_no_member) {
  Promiser leaves = with(2, 40);
  leaves.standing.leaving = true;
  expect_waits(choose(lone_member(), {leaves}), "can compute");
  const auto back = choose(lone_member(), {leaves, with(3, 30)});
  EXPECT_EQ(step_of(back), 40u);
  EXPECT_EQ(back->fit.at(0).node, node(3));
}

TEST(Rollback, nothing_is_done_where_nobody_that_answers_can_compute) {
  Promiser unfit = with(2, 0);
  unfit.standing.fingerprint = {};
  expect_waits(choose(lone_member(), {unfit}), "can compute");
}

TEST(Rollback, none_is_needed_where_somebody_has_the_result) {
  Promiser done = with(2, 40);
  done.standing.finished = true;
  expect_waits(choose(lone_member(), {done, with(3, 40)}), "finished");
}

TEST(Rollback, a_stopped_job_is_taken_up_by_whoever_has_its_last_checkpoint) {
  view::View view = view_of(3, 3);
  view.stopped = true;
  expect_waits(choose(view, {with(1, 7), with(2, 7)}), node(3).short_text());
  EXPECT_EQ(step_of(choose(view, {with(1, 7), with(2, 10)})), 10u);
  view.base_step = 0;
  EXPECT_EQ(step_of(choose(view, {with(1, 0), with(2, 0)})), 0u);
}

TEST(Rollback, a_part_that_goes_on_without_a_quorum_waits_for_nobody) {
  view::View view = lone_member();
  view.floor = {{{}, 40}, {node(1), node(2)}};
  const auto back = choose(view, {with(3, {{}, 30}, seconds(2))}, {}, Permission::split);
  EXPECT_EQ(step_of(back), 30u);
  EXPECT_EQ(back->fit.at(0).node, node(3));
}

TEST(Rollback, a_person_may_order_to_go_behind_what_was_durable) {
  view::View view = lone_member();
  view.floor = {{{}, 40}, {node(1)}};
  const Promisers heard{with(2, 30), with(3, 20)};
  EXPECT_EQ(step_of(choose(view, heard, {}, Permission::none, 30)), 30u);
  EXPECT_EQ(step_of(choose(view, heard, {}, Permission::none, 20)), 20u);
  const auto anew = choose(view, heard, {}, Permission::none, 0);
  EXPECT_EQ(step_of(anew), 0u);
  EXPECT_EQ(anew->fit.size(), 2u);
  expect_waits(choose(view, heard, {}, Permission::none, 25), "step 30");
}

// --- and what becomes of it in the next view ---

ProposalRules rules_of_one() {
  ProposalRules rules;
  rules.tree = collective::Tree::of_slices(8);
  rules.witnesses = {node(2), node(3)};
  return rules;
}

TEST(Rollback, begins_a_history_of_its_own) {
  const Promisers heard{with(2, 30), with(3, 40)};
  const auto next = propose_view(rules_of_one(), lone_member(), heard, {});
  ASSERT_TRUE(next) << next.error().detail;
  EXPECT_EQ(next->base_step, 40u);
  EXPECT_TRUE(next->restores);
  ASSERT_EQ(next->turns.size(), 1u);
  EXPECT_EQ(next->turns[0].kind, view::Turn::Kind::rollback);
  EXPECT_EQ(next->turns[0].view_id, next->view_id);
  EXPECT_EQ(next->turns[0].base_step, 40u);
  EXPECT_NE(next->turns[0].mark, 0u);
  EXPECT_EQ(next->members, (std::vector<view::Member>{{node(3), 1}}));
  EXPECT_EQ(next->sync_sources, Nodes{node(3)});
  const auto same = propose_view(rules_of_one(), lone_member(), heard, {});
  EXPECT_EQ(same->turns, next->turns) << "whoever proposes it";
}

TEST(Rollback, the_next_view_knows_of_the_floor_and_a_lower_one_after_a_person_lowered_it) {
  view::View view = lone_member();
  view.floor = {{{}, 40}, {node(2), node(3)}};
  const auto next = propose_view(rules_of_one(), view, {with(2, 40), with(3, 40)}, {});
  ASSERT_TRUE(next) << next.error().detail;
  EXPECT_EQ(next->floor, view.floor);
  Promiser wisher = with(2, 30);
  wisher.standing.order = view::order_of({1, 1}, node(9), view::OrderKind::resume_from, 1, 30);
  const auto behind = propose_view(rules_of_one(), view, {wisher, with(3, 30)}, {});
  ASSERT_TRUE(behind) << behind.error().detail;
  EXPECT_EQ(behind->base_step, 30u);
  EXPECT_EQ(behind->floor, (view::Floor{{{}, 30}, {node(2), node(3)}}));
}

TEST(Rollback, who_leaves_is_no_holder_that_is_waited_for_while_another_one_stays) {
  view::View view = view_of(2, 2);
  view.floor = {{{}, 40}, {node(1), node(2)}};
  Promiser stays = with(1, 40), leaves = with(2, 40);
  for (Promiser* one : {&stays, &leaves}) {
    one->standing.has_memory = true;
    one->standing.applied = one->standing.held = 45;
  }
  leaves.standing.leaving = true;
  const auto next = propose_view(rules_of_one(), view, {stays, leaves}, {});
  ASSERT_TRUE(next) << next.error().detail;
  EXPECT_EQ(next->floor, (view::Floor{{{}, 40}, {node(1)}}));
}

}  // namespace
}  // namespace gpunode::job
