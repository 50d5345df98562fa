#include "runtime/job/view_proposal.hpp"

#include <algorithm>

#include "tests/unit/runtime/job/proposal_fixture.hpp"

namespace gpunode::job {
namespace {

using view::Standing;

TEST(ViewProposal, the_job_resumes_from_the_newest_step_that_all_survivors_hold) {
  const auto next =
      propose_view(rules_of(3), current_of(3), {at(1, 20, 21), at(2, 20, 20), at(3, 19, 20)}, {});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->base_step, 20u);
  EXPECT_EQ(next->state_digest, digest(2020));
  EXPECT_EQ(next->result_digest, digest(1020));
  EXPECT_EQ(next->members.size(), 3u);
  EXPECT_EQ(next->owner_rotation, 0u);
}

TEST(ViewProposal, slices_of_the_dead_move_and_survivors_keep_theirs) {
  const view::View current = current_of(3);
  const auto next = propose_view(rules_of(2), current, {at(1, 10, 10), at(3, 10, 10)}, {});
  ASSERT_TRUE(next);
  ASSERT_EQ(next->plan.size(), 8u);
  for (std::size_t slice = 0; slice < 8; ++slice) {
    if (current.plan[slice] == 1) continue;
    EXPECT_EQ(next->plan[slice], current.plan[slice] == 0 ? 0 : 1);
  }
}

TEST(ViewProposal, who_lost_its_memory_is_no_survivor_but_a_learner) {
  auto lost = at(2, 0, 0);
  lost.standing.has_memory = false;
  lost.standing.boot = 2;
  auto survivor = at(1, 12, 12);
  survivor.standing.learners = {node(2)};
  const auto out = propose_view(rules_of(3), current_of(3), {survivor, lost}, {});
  ASSERT_TRUE(out);
  EXPECT_EQ(out->members.size(), 1u) << "until it has learned";
  const auto next =
      propose_view(rules_of(3), current_of(3), {survivor, lost}, {{{node(2), 2}, true}});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->base_step, 12u);
  ASSERT_EQ(next->members.size(), 2u);
  EXPECT_EQ(next->members[1], (view::Member{node(2), 2}));
  EXPECT_EQ(next->acceptors, std::vector<NodeId>{node(1)});
  EXPECT_EQ(next->sync_sources, std::vector<NodeId>{node(1)});
}

TEST(ViewProposal, who_fetched_its_state_votes_after_the_first_step_it_took_part_in) {
  view::View current = current_of(3);
  current.acceptors.pop_back();
  auto before =
      propose_view(rules_of(3), current, {at(1, 10, 11), at(2, 10, 11), at(3, 10, 11)}, {});
  ASSERT_TRUE(before);
  EXPECT_EQ(before->acceptors.size(), 2u);
  auto after =
      propose_view(rules_of(3), current, {at(1, 11, 11), at(2, 11, 11), at(3, 11, 11)}, {});
  ASSERT_TRUE(after);
  EXPECT_EQ(after->acceptors.size(), 3u);
  EXPECT_EQ(after->members, current.members);
}

TEST(ViewProposal, learners_fill_up_to_the_wanted_number) {
  const std::vector<Joining> joiners{{{node(7), 1}, true}, {{node(8), 1}, true}};
  Promisers members{at(1, 10, 10), at(2, 10, 10)};
  for (auto& one : members) one.standing.learners = {node(7), node(8)};
  const auto next = propose_view(rules_of(3), current_of(2), members, joiners);
  ASSERT_TRUE(next);
  ASSERT_EQ(next->members.size(), 3u);
  EXPECT_EQ(next->members[2].node, node(7));
}

TEST(ViewProposal, ready_learners_vote_at_once_as_long_as_every_quorum_holds_the_state) {
  std::vector<Joining> joiners;
  Promisers members{at(1, 10, 10), at(2, 10, 10), at(3, 10, 10)};
  for (std::uint8_t i = 7; i < 10; ++i) {
    joiners.push_back({{node(i), 1}, true});
    for (auto& one : members) one.standing.learners.push_back(node(i));
  }
  for (const std::size_t count : {1u, 2u, 3u}) {
    const auto next = propose_view(rules_of(6), current_of(3), members,
                                   {joiners.begin(), joiners.begin() + static_cast<long>(count)});
    ASSERT_TRUE(next);
    EXPECT_EQ(next->members.size(), 3 + count);
    EXPECT_EQ(next->acceptors.size(), count < 3 ? 3 + count : 3) << "half would be a quorum";
    EXPECT_EQ(next->sync_sources.size(), 3u);
    EXPECT_EQ(next->tie, node(1));
  }
}

