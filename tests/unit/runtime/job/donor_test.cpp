#include "runtime/job/donor.hpp"

#include "tests/unit/runtime/job/context_fixture.hpp"

namespace gpunode::job {
namespace {

// Members 1 and 2 after step 5; learner 3 asks to come in.
class DonorTest : public ContextTest {
 protected:
  DonorTest() {
    enter({1, 2});
    stand_at(5);
    join(3);
    donor_.offer(out_);
  }
  void join(int number) {
    JoinAsk ask;
    ask.fingerprint = digest(77);
    joiners_.on_join(node(number), 1, true, ask, out_);
  }
  void ask_state(int from, std::uint64_t step, const Digest& named = {}) {
    donor_.on_message(node(from), StateAsk{step, named}, out_);
  }
  void read_state(int from, std::uint64_t step) {
    donor_.on_message(node(from), StateRead{digest(1000 + step), 0, 16}, out_);
  }
  void read_result(int from, std::uint64_t step, std::uint64_t offset = 0) {
    donor_.on_message(node(from), ResultRead{step, offset, 16}, out_);
  }
  // The driver's answer to the newest wish for a snapshot.
  void give_snapshot() {
    const auto wishes = of<ReadState>(out_);
    ASSERT_FALSE(wishes.empty());
    donor_.on_state_read(wishes.back().token, SharedBytes::from(Bytes(20)), out_);
  }
  void keep_result(std::uint64_t step) {
    donor_.keep_result(step, std::make_shared<const std::vector<float>>(8, 1.0f),
                       digest(2000 + step), {});
  }
  // The next step is committed; its state is not in place yet.
  void commit_next() {
    donor_.on_commit();
    commit();
    keep_result(job_.progress.committed());
  }
  void apply_and_offer() {
    apply();
    donor_.offer(out_);
  }
  // Parts that leave now, in bulk.
  std::size_t served(bool busy = false, Duration usual_step = {}) {
    Actions out;
    donor_.serve(busy, usual_step, out);
    for (const Send& one : of<Send>(out)) EXPECT_TRUE(one.bulk);
    return out.size();
  }
  std::size_t snapshots_wanted() const { return of<ReadState>(out_).size(); }
  std::size_t offers() const { return sent<StateMeta>(out_).size(); }

