#include "runtime/job/copies.hpp"

#include "runtime/base/block_digest.hpp"
#include "tests/unit/runtime/job/context_fixture.hpp"

namespace gpunode::job {
namespace {

const Bytes kState(20, std::byte{7});  // two parts

// A job of one member and two witnesses; on which side, each test says.
class CopiesTest : public ContextTest {
 protected:
  static Checkpoint checkpoint(std::uint64_t step) {
    return {step, step == 4 ? block_digest_of(kState) : digest(1000 + step), {digest(9), 16}, {}};
  }

  Durability durability_{job_};
  Copies copies_{job_, durability_};
};

class WitnessCopiesTest : public CopiesTest {
 protected:
  WitnessCopiesTest() { enter({2}, {1, 3}); }
  void offer(std::uint64_t step, bool learns = false) {
    const Checkpoint offered = checkpoint(step);
    copies_.on_offer({job_.now, offered.name(), offered.state_digest}, learns, out_);
  }
  void give_meta() {
    copies_.on_message(node(2), StateMeta{4, kState.size(), checkpoint(4).state_digest, {}, {}},
                       out_);
  }
  void give_part(std::uint64_t offset) {
    const std::uint64_t length = std::min<std::uint64_t>(16, kState.size() - offset);
    copies_.on_message(node(2),
                       StatePart{checkpoint(4).state_digest, offset,
                                 SharedBytes::from(kState).part(offset, length)},
                       out_);
  }
  void fetch_all() {
    offer(4);
    give_meta();
    give_part(0);
    give_part(16);
  }
  std::vector<std::uint64_t> asked() const {
    std::vector<std::uint64_t> steps;
    for (const auto& [to, ask] : sent<StateAsk>(out_)) steps.push_back(ask.step);
    return steps;
  }
};

TEST_F(WitnessCopiesTest, a_newer_checkpoint_is_fetched_from_the_members_by_its_digest) {
  offer(4);
  const auto asks = sent<StateAsk>(out_);
  ASSERT_EQ(asks.size(), 1u);
  EXPECT_EQ(asks[0].first, node(2));
  EXPECT_EQ(asks[0].second.digest, checkpoint(4).state_digest);
}

TEST_F(WitnessCopiesTest, none_and_what_it_has_already_is_not_fetched) {
  offer(0);
  job_.checkpoint = checkpoint(4);
  offer(4);
  offer(3);
  EXPECT_TRUE(out_.empty());
}

TEST_F(WitnessCopiesTest, who_keeps_no_copies_is_a_member_learns_or_has_promised_fetches_none) {
  job_.options.witness_only = true;
  offer(4);
  job_.options.witness_only = false;
  job_.member = true;
  offer(4);
  job_.member = false;
  offer(4, true);
  freeze();
  offer(4);
  EXPECT_TRUE(out_.empty());
}

TEST_F(WitnessCopiesTest, one_of_which_nothing_has_come_gives_way_to_a_newer_one) {
  offer(4);
  offer(5);
  EXPECT_EQ(asked(), (std::vector<std::uint64_t>{4, 5}));
}

TEST_F(WitnessCopiesTest, when_all_has_come_it_is_written) {
  fetch_all();
  const auto keeps = of<KeepCopy>(out_);
  ASSERT_EQ(keeps.size(), 1u);
  EXPECT_EQ(keeps[0].checkpoint.step, 4u);
  EXPECT_EQ(keeps[0].checkpoint.state_digest, checkpoint(4).state_digest);
  EXPECT_EQ(to_bytes(keeps[0].state.view), kState);
}

TEST_F(WitnessCopiesTest, without_progress_for_five_seconds_it_is_given_up) {
  offer(4);
  give_meta();
  pass(4s);
  give_part(0);
  copies_.fetch_tick(out_);
  pass(4999ms);
  copies_.fetch_tick(out_);
  offer(5);
  EXPECT_EQ(asked().back(), 4u) << "it got on";
  pass(1ms);
  copies_.fetch_tick(out_);
  offer(5);
  EXPECT_EQ(asked().back(), 5u);
}

TEST_F(WitnessCopiesTest, over_a_new_connection_it_is_asked_for_again_at_once) {
  offer(4);
  give_meta();
  const std::size_t reads = sent<StateRead>(out_).size();
  ASSERT_GT(reads, 0u);
  copies_.fetch_tick(out_);
  EXPECT_EQ(sent<StateRead>(out_).size(), reads);
  copies_.on_reconnected(node(2));
  copies_.fetch_tick(out_);
  EXPECT_EQ(sent<StateRead>(out_).size(), 2 * reads);
}

TEST_F(WitnessCopiesTest, a_promise_and_a_view_that_lets_it_compute_end_the_fetch) {
  offer(4);
  give_meta();
  freeze();
  copies_.fetch_tick(out_);
  enter({2}, {1, 3});
  give_part(0);
  give_part(16);
  EXPECT_TRUE(of<KeepCopy>(out_).empty());
  offer(4);
  EXPECT_EQ(asked().size(), 2u);
  job_.member = true;
  copies_.fetch_tick(out_);
  job_.member = false;
  offer(4);
  EXPECT_EQ(asked().size(), 3u);
}

TEST_F(WitnessCopiesTest, while_one_is_written_none_is_fetched_for_half_a_minute) {
  fetch_all();
  out_.clear();
  pass(29999ms);
  offer(5);
  EXPECT_TRUE(out_.empty());
  pass(1ms);
  offer(5);
  EXPECT_EQ(asked(), std::vector<std::uint64_t>{5});
}

TEST_F(WitnessCopiesTest, what_is_written_makes_room_for_the_next) {
  fetch_all();
  out_.clear();
  job_.checkpoint = checkpoint(3);
  copies_.on_written();
  offer(5);
  EXPECT_TRUE(out_.empty()) << "another one was written";
  job_.checkpoint = checkpoint(4);
  copies_.on_written();
  offer(5);
  EXPECT_EQ(asked(), std::vector<std::uint64_t>{5});
}

TEST_F(WitnessCopiesTest, another_history_makes_void_what_is_on_its_way) {
  offer(4);
  copies_.on_history();
  give_meta();
  EXPECT_TRUE(sent<StateRead>(out_).empty());
}

class MemberCopiesTest : public CopiesTest {
 protected:
  MemberCopiesTest() {
    enter({1}, {2, 3});
    job_.checkpoint = checkpoint(4);
  }
  bool ask(int from, std::uint64_t step, const Digest& of) {
    return copies_.on_question(node(from), StateAsk{step, of}, replies_, out_);
  }
  bool ask_for(int from, std::uint64_t step) {
    return ask(from, step, checkpoint(step).state_digest);
  }
  bool read(int from) {
    return copies_.on_question(node(from), StateRead{checkpoint(4).state_digest, 0, 16}, replies_,
                               out_);
  }
  void answer_reads(const Bytes& bytes) {
    for (const ReadSaved& one : of<ReadSaved>(std::exchange(out_, {})))
      copies_.on_saved_read(one.token, SharedBytes::from(bytes), replies_);
  }
  void told(int from, std::uint64_t step) {
    durability_.on_told(node(from), {job_.now, true, true, checkpoint(step).name()});
  }