TEST(ViewProposal, a_learner_that_a_survivor_does_not_reach_stays_outside) {
  Promisers members{at(1, 10, 10), at(2, 10, 10)};
  members[0].standing.learners = {node(7)};
  const auto next = propose_view(rules_of(3), current_of(2), members, {{{node(7), 1}, true}});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->members.size(), 2u);
}

TEST(ViewProposal, a_learner_that_is_not_ready_is_named_only_where_the_job_waits_for_it) {
  Promisers members{at(1, 10, 10), at(2, 10, 10)};
  for (auto& one : members) one.standing.learners = {node(7)};
  const std::vector<Joining> learner{{{node(7), 1}, false}};
  ProposalRules rules = rules_of(3);
  EXPECT_EQ(propose_view(rules, current_of(2), members, learner)->members.size(), 2u);
  rules.min_nodes = 3;
  EXPECT_EQ(propose_view(rules, current_of(2), members, learner)->members.size(), 3u);
}

TEST(ViewProposal, of_several_who_all_leave_one_stays) {
  Promisers all{at(2, 12, 12), at(1, 12, 12)};
  for (auto& one : all) one.standing.leaving = true;
  const auto next = propose_view(rules_of(2), current_of(2), all, {});
  ASSERT_TRUE(next);
  ASSERT_EQ(next->members.size(), 1u);
  EXPECT_EQ(next->members[0].node, node(1));
}

TEST(ViewProposal, results_that_differ_are_summed_again_by_other_owners) {
  const auto next = propose_view(rules_of(3), current_of(3),
                                 {at(1, 14, 15, 1), at(2, 14, 15, 2), at(3, 14, 15, 1)}, {});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->base_step, 14u);
  EXPECT_EQ(next->owner_rotation, 1u);
  EXPECT_EQ(next->disagreed_step, 15u);
  EXPECT_EQ(next->result_digest, digest(1014));
  EXPECT_EQ(next->members.size(), 3u);
}

TEST(ViewProposal, the_second_time_the_majority_stands_and_the_rest_learns) {
  view::View current = current_of(3);
  current.disagreed_step = 15;
  const Promisers differ{at(1, 14, 15, 1), at(2, 14, 15, 2), at(3, 14, 15, 1)};
  const auto next = propose_view(rules_of(3), current, differ, {});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->base_step, 15u);
  EXPECT_EQ(next->result_digest, digest(1));
  EXPECT_EQ(next->sync_sources, (std::vector<NodeId>{node(1), node(3)}));
  const auto none = propose_view(rules_of(3), current,
                                 {at(1, 14, 15, 1), at(2, 14, 15, 2), at(3, 14, 15, 3)}, {});
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().detail.find("step 15"), std::string::npos);
}

// Its state is from a checkpoint, or from others: it does not know the sum that led there.
TEST(ViewProposal, who_does_not_know_a_result_differs_from_nobody) {
  for (const int knows_not : {1, 2}) {
    Promisers survivors{at(1, 20, 20), at(2, 20, 20)};
    Standing& one = survivors[static_cast<std::size_t>(knows_not - 1)].standing;
    one.applied_result_digest = one.held_result_digest = {};
    const auto next = propose_view(rules_of(2), current_of(2), survivors, {});
    ASSERT_TRUE(next) << next.error().message();
    EXPECT_EQ(next->base_step, 20u);
    EXPECT_EQ(next->result_digest, digest(1020));
    EXPECT_EQ(next->owner_rotation, 0u);
  }
}

// Nodes 1 and 2 are said to hold what is durable; node 2 leaves.
TEST(ViewProposal, a_holder_that_leaves_is_awaited_unless_another_has_said_that_it_has_a_copy) {
  view::View current = current_of(3);
  current.floor = {{current.history(), 10}, {node(1), node(2)}};
  Promisers promisers{at(2, 20, 20), at(3, 20, 20)};
  promisers[0].standing.leaving = true;
  auto next = propose_view(rules_of(3), current, promisers, {});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->floor.holders, (std::vector{node(1), node(2)})) << "node 1 may have lost it";
  promisers[1].standing.checkpoint = {current.history(), 12};
  next = propose_view(rules_of(3), current, promisers, {});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->floor.holders, (std::vector{node(3), node(1)}));
}

