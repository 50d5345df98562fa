// What any node with a key of the cluster may say to a running core, and what must not come of it.
#include <gtest/gtest.h>

#include "runtime/base/block_digest.hpp"
#include "runtime/collective/paced_plan.hpp"
#include "tests/unit/runtime/job/hostile_fixture.hpp"

namespace gpunode::job {
namespace {

TEST(HostileEnd, a_stranger_does_not_end_a_job_with_a_state_of_its_own) {
  LoneCore lone;
  lone.compute();
  ASSERT_EQ(lone.core().committed(), 1u);
  const Bytes lie(12, std::byte{6});
  const Digest name = block_digest_of(lie);
  const view::ViewName nowhere{{1, 99}, 1};  // a history that nobody has heard of
  lone.hear(kStranger, nowhere, StepStatus{10, true, true, 0, name});
  lone.tick();
  lone.hear(kStranger, nowhere, StateMeta{10, lie.size(), name, digest(1), {}});
  lone.hear(kStranger, nowhere, StatePart{name, 0, SharedBytes::from(lie)});
  EXPECT_TRUE(of<InstallState>(lone.all()).empty()) << "the weights are replaced by the stranger's";
  EXPECT_TRUE(of<Finished>(lone.all()).empty());
  EXPECT_EQ(lone.core().committed(), 1u);
  EXPECT_NE(lone.core().state_digest(), name);
}

TEST(HostileEnd, one_word_of_a_stranger_does_not_stop_a_member_from_computing) {
  LoneCore lone;
  lone.compute();
  lone.hear(kStranger, {{1, 99}, 1}, StepStatus{10, true, true, 0, digest(6)});
  lone.compute();
  EXPECT_EQ(lone.core().committed(), 2u);
}

TEST(HostilePaces, a_voters_view_with_paces_that_nobody_measured_kills_no_core) {
  LoneCore lone;
  lone.compute();
  view::View next = lone.core().view();
  ++next.view_id;
  next.base_step = 1;
  next.state_digest = lone.core().state_digest();
  collective::Paces paces = collective::Paces::of_members(1);
  paces.members[0] = {1000, 1, 0xffff};
  next.paces = paces.to_words();
  const view::View before = lone.core().view();
  lone.hear(kStranger, next.name(), ViewNotice{{view::decided_by(before, next, {node(1)})}});
  ASSERT_EQ(lone.core().view().view_id, next.view_id) << "a proof holds whoever brings it";
  lone.compute();
  EXPECT_EQ(lone.core().committed(), 2u);
}

TEST(HostileView, a_forged_view_with_the_last_number_is_not_taken) {
  LoneCore lone;
  view::View forged = lone.core().view();
  forged.view_id = kHuge;  // no view can come after it
  forged.members = {{node(kStranger), 1}};
  forged.acceptors = {node(kStranger)};
  forged.tie = node(kStranger);
  forged.plan.assign(4, 0);
  lone.hear(kStranger, forged.name(),
            ViewNotice{{view::decided_by(lone.core().view(), forged, {node(kStranger)})}});
  EXPECT_NE(lone.core().view().view_id, kHuge) << "without one acceptor's word";
}

// Finding 3 of the review: one message of a node without a part, at a high generation.
TEST(HostileView, a_stranger_does_not_take_a_job_over_by_a_split_of_its_own) {
  LoneCore lone;
  lone.compute();
  view::View forged = lone.core().view();
  const view::View before = forged;
  for (const auto kind : {view::Turn::Kind::ordered, view::Turn::Kind::split}) {
    ++forged.view_id;
    forged.members = {{node(kStranger), 1}};
    forged.acceptors = {node(kStranger)};
    forged.tie = node(kStranger);
    forged.plan.assign(4, 0);
    forged.turns.push_back({forged.view_id, 1, 99, kind});
    lone.hear(kStranger, forged.name(),
              ViewNotice{{view::decided_by(before, forged, {node(kStranger)})}});
    lone.tick(1s);
    lone.hear(kStranger, forged.name(),
              ViewNotice{{view::decided_by(before, forged, {node(kStranger), node(1)})}});
    lone.tick(1s);
  }
  EXPECT_EQ(lone.core().view(), before);
  lone.compute();
  EXPECT_EQ(lone.core().committed(), 2u);
}

TEST(HostileReports, a_stranger_does_not_fill_the_log) {
  LoneCore lone;
  const std::size_t before = of<Report>(lone.all()).size();
  for (int i = 0; i < 1000; ++i)
    lone.hear(kStranger, lone.core().view().name(), JoinRefused{"x\n2026 [error] job: forged"});
  EXPECT_LE(of<Report>(lone.all()).size(), before + 10);
}

}  // namespace
}  // namespace gpunode::job