  std::vector<StateSource::Reply> replies_;
};

TEST_F(MemberCopiesTest, the_newest_checkpoint_is_offered_once) {
  EXPECT_TRUE(copies_.offer_tick());
  EXPECT_EQ(copies_.offered().name(), checkpoint(4).name());
  EXPECT_FALSE(copies_.offer_tick());
}

TEST_F(MemberCopiesTest, only_members_that_need_a_lease_offer_one) {
  enter({1, 2, 3});
  EXPECT_FALSE(copies_.offer_tick());
  enter({2}, {1, 3});
  EXPECT_FALSE(copies_.offer_tick());
}

TEST_F(MemberCopiesTest, a_witness_that_asks_for_it_is_given_it) {
  copies_.offer_tick();
  EXPECT_TRUE(ask_for(2, 4));
  ASSERT_EQ(of<ReadSaved>(out_).size(), 1u);
  EXPECT_EQ(of<ReadSaved>(out_)[0].step, 4u);
  answer_reads(kState);
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_EQ(std::get<StateMeta>(replies_[0].body).size_bytes, kState.size());
  EXPECT_TRUE(read(2));
  EXPECT_EQ(std::get<StatePart>(replies_[1].body).payload.size(), 16u);
}

TEST_F(MemberCopiesTest, who_is_no_witness_and_who_asks_for_another_state_is_not_given_it) {
  copies_.offer_tick();
  EXPECT_FALSE(ask_for(9, 4));
  EXPECT_FALSE(ask_for(2, 3));
  EXPECT_FALSE(read(2)) << "it was not read from the disk";
  EXPECT_TRUE(out_.empty());
}

TEST_F(MemberCopiesTest, a_question_that_names_another_step_than_its_digest_hinders_nobody) {
  copies_.offer_tick();
  EXPECT_FALSE(ask(2, 5, checkpoint(4).state_digest));
  job_.checkpoint = checkpoint(5);
  EXPECT_TRUE(copies_.offer_tick());
  EXPECT_FALSE(copies_.is_read());
  EXPECT_TRUE(ask_for(3, 5));
  EXPECT_EQ(of<ReadSaved>(out_).size(), 1u);
}

TEST_F(MemberCopiesTest, the_next_one_waits_while_this_one_is_read) {
  copies_.offer_tick();
  ask_for(2, 4);
  answer_reads(kState);
  EXPECT_TRUE(copies_.is_read());
  job_.checkpoint = checkpoint(5);
  EXPECT_FALSE(copies_.offer_tick());
  pass(5s);
  EXPECT_FALSE(copies_.is_read());
  EXPECT_TRUE(copies_.offer_tick()) << "nobody reads it any more";
}

TEST_F(MemberCopiesTest, the_next_one_is_offered_once_all_witnesses_have_this_one) {
  copies_.offer_tick();
  ask_for(2, 4);
  answer_reads(kState);
  job_.checkpoint = checkpoint(5);
  told(2, 4);
  EXPECT_FALSE(copies_.offer_tick());
  told(3, 4);
  EXPECT_TRUE(copies_.offer_tick());
  EXPECT_EQ(copies_.offered().step, 5u);
}

TEST_F(MemberCopiesTest, one_that_cannot_be_read_or_is_lost_is_offered_no_longer) {
  copies_.offer_tick();
  ask_for(2, 4);
  answer_reads({});
  EXPECT_EQ(copies_.offered().step, 0u);
  EXPECT_FALSE(ask_for(2, 4));
  EXPECT_TRUE(copies_.offer_tick()) << "it is offered anew";
  copies_.on_lost(checkpoint(3).name());
  EXPECT_EQ(copies_.offered().step, 4u);
  copies_.on_lost(checkpoint(4).name());
  EXPECT_EQ(copies_.offered().step, 0u);
}

TEST_F(MemberCopiesTest, another_history_makes_void_what_is_offered) {
  copies_.offer_tick();
  copies_.on_history();
  EXPECT_EQ(copies_.offered().step, 0u);
  EXPECT_FALSE(ask_for(2, 4));
}

TEST_F(MemberCopiesTest, a_node_outside_gives_its_checkpoint_to_members_that_go_on_from_it) {
  enter({2, 3});
  EXPECT_FALSE(ask_for(9, 4));
  EXPECT_FALSE(ask_for(2, 3));
  EXPECT_TRUE(ask_for(2, 4));
  answer_reads(kState);
  EXPECT_TRUE(read(2));
}

}  // namespace
}  // namespace gpunode::job