TEST(ViewProposal, a_leaver_is_left_out_unless_it_is_the_last_holder) {
  auto leaver = at(1, 12, 12);
  leaver.standing.leaving = true;
  const auto next = propose_view(rules_of(2), current_of(2), {leaver, at(2, 12, 12)}, {});
  ASSERT_TRUE(next);
  ASSERT_EQ(next->members.size(), 1u);
  EXPECT_EQ(next->members[0].node, node(2));
  EXPECT_EQ(next->tie, node(2));
  const auto last = propose_view(rules_of(2), current_of(1), {leaver}, {});
  ASSERT_TRUE(last);
  EXPECT_EQ(last->members.size(), 1u);
}

TEST(ViewProposal, of_members_that_all_leave_one_stays_and_holds_the_state) {
  auto first = at(1, 12, 12), second = at(2, 12, 12);
  first.standing.leaving = second.standing.leaving = true;
  const auto next = propose_view(rules_of(2), current_of(2), {second, first}, {});
  ASSERT_TRUE(next);
  ASSERT_EQ(next->members.size(), 1u);
  EXPECT_EQ(next->members[0].node, node(1));
  EXPECT_EQ(next->base_step, 12u);
}

TEST(ViewProposal, too_few_nodes_is_a_reason_not_a_view) {
  ProposalRules rules = rules_of(3);
  rules.min_nodes = 3;
  const auto next = propose_view(rules, current_of(3), {at(1, 12, 12), at(2, 12, 12)}, {});
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().code, ErrorCode::unavailable);
  EXPECT_NE(next.error().detail.find("needs 3 nodes"), std::string::npos);
}

TEST(ViewProposal, after_the_last_step_too_few_nodes_are_enough) {
  ProposalRules rules = rules_of(3);
  rules.min_nodes = 3;
  rules.total_steps = 21;
  EXPECT_FALSE(propose_view(rules, current_of(3), {at(1, 20, 20), at(2, 20, 20)}, {}));
  const auto next = propose_view(rules, current_of(3), {at(1, 21, 21), at(2, 20, 21)}, {});
  ASSERT_TRUE(next) << "what remains is to say so";
  EXPECT_EQ(next->base_step, 21u);
  EXPECT_EQ(next->members.size(), 2u);
}

TEST(ViewProposal, the_state_of_the_view_is_the_one_that_most_hold) {
  auto astray = at(1, 20, 20);
  astray.standing.state_digest = digest(666);
  const auto next =
      propose_view(rules_of(3), current_of(3), {astray, at(2, 20, 20), at(3, 20, 20)}, {});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->state_digest, digest(2020));
  const auto even = propose_view(rules_of(3), current_of(3), {astray, at(2, 20, 20)}, {});
  ASSERT_TRUE(even);
  EXPECT_EQ(even->state_digest, digest(666)) << "of equally many the first's";
}

TEST(ViewProposal, the_job_goes_back_only_when_every_acceptor_says_that_it_lost_the_state) {
  auto first = at(1, 0, 0), second = at(2, 0, 0);
  first.standing.has_memory = second.standing.has_memory = false;
  const auto waits = propose_view(rules_of(2), current_of(2), {first}, {});
  ASSERT_FALSE(waits);
  auto back = propose_view(rules_of(2), current_of(2), {first, second}, {});
  ASSERT_TRUE(back);
  EXPECT_EQ(back->base_step, 0u);
  EXPECT_EQ(back->history().turn, 1u);
  EXPECT_EQ(back->generation(), 0u);
  EXPECT_TRUE(back->restores);
  second.standing.checkpoint = {{}, 8};
  second.standing.checkpoint_digest = digest(5);
  back = propose_view(rules_of(2), current_of(2), {first, second}, {});
  ASSERT_TRUE(back);
  EXPECT_EQ(back->base_step, 8u);
  EXPECT_EQ(back->sync_sources, std::vector<NodeId>{node(2)});
  EXPECT_EQ(back->members.size(), 2u);
}

