#include "runtime/job/device_link.hpp"

#include "tests/unit/runtime/job/context_fixture.hpp"

namespace gpunode::job {
namespace {

class DeviceLinkTest : public ContextTest {
 protected:
  DeviceLinkTest() { job_.options.device_link = true; }

  // Members on machines of these sites, with and without the group.
  static std::vector<collective::StepTimes> told(const std::vector<std::uint64_t>& sites,
                                                 bool has_group = false) {
    std::vector<collective::StepTimes> times;
    for (const std::uint64_t site : sites) {
      times.emplace_back().site = site;
      times.back().has_group = has_group;
    }
    return times;
  }
  void commit(const std::vector<std::uint64_t>& sites, bool has_group = false) {
    link_.on_commit(told(sites, has_group), out_);
  }
  // Rank 0 has opened the group of a view of two, and its driver has joined.
  void stand() {
    enter({1, 2});
    commit({7, 7});
    link_.on_invite(job_.view().name(), Bytes(5), out_);
    link_.on_group(job_.view().name(), "", out_);
    ASSERT_TRUE(link_.stands());
  }

  DeviceLink link_{job_};
};

TEST_F(DeviceLinkTest, rank_0_opens_a_group_once_all_are_known_to_be_on_one_machine) {
  enter({1, 2, 3});
  commit({7, 7, 7});
  const auto wishes = of<OpenGroup>(out_);
  ASSERT_EQ(wishes.size(), 1u);
  EXPECT_EQ(wishes[0].view, job_.view().name());
  EXPECT_EQ(wishes[0].rank, 0);
  EXPECT_EQ(wishes[0].size, 3);
  EXPECT_TRUE(wishes[0].invite.empty());
  EXPECT_FALSE(wishes[0].between_machines);
  commit({7, 7, 7});
  EXPECT_EQ(of<OpenGroup>(out_).size(), 1u) << "one a view";
}

TEST_F(DeviceLinkTest, machines_that_are_apart_form_none_unless_the_network_is_trusted) {
  enter({1, 2});
  commit({7, 8});
  commit({0, 0});
  EXPECT_TRUE(of<OpenGroup>(out_).empty());
  job_.options.link_between_machines = true;
  commit({7, 8});
  ASSERT_EQ(of<OpenGroup>(out_).size(), 1u);
  EXPECT_TRUE(of<OpenGroup>(out_)[0].between_machines);
}

TEST_F(DeviceLinkTest, an_invite_to_a_group_over_a_network_that_is_not_trusted_here_is_not_heard) {
  enter({2, 1});
  link_.on_message(node(2), {Bytes(5)}, out_);
  EXPECT_TRUE(of<OpenGroup>(out_).empty()) << "where the members are is not known yet";
  commit({7, 8});
  link_.on_message(node(2), {Bytes(5)}, out_);
  EXPECT_TRUE(of<OpenGroup>(out_).empty());
  job_.options.link_between_machines = true;
  link_.on_message(node(2), {Bytes(5)}, out_);
  EXPECT_EQ(of<OpenGroup>(out_).size(), 1u);
}

TEST_F(DeviceLinkTest, neither_a_lone_node_nor_one_without_such_a_device_opens_any) {
  enter({1});
  commit({7});
  enter({1, 2});
  job_.options.device_link = false;
  commit({7, 7});
  link_.on_message(node(1), {Bytes(5)}, out_);
  EXPECT_TRUE(of<OpenGroup>(out_).empty());
}

TEST_F(DeviceLinkTest, others_join_by_the_invite_of_rank_0_alone) {
  enter({2, 1});
  commit({7, 7});
  EXPECT_TRUE(of<OpenGroup>(out_).empty()) << "this node is rank 1";
  link_.on_message(node(3), {Bytes(5)}, out_);
  EXPECT_TRUE(of<OpenGroup>(out_).empty());
  link_.on_message(node(2), {Bytes(5)}, out_);
  link_.on_message(node(2), {Bytes(6)}, out_);
  const auto wishes = of<OpenGroup>(out_);
  ASSERT_EQ(wishes.size(), 1u) << "told twice";
  EXPECT_EQ(wishes[0].rank, 1);
  EXPECT_EQ(wishes[0].invite, Bytes(5));
}

TEST_F(DeviceLinkTest, the_invite_is_told_until_all_have_the_group) {
  enter({1, 2, 3});
  commit({7, 7, 7});
  link_.on_invite(job_.view().name(), Bytes(5), out_);
  EXPECT_EQ(receivers<GroupInvite>(out_), (std::vector{node(2), node(3)}));
  pass(1s);
  link_.on_tick(out_);
  EXPECT_EQ(receivers<GroupInvite>(out_).size(), 2u);
  pass(2s);
  link_.on_group(job_.view().name(), "", out_);
  link_.on_tick(out_);
  EXPECT_EQ(receivers<GroupInvite>(out_).size(), 4u);
  commit({7, 7, 7}, true);
  pass(10s);
  link_.on_tick(out_);
  EXPECT_EQ(receivers<GroupInvite>(out_).size(), 4u);
}

TEST_F(DeviceLinkTest, a_step_is_carried_only_after_all_have_said_that_they_can) {
  stand();
  EXPECT_FALSE(link_.carries());
  auto one_lacks_it = told({7, 7}, true);
  one_lacks_it[1].has_group = false;
  link_.on_commit(one_lacks_it, out_);
  EXPECT_FALSE(link_.carries());
  commit({7, 7}, true);
  EXPECT_TRUE(link_.carries());
  link_.on_commit({}, out_);
  EXPECT_FALSE(link_.carries()) << "nobody's DONE of that step is known here";
}

TEST_F(DeviceLinkTest, trouble_ends_it_for_the_view_and_is_told) {
  stand();
  commit({7, 7}, true);
  link_.on_group(job_.view().name(), "the cable is out", out_);
  EXPECT_FALSE(link_.stands());
  EXPECT_FALSE(link_.carries());
  EXPECT_TRUE(reports(out_, "the cable is out"));
  commit({7, 7});
  EXPECT_EQ(of<OpenGroup>(out_).size(), 1u) << "not again in this view";
  enter({1, 2});
  link_.on_view(out_);
  EXPECT_TRUE(of<CloseGroup>(out_).empty()) << "the driver knows that it is broken";
  commit({7, 7});
  EXPECT_EQ(of<OpenGroup>(out_).size(), 2u);
}

TEST_F(DeviceLinkTest, a_view_that_ends_closes_it_and_old_answers_are_void) {
  stand();
  const view::ViewName before = job_.view().name();
  enter({1, 2});
  link_.on_view(out_);
  EXPECT_EQ(of<CloseGroup>(out_).size(), 1u);
  commit({7, 7});
  link_.on_group(before, "", out_);
  EXPECT_FALSE(link_.stands());
  link_.on_invite(before, Bytes(5), out_);
  out_.clear();
  pass(10s);
  link_.on_tick(out_);
  EXPECT_TRUE(sent<GroupInvite>(out_).empty());
}

TEST_F(DeviceLinkTest, breaking_off_tells_the_driver_for_which_step) {
  stand();
  link_.break_off("node 2 is not in it any more", 9, out_);
  ASSERT_EQ(of<CloseGroup>(out_).size(), 1u);
  EXPECT_EQ(of<CloseGroup>(out_)[0].step, 9u);
  EXPECT_TRUE(reports(out_, "from step 9 on"));
  EXPECT_FALSE(link_.stands());
}

}  // namespace
}  // namespace gpunode::job
