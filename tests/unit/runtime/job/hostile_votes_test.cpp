// What may be said in votes to harm others: in ballots, in promises that the next view is made of.
#include <gtest/gtest.h>

#include "runtime/job/job_codec.hpp"
#include "runtime/job/step_plan.hpp"
#include "tests/unit/runtime/job/hostile_fixture.hpp"
#include "tests/unit/runtime/job/proposal_fixture.hpp"

namespace gpunode::job {
namespace {

view::ViewAgreement::Promiser restarted(int number) {
  auto one = at(number, 0, 0);
  one.standing.has_memory = false;
  one.standing.boot = 2;
  return one;
}

// The words of a pace that was measured in 65535 steps: one more is no step at all.
TEST(HostilePaces, a_promise_makes_no_member_divide_by_zero) {
  const view::View current = current_of(3);
  auto liar = at(2, 20, 20);
  liar.standing.plan = current.plan;
  collective::Paces paces = collective::Paces::of_members(3);
  for (collective::Pace& pace : paces.members) pace = {1000, 1, 0xffff};
  paces.gradient_us = 1000;
  paces.gradient_samples = 0xffff;
  liar.standing.paces = paces.to_words();
  // The codec lets it through.
  const JobMessage said{{1, 1}, {{}, 5}, 1, Vote{view::Promise{{1, node(1)}, {}, liar.standing}}};
  const auto encoded = encode_message(said);
  const auto heard = decode_message(encoded.body, {}, {1, 1}, 8);
  ASSERT_TRUE(heard) << "refused: then all is well";
  liar.standing = std::get<view::Promise>(std::get<Vote>(heard->body).message).standing;

  const auto next =
      propose_view(rules_of(3, 100), current, {at(1, 20, 20), liar, at(3, 20, 20)}, {});
  ASSERT_TRUE(next);
  const collective::Tree tree = collective::Tree::of_slices(8);
  const collective::Routing routing;
  StepPlan plan(tree, routing);
  plan.begin(*next);
  collective::StepTimes honest;
  honest.compute = {100'000, 0, 3, 1};
  honest.gather_us = 1000;
  plan.next(*next, 22, {honest, honest, honest});  // as at the commit of step 21
  EXPECT_TRUE(plan.slices().fits(tree, 3));
}

class HostileVotesTest : public ContextTest {
 protected:
  HostileVotesTest() { enter({1, 2, 3}); }
  view::ViewAgreement::Effects say(int from, const view::VoteMessage& message) {
    view::ViewAgreement::Effects out;
    job_.agreement.on_message(job_.now, node(from), message, out);
    view::ViewAgreement::Effects after;
    for (const auto& [token, bytes] : out.persists)
      job_.agreement.on_persisted(job_.now, token, after);
    for (auto& one : after.sends) out.sends.push_back(std::move(one));
    return out;
  }
  template <class T>
  static std::vector<T> of_kind(const view::ViewAgreement::Effects& effects) {
    std::vector<T> found;
    for (const auto& [to, message] : effects.sends)
      if (const auto* one = std::get_if<T>(&message)) found.push_back(*one);
    return found;
  }
  // Node 1 wants a change and proposes, heard by node 2; what it asks.
  std::vector<view::Prepare> propose() {
    job_.agreement.want_change(job_.now);
    std::vector<view::Prepare> asked;
    for (int i = 0; i < 400 && asked.empty(); ++i) {
      pass(25ms);
      view::ViewAgreement::Effects out;
      job_.agreement.on_tick(job_.now, out);
      auto effects = out;
      for (const view::Probe& probe : of_kind<view::Probe>(out)) {
        auto more = say(2, view::Echo{probe.nonce});
        for (auto& one : more.sends) effects.sends.push_back(std::move(one));
      }
      view::ViewAgreement::Effects after;
      for (const auto& [token, bytes] : out.persists)
        job_.agreement.on_persisted(job_.now, token, after);
      for (auto& one : after.sends) effects.sends.push_back(std::move(one));
      asked = of_kind<view::Prepare>(effects);
    }
    return asked;
  }
};

TEST_F(HostileVotesTest, who_has_no_part_in_the_view_freezes_nobody) {
  say(kStranger, view::Prepare{{1, node(kStranger)}});
  EXPECT_FALSE(job_.agreement.frozen());
}

TEST_F(HostileVotesTest, who_has_no_vote_gets_none_for_its_view) {
  view::View next = job_.view();
  next.previous = job_.view().digest();
  ++next.view_id;
  next.members = {{node(kStranger), 1}};
  next.acceptors = {node(kStranger)};
  next.tie = node(kStranger);
  const auto out = say(kStranger, view::Accept{{1, node(kStranger)}, next});
  EXPECT_TRUE(of_kind<view::Accepted>(out).empty());
}

TEST_F(HostileVotesTest, a_member_that_nobody_disturbs_proposes) {
  const auto asked = propose();
  ASSERT_FALSE(asked.empty());
  EXPECT_EQ(asked[0].ballot.round, 1u);
}

TEST_F(HostileVotesTest, after_the_highest_ballot_there_is_a_higher_one_still) {
  say(3, view::Prepare{{kHuge, node(3)}});  // then it goes away for good
  const auto asked = propose();
  ASSERT_FALSE(asked.empty()) << "nobody ever proposes again, nor after a restart";
  EXPECT_GT(asked[0].ballot.round, 0u) << "round 0 is no ballot: nobody answers it";
}

// One of them was led far ahead by many ballots; the other comes to it by its refusals.
TEST_F(HostileVotesTest, who_was_led_far_ahead_is_met_again) {
  const std::uint64_t far = std::uint64_t{5} << 32;
  std::uint64_t round = 0;
  for (int tries = 0; tries < 20 && round <= far; ++tries) {
    const auto asked = propose();
    ASSERT_FALSE(asked.empty());
    round = asked.back().ballot.round;
    if (round <= far) say(2, view::Refuse{{far, node(2)}});
  }
  EXPECT_GT(round, far);
}

TEST_F(HostileVotesTest, a_refusal_by_the_highest_ballot_does_not_stop_this_node_from_proposing) {
  say(kStranger, view::Refuse{{kHuge, node(kStranger)}});
  const auto asked = propose();
  ASSERT_FALSE(asked.empty());
  EXPECT_GT(asked[0].ballot.round, 0u);
}

TEST_F(HostileVotesTest, a_floor_beyond_all_steps_does_not_keep_real_ones_from_being_noted) {
  say(kStranger, view::NoteFloor{{{{0xffffffff, 7}, kHuge}, {node(kStranger)}}});
  const auto out = say(2, view::NoteFloor{{{job_.view().history(), 6}, {node(1), node(2)}}});
  EXPECT_EQ(of_kind<view::FloorNoted>(out).size(), 1u)
      << "no checkpoint is ever called durable again: the lie is on disk, and kept by each view";
}

// It passes descends_from: every later view carries it on, and a rollback waits for it.
TEST(HostileFloor, a_floor_after_the_last_step_does_not_become_the_jobs) {
  auto liar = at(2, 20, 20);
  liar.standing.floor = {{{}, kHuge}, {node(200)}};
  const auto next =
      propose_view(rules_of(3, 100), current_of(3), {at(1, 20, 20), liar, at(3, 20, 20)}, {});
  ASSERT_TRUE(next);
  EXPECT_LE(next->floor.name.step, 100u);
}

TEST(HostileProposal, a_step_after_the_last_is_no_base) {
  const auto next = propose_view(rules_of(3, 100), current_of(3),
                                 {restarted(1), at(2, kHuge, kHuge), restarted(3)}, {});
  EXPECT_TRUE(!next || next->base_step <= 100)
      << "its proposer accepts it, all others refuse it: none follows, ever";
}

TEST(HostileProposal, a_survivor_is_not_behind_the_view_that_it_is_in) {
  auto liar = at(2, 0, 0);  // a member with memory holds at least step 10, the view's base
  const auto next =
      propose_view(rules_of(3, 100), current_of(3), {at(1, 20, 20), liar, at(3, 20, 20)}, {});
  ASSERT_TRUE(next);
  EXPECT_GE(next->base_step, 10u);
  EXPECT_NE(next->state_digest, digest(2000)) << "all fetch the liar's state";
}

TEST(HostileProposal, a_checkpoint_after_the_last_step_is_nothing_to_go_back_to) {
  view::View current = current_of(3);
  current.floor = {{{}, 50}, {node(1), node(3)}};
  auto one = restarted(1), three = restarted(3);
  one.standing.checkpoint = three.standing.checkpoint = {{}, 50};
  one.standing.checkpoint_digest = three.standing.checkpoint_digest = digest(2050);
  Joining stranger{{node(kStranger), 1}, false, {{}, kHuge}, digest(666)};
  const auto next = propose_view(rules_of(3, 100), current, {one, restarted(2), three}, {stranger});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->base_step, 50u);
  EXPECT_EQ(next->state_digest, digest(2050));
}

TEST(HostileProposal, a_strangers_word_does_not_outdo_the_durable_checkpoint_of_two_members) {
  view::View current = current_of(3);
  current.floor = {{{}, 50}, {node(1), node(3)}};
  auto one = restarted(1), three = restarted(3);
  one.standing.checkpoint = three.standing.checkpoint = {{}, 50};
  one.standing.checkpoint_digest = three.standing.checkpoint_digest = digest(2050);
  Joining stranger{{node(kStranger), 1}, false, {{}, 100}, digest(666)};  // "the job's result"
  const auto next = propose_view(rules_of(3, 100), current, {one, restarted(2), three}, {stranger});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->base_step, 50u);
  EXPECT_EQ(next->state_digest, digest(2050));
}

// It was a member once, and nothing says that it lies.
TEST(HostileProposal, who_had_a_part_once_is_believed_to_have_more) {
  view::View current = current_of(3);
  current.floor = {{{}, 50}, {node(1), node(3)}};
  auto one = restarted(1);
  one.standing.checkpoint = {{}, 50};
  one.standing.checkpoint_digest = digest(2050);
  const Joining back{{node(4), 1}, false, {{}, 60}, digest(2060), true};
  const auto next =
      propose_view(rules_of(3, 100), current, {one, restarted(2), restarted(3)}, {back});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->base_step, 60u);
}

}  // namespace
}  // namespace gpunode::job