TEST(ViewProposal, members_that_cannot_reach_each_other_are_not_put_together) {
  auto first = at(1, 12, 12), second = at(2, 12, 12);
  second.standing.unreachable = {node(1)};
  first.standing.unreachable = {node(2)};
  const auto next =
      propose_view(rules_of(3), current_of(3), {first, second, at(3, 12, 12)}, {{node(2), 1}});
  ASSERT_TRUE(next);
  ASSERT_EQ(next->members.size(), 2u);
  EXPECT_EQ(next->members[0].node, node(1));
  EXPECT_EQ(next->members[1].node, node(3));
}

TEST(ViewProposal, forming_takes_the_most_common_fingerprint) {
  view::View zero;
  zero.acceptors = {node(1), node(2), node(3)};
  zero.tie = node(1);
  auto odd = at(1, 0, 0);
  odd.standing.fingerprint = digest(66);
  const auto next = propose_view(rules_of(3), zero, {odd, at(2, 0, 0), at(3, 0, 0)}, {});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->view_id, 1u);
  EXPECT_EQ(next->members.size(), 2u);
  EXPECT_EQ(next->fingerprint, digest(77));
  EXPECT_EQ(next->plan.size(), 8u);
}

TEST(ViewProposal, a_wish_to_stop_is_carried_out_and_lets_nobody_in) {
  auto wisher = at(2, 12, 12);
  wisher.standing.order = ordered(view::OrderKind::stop, 3);
  const std::vector<Joining> joiners{{{node(7), 1}, true}};
  const auto next = propose_view(rules_of(4), current_of(2), {at(1, 12, 12), wisher}, joiners);
  ASSERT_TRUE(next);
  EXPECT_TRUE(next->stopped);
  EXPECT_EQ(next->order, wisher.standing.order) << "others see by whose order";
  EXPECT_EQ(next->members.size(), 2u);
  const auto still = propose_view(rules_of(4), *next, {at(1, 12, 12), at(2, 12, 12)}, {});
  ASSERT_TRUE(still);
  EXPECT_TRUE(still->stopped) << "nobody has resumed it";
  EXPECT_EQ(still->order, next->order);
  wisher.standing.order = ordered(view::OrderKind::resume, 2);
  const auto replayed = propose_view(rules_of(4), *next, {at(1, 12, 12), wisher}, {});
  ASSERT_TRUE(replayed);
  EXPECT_TRUE(replayed->stopped) << "an earlier order than the one that was carried out";
  wisher.standing.order = ordered(view::OrderKind::resume, 4);
  auto other = at(1, 12, 12);
  other.standing.learners = wisher.standing.learners = {node(7)};
  const auto resumed = propose_view(rules_of(4), *next, {other, wisher}, joiners);
  ASSERT_TRUE(resumed);
  EXPECT_FALSE(resumed->stopped);
  other.standing.order = ordered(view::OrderKind::stop, 5);
  EXPECT_TRUE(propose_view(rules_of(4), *next, {other, wisher}, {})->stopped) << "the later one";
  EXPECT_EQ(resumed->members.size(), 3u);
}

TEST(ViewProposal, a_stopped_job_is_taken_up_by_a_quorum_that_has_its_last_checkpoint) {
  view::View stopped = current_of(3);
  stopped.stopped = true;
  auto restarted = [](int number, std::uint64_t checkpoint) {
    auto one = at(number, 0, 0);
    one.standing.has_memory = false;
    one.standing.checkpoint = {{}, checkpoint};
    one.standing.order = ordered(view::OrderKind::resume);
    return one;
  };
  EXPECT_FALSE(propose_view(rules_of(3), stopped, {restarted(1, 7), restarted(2, 7)}, {}))
      << "the third may hold more";
  const auto next = propose_view(rules_of(3), stopped, {restarted(1, 7), restarted(2, 10)}, {});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->base_step, 10u);
  EXPECT_EQ(next->sync_sources, std::vector<NodeId>{node(2)});
}

