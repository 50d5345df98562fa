#include "runtime/job/lost_members.hpp"

#include <gtest/gtest.h>

namespace gpunode::job {
namespace {

NodeId node(int number) {
  NodeId id;
  id.value[0] = static_cast<std::byte>(number);
  id.value[1] = static_cast<std::byte>(number >> 8);
  return id;
}

view::View view_of(std::vector<int> members, std::uint64_t base) {
  view::View view;
  view.base_step = base;
  for (int member : members) view.members.push_back({node(member), 1});
  return view;
}

TEST(LostMembers, are_told_with_their_own_reason_before_that_of_others) {
  LostMembers lost;
  const std::string three = "node " + node(3).short_text() + " is gone";
  lost.on_doubt(node(2), "node " + node(2).short_text() + " is silent", false);
  lost.on_doubt(node(2), "its compute has not answered", true);
  lost.on_doubt(node(2), "node " + node(2).short_text() + " is gone", false);
  lost.on_doubt(node(3), three, false);
  lost.on_doubt(node(5), three, false);
  lost.on_view(node(1), view_of({1, 2, 3, 4, 5}, 0), view_of({1}, 7));
  ASSERT_EQ(lost.list().size(), 4u);
  EXPECT_EQ(lost.list()[0].node, node(2));
  EXPECT_EQ(lost.list()[0].reason, "its compute has not answered");
  EXPECT_EQ(lost.list()[0].step, 7u);
  EXPECT_EQ(lost.list()[1].reason, three);
  EXPECT_EQ(lost.list()[2].reason, "the others went on without it");
  EXPECT_EQ(lost.list()[3].reason, "it does not answer") << "not that another one is gone";
}

TEST(LostMembers, are_forgotten_when_they_come_back_and_are_never_this_node) {
  LostMembers lost;
  lost.on_view(node(1), view_of({1, 2}, 0), view_of({2}, 3));
  EXPECT_TRUE(lost.list().empty());
  lost.on_doubt(node(2), "of a view that is over", false);
  lost.on_view(node(1), view_of({1}, 3), view_of({1, 2}, 4));
  lost.on_view(node(1), view_of({1, 2}, 4), view_of({1}, 5));
  ASSERT_EQ(lost.list().size(), 1u);
  EXPECT_EQ(lost.list()[0].reason, "the others went on without it");
  lost.on_view(node(1), view_of({1}, 5), view_of({1, 2}, 6));
  EXPECT_TRUE(lost.list().empty());
}

TEST(LostMembers, are_the_newest_of_many) {
  LostMembers lost;
  for (int i = 2; i < 102; ++i)
    lost.on_view(node(1), view_of({1, i}, 0), view_of({1}, static_cast<std::uint64_t>(i)));
  ASSERT_EQ(lost.list().size(), LostMembers::kMost);
  EXPECT_EQ(lost.list().back().node, node(101));
}

}  // namespace
}  // namespace gpunode::job