  Joiners joiners_{job_};
  Donor donor_{job_, joiners_};
};

TEST_F(DonorTest, a_learner_that_asks_for_the_state_is_offered_a_snapshot_of_it) {
  ask_state(3, 5);
  ASSERT_EQ(snapshots_wanted(), 1u);
  EXPECT_EQ(of<ReadState>(out_)[0].step, 5u);
  EXPECT_EQ(offers(), 0u);
  give_snapshot();
  ASSERT_EQ(offers(), 1u);
  EXPECT_EQ(sent<StateMeta>(out_)[0].second.digest, digest(1005));
  EXPECT_EQ(sent<StateMeta>(out_)[0].second.size_bytes, 20u);
}

TEST_F(DonorTest, all_who_ask_meanwhile_share_one_snapshot) {
  ask_state(3, 5);
  ask_state(2, 5);
  EXPECT_EQ(snapshots_wanted(), 1u);
  give_snapshot();
  EXPECT_EQ(receivers<StateMeta>(out_), (std::vector{node(2), node(3)}));
}

TEST_F(DonorTest, parts_of_a_snapshot_wait_for_their_turn_also_after_steps_were_committed) {
  ask_state(3, 5);
  give_snapshot();
  commit_next();
  read_state(3, 5);
  EXPECT_TRUE(sent<StatePart>(out_).empty());
  EXPECT_EQ(served(), 1u);
  EXPECT_EQ(served(), 0u);
}

TEST_F(DonorTest, a_state_to_come_is_offered_once_its_step_is_in_place) {
  ask_state(3, 6);
  EXPECT_EQ(snapshots_wanted(), 0u);
  commit_next();
  EXPECT_EQ(snapshots_wanted(), 0u) << "the state is about to change";
  apply_and_offer();
  EXPECT_EQ(snapshots_wanted(), 1u);
  EXPECT_EQ(of<ReadState>(out_)[0].step, 6u);
}

TEST_F(DonorTest, while_a_step_is_applied_the_state_before_it_is_gone) {
  commit_next();
  ask_state(3, 5);
  EXPECT_EQ(snapshots_wanted(), 0u);
}

TEST_F(DonorTest, the_result_of_a_kept_step_is_queued) {
  keep_result(5);
  read_result(3, 5);
  read_result(3, 5, 16);
  EXPECT_EQ(served(), 2u);
  read_result(3, 4);
  EXPECT_EQ(served(), 0u) << "it is not kept";
}

TEST_F(DonorTest, a_read_of_a_result_to_come_waits_for_its_step) {
  read_result(3, 6);
  EXPECT_EQ(served(), 0u);
  commit_next();
  EXPECT_EQ(served(), 1u);
}

TEST_F(DonorTest, a_learner_that_is_a_member_now_waits_for_no_later_result) {
  read_result(3, 6);
  donor_.on_member(node(3));
  commit_next();
  EXPECT_EQ(served(), 0u);
}

TEST_F(DonorTest, results_are_kept_while_a_learner_is_on_its_way_and_up_to_a_bound) {
  for (int i = 0; i < 3; ++i) commit_next();
  EXPECT_EQ(donor_.results_from(), 6u);
  job_.options.results_kept_bytes = 64;
  commit_next();
  EXPECT_EQ(donor_.results_from(), 8u) << "two results of 32 bytes";
}

TEST_F(DonorTest, without_a_learner_the_newest_result_alone_is_kept) {
  joiners_.forget(node(3));
  for (int i = 0; i < 3; ++i) commit_next();
  EXPECT_EQ(donor_.results_from(), 8u);
}

TEST_F(DonorTest, until_a_step_is_made_in_a_view_a_member_may_lack_the_results_before_it) {
  joiners_.forget(node(3));
  view::View next = next_view({1, 2});
  next.base_step = 6;
  keep_result(5);
  install(next);
  commit_next();
  EXPECT_EQ(donor_.results_from(), 5u);
  commit_next();
  EXPECT_EQ(donor_.results_from(), 7u);
}

TEST_F(DonorTest, strangers_and_learners_without_room_are_given_nothing) {
  keep_result(5);
  ask_state(9, 5);
  read_result(9, 5);
  job_.options.wanted_nodes = 2;
  ask_state(3, 5);
  read_result(3, 5);
  EXPECT_EQ(snapshots_wanted(), 0u);
  EXPECT_EQ(served(), 0u);
}

TEST_F(DonorTest, members_are_given_what_they_ask_for) {
  keep_result(5);
  ask_state(2, 5);
  read_result(2, 5);
  EXPECT_EQ(snapshots_wanted(), 1u);
  EXPECT_EQ(served(), 1u);
}

TEST_F(DonorTest, who_is_no_member_or_lacks_the_state_gives_and_offers_none) {
  job_.state_ready = false;
  ask_state(3, 5);
  EXPECT_EQ(snapshots_wanted(), 0u);
  donor_.forget_states();
  ask_state(2, 5);
  donor_.offer(out_);
  job_.member = false;
  donor_.offer(out_);
  ask_state(2, 5);
  EXPECT_EQ(snapshots_wanted(), 0u);
  job_.member = job_.state_ready = true;
  donor_.offer(out_);
  EXPECT_EQ(snapshots_wanted(), 1u) << "node 2 has waited for it";
}

TEST_F(DonorTest, frozen_it_gives_the_state_of_now_whatever_step_was_asked_for) {
  freeze();
  ask_state(2, 9);
  EXPECT_EQ(snapshots_wanted(), 1u);
}

TEST_F(DonorTest, frozen_a_state_that_is_named_by_its_digest_is_still_that_one) {
  freeze();
  ask_state(2, 9, digest(1009));
  EXPECT_EQ(snapshots_wanted(), 0u);
}

TEST_F(DonorTest, who_has_the_result_gives_it_to_everybody) {
  stand_at(10);
  job_.finished = true;
  job_.member = job_.state_ready = false;
  ask_state(9, 10, digest(1010));
  EXPECT_EQ(snapshots_wanted(), 1u);
  EXPECT_EQ(of<ReadState>(out_)[0].step, 10u);
}

TEST_F(DonorTest, another_snapshot_that_is_read_is_offered_to_a_learner_but_not_to_a_member) {
  ask_state(3, 5);
  give_snapshot();
  commit_next();
  apply_and_offer();
  ask_state(3, 6);
  EXPECT_EQ(offers(), 2u) << "of step 5, with the results since";
  ask_state(2, 6);
  EXPECT_EQ(snapshots_wanted(), 2u) << "the view waits for step 6 itself";
}

TEST_F(DonorTest, a_snapshot_from_which_no_results_lead_on_is_not_offered_any_more) {
  ask_state(3, 5);
  give_snapshot();
  job_.options.results_kept_bytes = 32;
  for (int i = 0; i < 2; ++i) commit_next();
  apply_and_offer();
  ask_state(3, 7);
  EXPECT_EQ(snapshots_wanted(), 2u);
}

TEST_F(DonorTest, a_snapshot_that_nobody_reads_is_let_go_of) {
  ask_state(3, 5);
  give_snapshot();
  pass(15s);
  donor_.on_tick();
  read_state(3, 5);
  EXPECT_EQ(served(), 0u);
}

TEST_F(DonorTest, another_history_makes_void_states_results_and_what_is_queued) {
  keep_result(5);
  ask_state(3, 5);
  give_snapshot();
  read_state(3, 5);
  donor_.forget_all();
  read_state(3, 5);
  read_result(3, 5);
  EXPECT_EQ(served(), 0u);
  EXPECT_EQ(donor_.results_from(), 6u);
}

TEST_F(DonorTest, results_can_be_let_go_of_alone) {
  keep_result(5);
  ask_state(3, 5);
  give_snapshot();
  donor_.forget_results();
  read_result(3, 5);
  read_state(3, 5);
  EXPECT_EQ(served(), 1u);
}

TEST_F(DonorTest, while_members_are_owed_sums_a_learner_gets_a_part_every_25_ms) {
  keep_result(5);
  for (int i = 0; i < 3; ++i) read_result(3, 5);
  EXPECT_EQ(served(true), 1u);
  pass(24ms);
  EXPECT_EQ(served(true), 0u);
  pass(1ms);
  EXPECT_EQ(served(true), 1u);
  EXPECT_EQ(served(false), 1u) << "nobody else is owed anything";
}

TEST_F(DonorTest, of_a_large_model_a_learner_gets_three_gradients_a_step) {
  keep_result(5);
  job_.options.results_kept_bytes = 100;
  for (int i = 0; i < 3; ++i) read_result(3, 5);
  EXPECT_EQ(served(true, 40ms), 1u);
  pass(9999us);
  EXPECT_EQ(served(true, 40ms), 0u);
  pass(1us);
  EXPECT_EQ(served(true, 40ms), 1u) << "96 bytes from two members, 16 at a time, and one more";
}

TEST_F(DonorTest, offers_leave_at_once_however_busy_the_links_are) {
  std::vector<StateSource::Reply> replies{{node(3), StateMeta{}}, {node(3), StatePart{}}};
  donor_.reply(replies, out_);
  EXPECT_EQ(offers(), 1u);
  EXPECT_EQ(served(), 1u);
}

TEST_F(DonorTest, after_the_end_older_results_are_kept_only_while_somebody_asks) {
  for (int i = 0; i < 3; ++i) commit_next();
  job_.finished = true;
  served();
  EXPECT_EQ(donor_.results_from(), 6u);
  pass(3s);
  served();
  EXPECT_EQ(donor_.results_from(), 8u);
}

}  // namespace
}  // namespace gpunode::job
