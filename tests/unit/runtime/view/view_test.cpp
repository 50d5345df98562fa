#include "runtime/view/view.hpp"

#include <gtest/gtest.h>

namespace gpunode::view {
namespace {

NodeId node(int number) {
  NodeId id;
  id.value[0] = static_cast<std::byte>(number);
  return id;
}

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
  EXPECT_TRUE(differs([](View& v) { v.generation = 1; }));
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
  EXPECT_TRUE(differs([](View& v) { v.rollback_count = 1; }));
  EXPECT_TRUE(differs([](View& v) { v.disagreed_step = 1; }));
  EXPECT_TRUE(differs([](View& v) { v.sync_sources = {node(1)}; }));
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
