#include "runtime/job/step_plan.hpp"

#include "tests/unit/runtime/job/context_fixture.hpp"

namespace gpunode::job {
namespace {

// Routes by rank + 1 wherever the members are; counts how often it was asked for.
int routes_made = 0;
std::shared_ptr<const collective::SumRoute> counted_route(std::span<const std::uint64_t> sites) {
  ++routes_made;
  return collective::ring_route(sites);
}

class StepPlanTest : public ::testing::Test {
 protected:
  StepPlanTest() {
    routes_made = 0;
    view_.base_step = 4;
    view_.members = {{node(1), 1}, {node(2), 1}};
  }
  // What both members tell of a step: the second is so many times as slow.
  static std::vector<collective::StepTimes> told(std::uint32_t times, std::uint64_t site = 0) {
    collective::StepTimes fast, slow;
    fast.compute = {100'000, 0, 2, 1};
    slow.compute = {100'000 * times, 0, 2, 1};
    fast.site = slow.site = site;
    return {fast, slow};
  }

  collective::Tree tree_ = collective::Tree::of_slices(8);
  collective::Routing routing_;
  view::View view_;
};

TEST_F(StepPlanTest, a_view_begins_with_the_plan_and_the_paces_of_its_record) {
  view_.plan = {0, 0, 0, 0, 0, 0, 1, 1};
  view_.paces = collective::Paces{{{10, 1, 3}, {30, 1, 3}}, 7, 1}.to_words();
  StepPlan plan(tree_, routing_);
  plan.begin(view_);
  EXPECT_EQ(plan.slices().owner, view_.plan);
  EXPECT_EQ(plan.paces().to_words(), view_.paces);
}

TEST_F(StepPlanTest, the_slices_name_who_computes_them) {
  view_.plan = {0, 0, 0, 0, 1, 1, 1, 1};
  StepPlan plan(tree_, routing_);
  plan.begin(view_);
  const std::vector<NodeId> nodes = plan.computing(view_);
  EXPECT_EQ(nodes.front(), node(1));
  EXPECT_EQ(nodes.back(), node(2));
  EXPECT_EQ(nodes.size(), 8u);
}

TEST_F(StepPlanTest, a_rank_that_the_view_has_not_got_computes_nothing) {
  view_.plan = {0, 0, 0, 0, 1, 1, 1, 1};
  StepPlan plan(tree_, routing_);
  plan.begin(view_);
  view_.members.pop_back();
  EXPECT_EQ(plan.computing(view_).size(), 4u);
}

TEST_F(StepPlanTest, the_slower_member_gets_fewer_slices_of_the_step_that_is_free_to_change) {
  view_.plan = {0, 0, 0, 0, 1, 1, 1, 1};
  StepPlan plan(tree_, routing_);
  plan.begin(view_);
  plan.next(view_, 6, told(3));
  EXPECT_GT(plan.slices().slices_of(0).size(), plan.slices().slices_of(1).size());
  EXPECT_NE(plan.paces().members[1].samples, 0);
}

TEST_F(StepPlanTest, members_that_hear_the_same_derive_the_same) {
  StepPlan ours(tree_, routing_), theirs(tree_, routing_);
  for (StepPlan* plan : {&ours, &theirs}) plan->begin(view_);
  const Digest first = ours.digest();
  for (StepPlan* plan : {&ours, &theirs}) plan->next(view_, 6, told(3));
  EXPECT_EQ(ours.digest(), theirs.digest());
  EXPECT_NE(ours.digest(), first);
}

TEST_F(StepPlanTest, the_route_is_part_of_what_members_have_to_follow_alike) {
  StepPlan direct(tree_, routing_);
  direct.begin(view_);
  collective::Routing ring{counted_route, nullptr, true};
  StepPlan routed(tree_, ring);
  routed.begin(view_);
  EXPECT_EQ(direct.route(), nullptr);
  ASSERT_NE(routed.route(), nullptr);
  EXPECT_EQ(direct.slices(), routed.slices());
  EXPECT_NE(direct.digest(), routed.digest());
}

TEST_F(StepPlanTest, a_route_is_made_anew_only_when_sites_change) {
  collective::Routing ring{counted_route, nullptr, true};
  StepPlan plan(tree_, ring);
  plan.begin(view_);
  EXPECT_EQ(routes_made, 1);
  plan.next(view_, 6, told(1, 0));
  EXPECT_EQ(routes_made, 1) << "still unknown";
  plan.next(view_, 7, told(1, 9));
  EXPECT_EQ(routes_made, 2);
  plan.begin(view_);
  EXPECT_EQ(routes_made, 3) << "a view does not know where its members are";
}

TEST_F(StepPlanTest, a_mode_may_arrange_the_slices_by_site) {
  collective::Routing grouped{collective::grouped_route, nullptr, false};
  grouped.plan = [](const collective::Tree&, const collective::SlicePlan& plan,
                    std::span<const std::uint64_t> sites) {
    collective::SlicePlan turned = plan;
    if (sites[0] == 9) std::reverse(turned.owner.begin(), turned.owner.end());
    return turned;
  };
  view_.plan = {0, 0, 0, 0, 1, 1, 1, 1};
  StepPlan plan(tree_, grouped);
  plan.begin(view_);
  plan.next(view_, 6, told(1, 9));
  EXPECT_EQ(plan.slices().owner.front(), 1);
}

}  // namespace
}  // namespace gpunode::job
