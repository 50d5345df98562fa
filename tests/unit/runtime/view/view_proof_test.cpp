#include "runtime/view/view_proof.hpp"

#include <functional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/broken_rules.hpp"
#include "tests/support/ids.hpp"
#include "tests/support/twin_proofs.hpp"

namespace gpunode::view {
namespace {

// The view after one in which nodes 1 to 3 vote and node 4 computes with them.
class ViewProofTest : public ::testing::Test {
 protected:
  ViewProofTest() {
    now_.view_id = 7;
    for (int i = 1; i <= 4; ++i) now_.members.push_back({node(i), 1});
    now_.acceptors = {node(1), node(2), node(3)};
    now_.tie = node(1);
  }
  // One of several that could be next.
  View next(std::uint64_t base = 5) const {
    View view = now_;
    ++view.view_id;
    view.previous = now_.digest();
    view.base_step = base;
    return view;
  }
  Level level(std::uint64_t round, const std::vector<std::pair<int, std::optional<Claim>>>& told) {
    const Ballot ballot{round, node(1)};
    Level level{ballot, {}};
    for (const auto& [by, accepted] : told)
      level.promises.push_back(told_by(node(by), now_, ballot, {}, accepted));
    return level;
  }
  static Claim accepted(const View& view, std::uint64_t round) { return {{round, node(1)}, view}; }
  bool proves(const std::vector<Level>& levels, const View& view) {
    return view::proves(TwinSigner(node(9)), now_, levels.front().ballot, view, {levels, {}},
                        [this](const auto& promisers, const auto&, const View& asked, bool fresh) {
                          followed_from_ = promisers.size();
                          fresh_ = fresh;
                          return asked != unfounded_;
                        });
  }
  AcceptedView accepted_with(const View& view, std::vector<Level> levels) {
    return {levels.front().ballot, view, {std::move(levels), {}}};
  }