TEST(ViewProposal, a_recovery_by_force_begins_a_generation_with_whoever_answers) {
  ProposalRules rules = rules_of(3);
  rules.split_mark = 99;
  rules.split_kind = view::Turn::Kind::ordered;
  rules.order = ordered(view::OrderKind::recover);
  const auto next = propose_view(rules, current_of(3), {at(3, 12, 13)}, {});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->generation(), 1u);
  EXPECT_EQ(next->order, rules.order);
  EXPECT_EQ(next->history(), (HistoryId{1, 99}));
  EXPECT_EQ(next->base_step, 13u) << "what it holds may have been committed by the others";
  EXPECT_EQ(next->acceptors, std::vector<NodeId>{node(3)});
  EXPECT_EQ(view::precedence(*next, current_of(3)), view::Precedence::theirs);
}

// Promisers that follow `plan` after their last step, and whose paces are `paces`.
view::ViewAgreement::Promiser pacing(view::ViewAgreement::Promiser one,
                                     std::vector<std::uint32_t> shares,
                                     std::vector<std::uint32_t> slice_us) {
  one.standing.plan =
      collective::plan_of_shares(collective::Tree::of_slices(8), std::move(shares)).owner;
  auto paces = collective::Paces::of_members(static_cast<std::uint16_t>(slice_us.size()));
  for (std::size_t rank = 0; rank < slice_us.size(); ++rank)
    paces.members[rank] = {slice_us[rank], 1, 3};
  paces.gradient_us = 9;
  one.standing.paces = paces.to_words();
  return one;
}

TEST(ViewProposal, who_cannot_hear_a_survivor_does_not_come_back_by_its_own_promise) {
  auto deaf = at(3, 12, 12);
  deaf.standing.unreachable = {node(1)};  // which hears it well
  const auto next =
      propose_view(rules_of(3), current_of(3), {at(1, 12, 12), at(2, 12, 12), deaf}, {});
  ASSERT_TRUE(next);
  ASSERT_EQ(next->members.size(), 2u);
  EXPECT_FALSE(next->rank_of(node(3)));
}

TEST(ViewProposal, plan_and_paces_come_from_one_that_has_applied_the_base) {
  const auto next = propose_view(
      rules_of(3), current_of(3),
      {pacing(at(1, 19, 20), {3, 3, 2}, {1, 2, 3}), pacing(at(2, 20, 20), {4, 2, 2}, {10, 20, 30}),
       pacing(at(3, 20, 20), {4, 2, 2}, {10, 20, 30})},
      {});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->base_step, 20u);
  EXPECT_EQ(next->plan,
            collective::plan_of_shares(collective::Tree::of_slices(8), {4, 2, 2}).owner);
  const auto paces = collective::Paces::from_words(next->paces, 3);
  EXPECT_EQ(paces.members[0].slice_us, 10u);
  EXPECT_EQ(paces.members[2].slice_us, 30u);
  EXPECT_EQ(paces.gradient_us, 9u);
}

TEST(ViewProposal, paces_follow_their_members_to_new_ranks_and_newcomers_have_none) {
  Promisers members{pacing(at(1, 20, 20), {2, 2, 4}, {20, 20, 10}),
                    pacing(at(3, 20, 20), {2, 2, 4}, {20, 20, 10})};
  for (auto& one : members) one.standing.learners = {node(9)};
  const auto next = propose_view(rules_of(3), current_of(3), members, {{{node(9), 1}, true}});
  ASSERT_TRUE(next);
  ASSERT_EQ(next->members.size(), 3u);
  const auto paces = collective::Paces::from_words(next->paces, 3);
  EXPECT_EQ(paces.members[0].slice_us, 20u);
  EXPECT_EQ(paces.members[1].slice_us, 10u) << "the third member is the second now";
  EXPECT_EQ(paces.members[2].samples, 0u);
  EXPECT_EQ(std::count(next->plan.begin(), next->plan.end(), 2), 0) << "it computes nothing yet";
}

TEST(ViewProposal, without_a_word_of_plan_or_paces_those_of_the_view_stand) {
  view::View current = current_of(2);
  current.plan = collective::plan_of_shares(collective::Tree::of_slices(8), {6, 2}).owner;
  current.paces = {1000u | std::uint64_t{1} << 32 | std::uint64_t{4} << 48,
                   3000u | std::uint64_t{1} << 32 | std::uint64_t{4} << 48, 0};
  const auto next = propose_view(rules_of(2), current, {at(1, 10, 10), at(2, 10, 10)}, {});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->plan, current.plan);
  EXPECT_EQ(next->paces, current.paces);
}

}  // namespace
}  // namespace gpunode::job
