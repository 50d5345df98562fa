#include "runtime/job/lease.hpp"

#include "tests/unit/runtime/job/context_fixture.hpp"

namespace gpunode::job {
namespace {

// Node 1 is the only member and needs the word of one of two witnesses. A lease of 3 s is good for
// 2.7 s.
class LeaseTest : public ContextTest {
 protected:
  LeaseTest() {
    enter({1}, {2, 3});
    stand_at(5);
  }
  std::optional<std::string> tick(bool tells = false) {
    return lease_.on_tick(job_.checkpoint, tells, out_);
  }
  bool grant(int from, Time asked, bool granted = true) {
    return lease_.on_grant(node(from), {asked, granted, true, {}});
  }
  void get_lease() {
    tick();
    ASSERT_TRUE(grant(2, job_.now));
    ASSERT_TRUE(lease_.holds());
  }

  Lease lease_{job_};
};

TEST_F(LeaseTest, where_the_members_are_a_quorum_no_lease_is_needed) {
  enter({1, 2, 3});
  EXPECT_TRUE(lease_.holds());
  tick();
  EXPECT_TRUE(out_.empty()) << "nor asked for";
}

TEST_F(LeaseTest, without_grants_there_is_no_lease) {
  EXPECT_FALSE(lease_.holds());
  tick();
  EXPECT_EQ(receivers<LeaseAsk>(out_), (std::vector{node(2), node(3)}));
  EXPECT_EQ(sent<LeaseAsk>(out_)[0].second.asked, job_.now);
}

TEST_F(LeaseTest, a_quorums_grant_holds_from_when_it_was_asked_less_the_margin) {
  tick();
  const Time asked = job_.now;
  pass(500ms);
  grant(2, asked);
  EXPECT_TRUE(lease_.holds());
  pass(2199ms);
  EXPECT_TRUE(lease_.holds());
  pass(1ms);
  EXPECT_FALSE(lease_.holds());
}

TEST_F(LeaseTest, it_holds_for_longer_with_each_renewal) {
  get_lease();
  pass(2s);
  get_lease();
  pass(2699ms);
  EXPECT_TRUE(lease_.holds());
}

TEST_F(LeaseTest, the_quorum_that_was_asked_last_counts) {
  enter({1, 4}, {2, 3, 5});
  tick();
  const Time first = job_.now;
  grant(2, first);
  EXPECT_FALSE(lease_.holds()) << "two of five";
  pass(1s);
  tick();
  grant(3, job_.now);
  EXPECT_TRUE(lease_.holds());
  pass(1700ms);
  EXPECT_FALSE(lease_.holds()) << "it is as old as the grant of node 2";
}

TEST_F(LeaseTest, what_is_no_grant_no_acceptors_or_answers_nothing_gives_no_lease) {
  tick();
  EXPECT_TRUE(grant(2, job_.now, false)) << "it still tells of its checkpoint";
  EXPECT_TRUE(grant(9, job_.now));
  EXPECT_FALSE(grant(3, job_.now + 1ms)) << "it was not asked yet";
  EXPECT_FALSE(lease_.holds());
}

TEST_F(LeaseTest, a_view_ends_what_was_asked_for) {
  get_lease();
  lease_.on_view(enter({1}, {2, 3}));
  EXPECT_FALSE(lease_.holds());
  EXPECT_FALSE(grant(2, job_.now)) << "this view has asked for nothing";
}

TEST_F(LeaseTest, who_has_promised_asks_and_takes_nothing) {
  tick();
  const Time asked = job_.now;
  out_.clear();
  freeze();
  pass(1s);
  tick();
  EXPECT_TRUE(out_.empty());
  EXPECT_FALSE(grant(2, asked));
}

TEST_F(LeaseTest, it_is_asked_for_often_while_there_is_none_and_seldom_after_that) {
  tick();
  pass(49ms);
  tick();
  EXPECT_EQ(out_.size(), 2u);
  pass(1ms);
  get_lease();
  EXPECT_EQ(out_.size(), 4u);
  pass(499ms);
  tick();
  EXPECT_EQ(out_.size(), 4u);
  pass(1ms);
  tick();
  EXPECT_EQ(out_.size(), 6u);
}

TEST_F(LeaseTest, something_new_to_tell_is_told_at_once) {
  get_lease();
  out_.clear();
  job_.checkpoint = {4, digest(1004), {}, {}};
  lease_.ask_at_once();
  tick();
  ASSERT_EQ(sent<LeaseAsk>(out_).size(), 2u);
  EXPECT_EQ(sent<LeaseAsk>(out_)[0].second.checkpoint, job_.checkpoint.name());
  EXPECT_EQ(sent<LeaseAsk>(out_)[0].second.digest, digest(1004));
}

TEST_F(LeaseTest, a_checkpoint_is_told_also_where_no_lease_is_needed) {
  enter({1, 2});
  tick(true);
  EXPECT_EQ(receivers<LeaseAsk>(out_), std::vector{node(2)});
  job_.member = false;
  pass(1s);
  tick(true);
  EXPECT_EQ(out_.size(), 1u) << "by members";
}

TEST_F(LeaseTest, after_the_end_it_is_renewed_no_more_but_a_checkpoint_told) {
  job_.finished = true;
  EXPECT_FALSE(tick());
  EXPECT_TRUE(out_.empty());
  pass(10s);
  EXPECT_FALSE(tick(true)) << "nor is the view to end for it";
  EXPECT_EQ(out_.size(), 2u);
}

TEST_F(LeaseTest, a_view_whose_lease_nobody_renews_is_to_end) {
  pass(999ms);
  EXPECT_FALSE(tick());
  pass(1ms);
  EXPECT_TRUE(tick());
  pass(1s);
  get_lease();
  pass(3699ms);
  EXPECT_FALSE(tick()) << "a second after it ran out";
  pass(1ms);
  EXPECT_TRUE(tick());
}

TEST_F(LeaseTest, a_view_that_ends_already_is_stopped_or_lacks_its_state_need_not_end) {
  pass(10s);
  job_.state_ready = false;
  EXPECT_FALSE(tick());
  job_.state_ready = true;
  want_change();
  EXPECT_FALSE(tick());
  view::View stopped = next_view({1}, {2, 3});
  stopped.stopped = true;
  install(stopped);
  pass(10s);
  EXPECT_FALSE(tick());
}

TEST_F(LeaseTest, only_what_was_committed_under_a_lease_is_reported) {
  tick();
  EXPECT_FALSE(lease_.may_report());
  EXPECT_EQ(lease_.reported(), 0u);
  get_lease();
  EXPECT_EQ(lease_.reported(), 5u);
  tick();
  stand_at(6);
  pass(3s);
  EXPECT_EQ(lease_.reported(), 5u) << "others may have gone on without step 6";
}

TEST_F(LeaseTest, a_foreign_state_is_not_reported_and_a_promise_ends_reporting) {
  get_lease();
  freeze();
  EXPECT_FALSE(lease_.may_report());
  job_.member = false;
  EXPECT_TRUE(lease_.may_report()) << "who is outside tells what it learnt";
  install(next_history({2, 3}, 4));
  EXPECT_FALSE(lease_.may_report());
}

TEST_F(LeaseTest, an_acceptor_grants_the_whole_term_and_tells_of_its_checkpoint) {
  enter({2}, {1, 3});
  job_.checkpoint = {4, digest(1004), {}, {}};
  const auto given = lease_.on_ask({Time{} + 7s, {}, {}});
  ASSERT_TRUE(given);
  EXPECT_TRUE(given->granted);
  EXPECT_TRUE(given->keeps_copies);
  EXPECT_EQ(given->asked, Time{} + 7s);
  EXPECT_EQ(given->checkpoint, job_.checkpoint.name());
  EXPECT_EQ(lease_.granted(), 3s);
  pass(1s);
  EXPECT_EQ(lease_.granted(), 2s);
  pass(5s);
  EXPECT_EQ(lease_.granted(), 0s);
}

TEST_F(LeaseTest, a_witness_without_a_trainer_says_that_it_keeps_no_copies) {
  enter({2}, {1, 3});
  job_.options.witness_only = true;
  EXPECT_FALSE(lease_.on_ask({})->keeps_copies);
}

TEST_F(LeaseTest, where_none_is_needed_or_by_who_does_not_vote_nothing_is_granted) {
  enter({1, 2, 3});
  EXPECT_FALSE(lease_.on_ask({})->granted);
  enter({2}, {3, 4});
  EXPECT_FALSE(lease_.on_ask({})->granted);
  EXPECT_EQ(lease_.granted(), 0s);
}

TEST_F(LeaseTest, who_has_promised_grants_nothing_more_but_what_it_granted_stands) {
  enter({2}, {1, 3});
  lease_.on_ask({});
  freeze();
  pass(1s);
  EXPECT_EQ(lease_.on_ask({}), std::nullopt);
  EXPECT_EQ(lease_.granted(), 2s);
}

TEST_F(LeaseTest, a_view_takes_nothing_of_what_was_granted) {
  enter({2}, {1, 3});
  lease_.on_ask({});
  lease_.on_view(enter({2}, {1, 4}));
  EXPECT_EQ(lease_.granted(), 3s);
}

TEST_F(LeaseTest, a_restart_counts_as_if_a_lease_had_been_granted_in_that_moment) {
  lease_.on_restart();
  EXPECT_EQ(lease_.granted(), 3s);
}

TEST_F(LeaseTest, a_view_that_leaves_out_who_may_still_commit_counts_like_a_grant) {
  view::View without = next_view({2}, {1, 3});
  lease_.on_view(install(without));
  EXPECT_EQ(lease_.granted(), 0s) << "it committed under no lease";
  without = next_view({3}, {1, 2});
  without.left_out = true;
  lease_.on_view(install(without));
  EXPECT_EQ(lease_.granted(), 3s);
  pass(1s);
  without = next_view({3}, {1, 4});
  without.left_out = true;
  lease_.on_view(install(without));
  EXPECT_EQ(lease_.granted(), 2s) << "nobody was left out by this one";
}

}  // namespace
}  // namespace gpunode::job