  View now_, unfounded_;
  std::size_t followed_from_ = 0;
  bool fresh_ = false;
};

TEST_F(ViewProofTest, a_view_is_proven_by_the_promises_of_a_quorum_that_it_follows_from) {
  const Level heard = level(3, {{1, {}}, {2, {}}, {4, {}}});
  EXPECT_TRUE(proves({heard}, next()));
  EXPECT_EQ(followed_from_, 3u) << "who does not vote counts for the view too";
  EXPECT_TRUE(fresh_);
  unfounded_ = next();
  EXPECT_FALSE(proves({heard}, next()));
}

TEST_F(ViewProofTest, less_than_a_quorum_proves_nothing) {
  EXPECT_FALSE(proves({level(3, {{2, {}}})}, next()));
  EXPECT_FALSE(proves({level(3, {{2, {}}, {4, {}}})}, next())) << "node 4 does not vote";
  EXPECT_FALSE(proves({level(3, {{2, {}}, {2, {}}})}, next())) << "one twice";
  EXPECT_FALSE(proves({level(3, {{1, {}}, {2, {}}, {9, {}}})}, next())) << "a stranger's";
  EXPECT_FALSE(proves({level(3, {})}, next()));
}

TEST_F(ViewProofTest, a_promise_holds_for_its_giver_its_view_its_ballot_and_what_it_says) {
  const auto refused = [this](auto spoil) {
    std::vector<Level> levels{level(3, {{1, {}}, {2, {}}})};
    spoil(levels[0]);
    return !proves(levels, next());
  };
  EXPECT_FALSE(refused([](Level&) {}));
  EXPECT_TRUE(refused([](Level& l) { l.promises[1].node = node(3); }));
  EXPECT_TRUE(refused([](Level& l) { l.promises[1].signature[2] ^= std::byte{1}; }));
  EXPECT_TRUE(refused([](Level& l) { ++l.ballot.round; }));
  EXPECT_TRUE(refused([this](Level& l) { l.promises[1].accepted = accepted(next(), 1); }));
  const std::vector<std::function<void(Standing&)>> changes = {
      [](Standing& s) { s.boot = 2; },
      [](Standing& s) { s.has_memory = true; },
      [](Standing& s) { s.leaving = true; },
      [](Standing& s) { s.finished = true; },
      [](Standing& s) { s.applied = 1; },
      [](Standing& s) { s.held = 1; },
      [](Standing& s) { s.state_digest.low = 1; },
      [](Standing& s) { s.applied_result_digest.low = 1; },
      [](Standing& s) { s.held_result_digest.low = 1; },
      [](Standing& s) { s.fingerprint.low = 1; },
      [](Standing& s) { s.checkpoint.step = 1; },
      [](Standing& s) { s.checkpoint_digest.low = 1; },
      [](Standing& s) { s.unreachable = {node(1)}; },
      [](Standing& s) { s.order = SignedOrder{}; },
      [](Standing& s) { s.plan = {1}; },
      [](Standing& s) { s.paces = {1}; },
      [](Standing& s) { s.learners = {node(1)}; },
      [](Standing& s) { s.floor.name.step = 1; },
      [](Standing& s) { s.floor.holders = {node(1)}; },
      [](Standing& s) { s.lease_left = Duration(1); },
      [](Standing& s) { s.met = 1; }};
  for (std::size_t i = 0; i < changes.size(); ++i)
    EXPECT_TRUE(refused([&](Level& l) { changes[i](l.promises[0].standing); })) << i;
  const gpunode::testing::BreakRule unsigned_promises("promises_unsigned");
  EXPECT_FALSE(refused([](Level& l) { l.promises[1].signature[2] ^= std::byte{1}; }));
}

TEST_F(ViewProofTest, a_promise_for_another_view_proves_nothing_here) {
  const Level heard = level(3, {{1, {}}, {2, {}}});
  now_.base_step = 1;
  EXPECT_FALSE(proves({heard}, next()));
}

TEST_F(ViewProofTest, once_something_was_accepted_it_is_taken_over_by_the_proof_it_had) {
  const View first = next(5);
  const Level fresh = level(1, {{1, {}}, {2, {}}});
  const Level later = level(3, {{2, accepted(first, 1)}, {3, {}}});
  EXPECT_FALSE(proves({later}, first)) << "who says that it could be?";
  EXPECT_FALSE(proves({later}, next(6))) << "nor is it passed over";
  EXPECT_TRUE(proves({later, fresh}, first));
  EXPECT_FALSE(fresh_) << "what was ordered may have expired since";
  EXPECT_FALSE(proves({later, fresh}, next(6)));
  EXPECT_FALSE(proves({fresh, later}, first));
}

TEST_F(ViewProofTest, of_two_that_were_accepted_the_one_of_the_higher_ballot_is_taken_over) {
  const View low = next(5), high = next(6);
  const Level first = level(1, {{1, {}}, {2, {}}}), second = level(2, {{1, {}}, {3, {}}});
  const Level both = level(4, {{2, accepted(low, 1)}, {3, accepted(high, 2)}});
  EXPECT_TRUE(proves({both, second}, high));
  EXPECT_FALSE(proves({both, first}, low));
  EXPECT_FALSE(proves({both, second}, low));
}

// Node 3 votes for another view than the one that was accepted, in a ballot that never was.
TEST_F(ViewProofTest, a_ballot_that_nobody_held_outdoes_none) {
  const View low = next(5), high = next(6);
  const Level first = level(1, {{1, {}}, {3, {}}});
  const Level both = level(4, {{2, accepted(low, 2)}, {3, accepted(high, 3)}});
  EXPECT_FALSE(proves({both, first}, high)) << "the other was accepted after that";
}

TEST_F(ViewProofTest, nobody_accepts_in_a_later_ballot_than_the_one_it_promises) {
  const Level fresh = level(1, {{1, {}}, {2, {}}});
  EXPECT_FALSE(proves({level(3, {{2, accepted(next(), 4)}, {3, {}}}), fresh}, next()));
  EXPECT_FALSE(proves({level(3, {{2, accepted(next(), 3)}, {3, {}}}), fresh}, next()));
}

TEST_F(ViewProofTest, taken_over_again_and_again_a_proof_does_not_grow) {
  const View view = next();
  AcceptedView last = accepted_with(view, {level(1, {{1, {}}, {2, {}}})});
  for (std::uint64_t round = 2; round < 20; ++round) {
    Level heard = level(round, {{2, accepted(view, last.ballot.round)}, {3, {}}});
    last = {heard.ballot, view, taken_over(heard, last)};
    EXPECT_EQ(last.proof.levels.size(), 2u);
    EXPECT_TRUE(proves(last.proof.levels, view)) << round;
  }
}

// Whoever has accepted the other one goes on saying so.
TEST_F(ViewProofTest, nor_does_it_beside_a_rival) {
  const View view = next(5), rival = next(6);
  const Claim other = accepted(rival, 2);
  AcceptedView last = accepted_with(view, {level(3, {{1, {}}, {2, {}}})});
  for (std::uint64_t round = 4; round < 20; ++round) {
    Level heard = level(round, {{2, accepted(view, last.ballot.round)}, {3, other}});
    last = {heard.ballot, view, taken_over(heard, last)};
    EXPECT_EQ(last.proof.levels.size(), 2u);
    EXPECT_TRUE(proves(last.proof.levels, view)) << round;
  }
  Level below = level(30, {{2, accepted(view, 19)}, {3, accepted(rival, 10)}});
  const Proof longer = taken_over(below, last);
  EXPECT_EQ(longer.levels.size(), 3u) << "that the rival was accepted at 10 has to be outdone";
  EXPECT_TRUE(proves(longer.levels, view));
}

// A teller may say anything of what is not needed.
TEST_F(ViewProofTest, what_a_node_has_seen_itself_is_not_crowded_out_of_what_it_keeps) {
  const Level seen = level(2, {{1, {}}, {2, {}}});
  Proof told{{level(3, {{1, {}}, {2, {}}})}, {}};
  for (std::uint64_t round = 2; round < 1000; ++round)
    if (round != 3) told.left_out.push_back(level(round, {{3, {}}}));
  Proof own{{}, {}, {seen}};
  keep_levels(own, told);
  EXPECT_EQ(own.left_out.front(), seen);
  EXPECT_LE(own.left_out.size(), 32u);

  own.left_out = {seen};
  told.left_out = {level(4, {{3, {}}})};
  told.left_out.front().promises.front().standing.paces.resize(1u << 18);
  keep_levels(own, told);
  EXPECT_EQ(own.left_out, (std::vector{seen, told.levels.front()})) << "two megabytes";
}

}  // namespace
}  // namespace gpunode::view
