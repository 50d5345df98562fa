// Rollbacks of small jobs: a quorum that holds a checkpoint goes on without the members, once the
// lease is over, and never behind a checkpoint that may have been called durable.
#include <gtest/gtest.h>

#include "runtime/collective/paced_plan.hpp"
#include "runtime/job/view_proposal.hpp"

namespace gpunode::job {
namespace {

using Promiser = view::ViewAgreement::Promiser;

NodeId node(int number) {
  NodeId id;
  id.value[0] = static_cast<std::byte>(number);
  return id;
}
const Digest kFingerprint{7, 7};

ProposalRules rules_of_one() {
  ProposalRules rules;
  rules.tree = collective::Tree::of_slices(8);
  rules.witnesses = {node(2), node(3)};
  return rules;
}

// Node 1 computes, 2 and 3 vote.
view::View lone_member() {
  view::View view;
  view.view_id = 5;
  view.base_step = 10;
  view.fingerprint = kFingerprint;
  view.members = {{node(1), 1}};
  view.acceptors = {node(1), node(2), node(3)};
  view.tie = node(1);
  view.plan = collective::balanced_plan(collective::Tree::of_slices(8), 1).owner;
  return view;
}

Promiser witness(int number, std::uint64_t checkpoint, Duration lease_left = {}) {
  view::Standing standing;
  standing.boot = 1;
  standing.fingerprint = kFingerprint;
  standing.checkpoint_step = checkpoint;
  standing.checkpoint_digest = {checkpoint, checkpoint};
  standing.lease_left = lease_left;
  return {node(number), standing};
}

TEST(QuorumRollback, a_quorum_goes_on_without_the_members_from_the_newest_checkpoint) {
  ASSERT_TRUE(view::needs_lease(lone_member()));
  const auto next =
      propose_view(rules_of_one(), lone_member(), {witness(2, 30), witness(3, 40)}, {});
  ASSERT_TRUE(next) << next.error().detail;
  EXPECT_EQ(next->base_step, 40u);
  EXPECT_EQ(next->rollback_count, 1u);
  ASSERT_EQ(next->members.size(), 1u);
  EXPECT_EQ(next->members.front().node, node(3));
}

TEST(QuorumRollback, it_waits_until_the_lease_has_run_out) {
  using std::chrono::milliseconds;
  const auto next = propose_view(rules_of_one(), lone_member(),
                                 {witness(2, 40, milliseconds(1)), witness(3, 40)}, {});
  ASSERT_FALSE(next);
  EXPECT_NE(next.error().detail.find("lease"), std::string::npos) << next.error().detail;
}

// A restarted member has promised: no earlier life of it commits any more.
TEST(QuorumRollback, of_members_that_all_answer_no_lease_is_waited_for) {
  using std::chrono::seconds;
  const auto next = propose_view(rules_of_one(), lone_member(),
                                 {witness(1, 40, seconds(3)), witness(2, 40, seconds(3))}, {});
  ASSERT_TRUE(next) << next.error().detail;
  EXPECT_EQ(next->members.front().node, node(1));
}

TEST(QuorumRollback, a_witness_that_cannot_compute_the_job_is_no_member) {
  Promiser unfit = witness(2, 0), other = witness(3, 0);
  unfit.standing.fingerprint = other.standing.fingerprint = {};
  const auto next = propose_view(rules_of_one(), lone_member(), {unfit, other}, {});
  ASSERT_FALSE(next);
  EXPECT_NE(next.error().detail.find(node(1).short_text()), std::string::npos)
      << next.error().detail;
}

TEST(QuorumRollback, where_the_members_are_a_quorum_all_acceptors_must_answer) {
  view::View view = lone_member();
  view.acceptors = {node(1), node(2)};
  EXPECT_FALSE(view::needs_lease(view));
  EXPECT_FALSE(propose_view(rules_of_one(), view, {witness(2, 40)}, {}));
}

TEST(QuorumRollback, a_checkpoint_that_a_silent_witness_may_have_made_durable_is_not_undone) {
  // Node 1 says nothing when view 6 is agreed: with node 2 it may have called step 40 durable.
  auto next = propose_view(rules_of_one(), lone_member(), {witness(2, 40), witness(3, 30)}, {});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->durable, (view::CheckpointName{0, 40}));
  // In view 6 node 2 is gone: nobody else has it.
  next->members = {{node(2), 1}};
  next->acceptors = {node(2), node(3), node(4)};
  next->tie = node(2);
  const auto later = propose_view(rules_of_one(), *next, {witness(3, 30), witness(4, 0)}, {});
  ASSERT_FALSE(later);
  EXPECT_NE(later.error().detail.find("step 40"), std::string::npos) << later.error().detail;
  EXPECT_NE(later.error().detail.find(node(2).short_text()), std::string::npos);
}

TEST(QuorumRollback, who_left_with_the_durable_checkpoint_goes_on_from_it_when_it_is_back) {
  view::View view = lone_member();
  view.acceptors = {node(1)};
  view.durable = {0, 40};
  const Learner newcomer{{node(5), 1}, false, {0, 30}, {30, 30}};
  const Learner back{{node(6), 2}, false, {0, 40}, {40, 40}};
  const Learner stranger{{node(7), 1}, false, {1, 50}, {50, 50}};  // of a rollback not heard of
  EXPECT_FALSE(propose_view(rules_of_one(), view, {witness(1, 0)}, {newcomer, stranger}));
  const auto next = propose_view(rules_of_one(), view, {witness(1, 0)}, {newcomer, back});
  ASSERT_TRUE(next) << next.error().detail;
  EXPECT_EQ(next->base_step, 40u);
  EXPECT_EQ(next->members, (std::vector<view::Member>{{node(6), 2}}));
  EXPECT_EQ(next->sync_sources, std::vector<NodeId>{node(6)});
}

TEST(QuorumRollback, a_member_that_tells_what_it_has_called_durable_is_believed) {
  Promiser member = witness(1, 50);
  member.standing.has_memory = true;
  member.standing.applied = member.standing.held = 55;
  member.standing.durable = {0, 40};
  const auto next = propose_view(rules_of_one(), lone_member(), {member, witness(2, 40)}, {});
  ASSERT_TRUE(next) << next.error().detail;
  EXPECT_EQ(next->durable, (view::CheckpointName{0, 40}));
}

TEST(QuorumRollback, a_checkpoint_of_a_later_lineage_counts_for_more_than_one_of_a_later_step) {
  Promiser stale = witness(2, 60), newest = witness(3, 50);
  newest.standing.checkpoint_epoch = 1;
  const auto next = propose_view(rules_of_one(), lone_member(), {stale, newest}, {});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->base_step, 50u);
  EXPECT_EQ(next->members.front().node, node(3));
}

}  // namespace
}  // namespace gpunode::job
