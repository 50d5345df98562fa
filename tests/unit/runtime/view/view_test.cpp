#include "runtime/view/view.hpp"

#include <gtest/gtest.h>

#include "runtime/storage/strong_digest.hpp"
#include "tests/support/ids.hpp"

namespace gpunode::view {
namespace {

View view_of(int acceptors) {
  View view;
  for (int i = 1; i <= acceptors; ++i) {
    view.acceptors.push_back(node(i));
    view.members.push_back({node(i), 1});
  }
  view.tie = node(1);
  return view;
}

TEST(View, more_than_half_of_the_acceptors_is_a_quorum) {
  const std::vector<NodeId> two{node(2), node(3)};
  EXPECT_TRUE(is_quorum(view_of(3), two));
  EXPECT_FALSE(is_quorum(view_of(5), two));
}

TEST(View, exactly_half_needs_the_tie_breaker) {
  const std::vector<NodeId> with{node(1), node(3)}, without{node(2), node(3)};
  EXPECT_TRUE(is_quorum(view_of(4), with));
  EXPECT_FALSE(is_quorum(view_of(4), without));
}

TEST(View, strangers_and_repeated_voters_do_not_count) {
  const std::vector<NodeId> strangers{node(2), node(8), node(9)};
  const std::vector<NodeId> repeated{node(2), node(2), node(2)};
  EXPECT_FALSE(is_quorum(view_of(3), strangers));
  EXPECT_FALSE(is_quorum(view_of(3), repeated));
  EXPECT_FALSE(is_quorum(view_of(2), {}));
}

TEST(View, its_digest_covers_every_field) {
  const View view = view_of(3);
  const auto differs = [&](auto change) {
    View other = view;
    change(other);
    return other.digest() != view.digest();
  };
  EXPECT_EQ(view.digest(), view_of(3).digest());
  EXPECT_TRUE(differs([](View& v) { v.job.low = 1; }));
  EXPECT_TRUE(differs([](View& v) { v.turns = {{}}; }));
  EXPECT_TRUE(differs([](View& v) { v.met = 1; }));
  EXPECT_TRUE(differs([](View& v) { v.met_step = 1; }));
  EXPECT_TRUE(differs([](View& v) { v.view_id = 1; }));
  EXPECT_TRUE(differs([](View& v) { v.previous.high = 1; }));
  EXPECT_TRUE(differs([](View& v) { v.members[1].boot = 2; }));
  EXPECT_TRUE(differs([](View& v) { v.acceptors.pop_back(); }));
  EXPECT_TRUE(differs([](View& v) { v.tie = node(2); }));
  EXPECT_TRUE(differs([](View& v) { v.base_step = 1; }));
  EXPECT_TRUE(differs([](View& v) { v.state_digest.low = 1; }));
  EXPECT_TRUE(differs([](View& v) { v.result_digest.low = 1; }));
  EXPECT_TRUE(differs([](View& v) { v.plan = {0, 1}; }));
  EXPECT_TRUE(differs([](View& v) { v.owner_rotation = 1; }));
  EXPECT_TRUE(differs([](View& v) { v.fingerprint.low = 1; }));
  EXPECT_TRUE(differs([](View& v) { v.restores = true; }));
  EXPECT_TRUE(differs([](View& v) { v.stopped = true; }));
  EXPECT_TRUE(differs([](View& v) { v.order = SignedOrder{}; }));
  EXPECT_TRUE(differs([](View& v) { v.paces = {1}; }));
  EXPECT_TRUE(differs([](View& v) { v.floor.name.history.turn = 1; }));
  EXPECT_TRUE(differs([](View& v) { v.floor.name.history.mark = 1; }));
  EXPECT_TRUE(differs([](View& v) { v.floor.name.step = 1; }));
  EXPECT_TRUE(differs([](View& v) { v.floor.holders = {node(1)}; }));
  EXPECT_TRUE(differs([](View& v) { v.disagreed_step = 1; }));
  EXPECT_TRUE(differs([](View& v) { v.sync_sources = {node(1)}; }));
}

// Views follow on one another by it, and members choose what is in them.
TEST(View, its_digest_is_a_strong_one) {
  EXPECT_EQ(view_of(3).digest(), storage::strong_digest_of(view_of(3).bytes()));
}

TEST(View, its_digest_covers_every_field_of_a_turn) {
  View view = view_of(3);
  view.turns = {{}};
  const auto differs = [&](auto change) {
    View other = view;
    change(other.turns[0]);
    return other.digest() != view.digest();
  };
  EXPECT_TRUE(differs([](Turn& turn) { turn.view_id = 1; }));
  EXPECT_TRUE(differs([](Turn& turn) { turn.base_step = 1; }));
  EXPECT_TRUE(differs([](Turn& turn) { turn.mark = 1; }));
  EXPECT_TRUE(differs([](Turn& turn) { turn.kind = Turn::Kind::split; }));
}

TEST(View, a_state_counts_up_to_where_its_history_was_left_behind) {
  View view = view_of(3);
  EXPECT_EQ(view.history(), HistoryId{});
  EXPECT_TRUE(view.descends_from({}, 100));
  view.turns = {{4, 30, 44, Turn::Kind::rollback}, {6, 50, 66, Turn::Kind::split}};
  EXPECT_EQ(view.history(), (HistoryId{2, 66}));
  EXPECT_EQ(view.generation(), 1u) << "a rollback is none";
  EXPECT_TRUE(view.descends_from({2, 66}, 1000)) << "its own";
  EXPECT_TRUE(view.descends_from({1, 44}, 50));
  EXPECT_FALSE(view.descends_from({1, 44}, 51)) << "after the split";
  EXPECT_TRUE(view.descends_from({}, 30));
  EXPECT_FALSE(view.descends_from({}, 31)) << "undone by the rollback, whatever came later";
  EXPECT_FALSE(view.descends_from({1, 45}, 10)) << "of another part";
  EXPECT_FALSE(view.descends_from({3, 77}, 10)) << "of a history that it knows nothing of";
}

// A view of one chain: `turns` on the way, its own number, and what it was formed to be compared
// with.
View part_of(std::uint64_t view_id, std::vector<Turn> turns, std::uint64_t base = 0,
             std::uint64_t met = 0) {
  View view = view_of(3);
  view.view_id = view_id;
  view.turns = std::move(turns);
  view.base_step = base;
  view.met = met;
  view.met_step = met == 0 ? 0 : base;
  return view;
}

// What each side finds; they must not both go before, nor both give way.
void expect_ours(const View& ours, const View& theirs) {
  EXPECT_EQ(precedence(theirs, ours), Precedence::ours);
  EXPECT_EQ(precedence(ours, theirs), Precedence::theirs);
}

const Turn kBack{4, 10, 44, Turn::Kind::rollback};
const Turn kSplit{6, 20, 66, Turn::Kind::split};
const Turn kOther{6, 25, 77, Turn::Kind::split};
const Turn kOrdered{6, 20, 88, Turn::Kind::ordered};

TEST(Precedence, of_one_chain_the_later_view_goes_before) {
  expect_ours(part_of(5, {kBack}), part_of(3, {}));
  expect_ours(part_of(5, {}), part_of(4, {kBack}));
}

TEST(Precedence, who_has_split_off_gives_way_to_who_had_the_quorum) {
  expect_ours(part_of(6, {kBack}), part_of(9, {kBack, kSplit}));
  expect_ours(part_of(9, {kBack, kSplit}), part_of(5, {kBack}));
}

TEST(Precedence, a_split_that_a_person_ordered_goes_before_a_quorum) {
  expect_ours(part_of(6, {kOrdered}), part_of(9, {}));
  expect_ours(part_of(6, {kOrdered}), part_of(9, {kSplit}));
}

TEST(Precedence, two_that_split_off_wait_until_both_were_formed_for_the_comparison) {
  const View one = part_of(7, {kSplit}, 30), other = part_of(9, {kOther}, 40);
  EXPECT_EQ(precedence(one, other), Precedence::open);
  EXPECT_EQ(precedence(other, one), Precedence::open);
  EXPECT_EQ(parted_by(one, other), 66u);
  EXPECT_EQ(parted_by(other, one), 77u);
  EXPECT_EQ(parted_by(one, part_of(8, {kSplit})), 0u);
  const View half = part_of(8, {kSplit}, 30, 77);
  EXPECT_EQ(precedence(half, other), Precedence::open);
  EXPECT_EQ(precedence(other, half), Precedence::open);
  expect_ours(part_of(10, {kOther}, 40, 66), half);
  expect_ours(half, part_of(10, {kOther}, 30, 66));
}

TEST(Precedence, of_two_that_split_off_stands_however_far_either_goes_on_or_back) {
  const View one = part_of(8, {kSplit}, 30, 77), other = part_of(10, {kOther}, 40, 66);
  expect_ours(other, one);
  View gone_back = part_of(12, {kOther, {12, 0, 99, Turn::Kind::ordered}}, 0, 66);
  gone_back.met_step = other.met_step;
  expect_ours(gone_back, one);
  View gone_on = part_of(9, {kSplit}, 50, 77);
  gone_on.met_step = one.met_step;
  expect_ours(other, gone_on);
}

TEST(View, a_restarted_process_is_another_member) {
  const View view = view_of(2);
  EXPECT_TRUE(view.has_member({node(1), 1}));
  EXPECT_FALSE(view.has_member({node(1), 2}));
  EXPECT_EQ(view.rank_of(node(2)), 1);
  EXPECT_FALSE(view.rank_of(node(3)));
}

}  // namespace
}  // namespace gpunode::view
