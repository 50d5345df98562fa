// Steps of a view whose members' devices form a group, as the step runner makes them.
#include "tests/unit/runtime/job/step_runner_fixture.hpp"

namespace gpunode::job {
namespace {

// The members' devices are a group, as everybody has said.
class CarriedStepTest : public StepRunnerTest {
 protected:
  using Done = collective::Done;
  CarriedStepTest() {
    job_.options.device_link = true;
    std::vector<collective::StepTimes> told(2);
    for (collective::StepTimes& one : told) one.site = 7;
    runner_.link().on_commit(told, out_);
    runner_.link().on_group(job_.view().name(), "", out_);
    for (collective::StepTimes& one : told) one.has_group = true;
    runner_.link().on_commit(told, out_);
    out_.clear();
  }
  bool carried(const Compute& asked, float value = 3) {
    return runner_.on_carried({asked.id, asked.step, floats(value), {digest(3), 4}}, out_);
  }
  std::vector<Done> dones() const {
    std::vector<Done> all;
    for (const auto& [to, one] : sent<StepMessage>(out_))
      if (const auto* done = std::get_if<Done>(&one.message)) all.push_back(*done);
    return all;
  }
};

TEST_F(CarriedStepTest, asks_for_no_chunk_and_holds_what_comes) {
  const Compute asked = begin();
  ASSERT_TRUE(asked.carry);
  EXPECT_EQ(asked.carry->rank, 0);
  EXPECT_EQ(asked.carry->member_count, 2);
  EXPECT_EQ(asked.carry->plan, runner_.plan().slices());
  EXPECT_GE(asked.carry->timeout, 30s);
  pass(10s);
  runner_.on_tick(out_);
  for (const auto& [to, one] : sent<StepMessage>(out_)) {
    const auto* need = std::get_if<collective::Need>(&one.message);
    ASSERT_TRUE(need);
    EXPECT_TRUE(need->done) << "it asks whether the other is there";
    EXPECT_TRUE(need->partial_chunks.empty() && need->result_chunks.empty())
        << "devices bring them";
  }
  EXPECT_GT(said<collective::Need>(), 0u);
  runner_.on_sums_whole(asked.id, {});
  EXPECT_EQ(runner_.carried(), 0u);
  EXPECT_TRUE(carried(asked));
  EXPECT_EQ(runner_.carried(), 1u);
  EXPECT_TRUE(runner_.newly_held());
  ASSERT_EQ(dones().size(), 1u);
  EXPECT_TRUE(dones()[0].times.has_group);
  EXPECT_EQ(said<collective::ResultChunk>() + said<collective::PartialChunk>(), 0u);
  EXPECT_TRUE(hear(5, dones()[0]));
  ASSERT_TRUE(runner_.is_complete());
  EXPECT_EQ((*runner_.end().result())[0], 3.0f);
}

TEST_F(CarriedStepTest, has_the_result_digest_of_messages) {
  carried(begin());
  const Done by_devices = dones().at(0);
  runner_.on_view(false);
  runner_.link().on_view(out_);
  out_.clear();
  compute(begin().id);
  compute_at_peer();
  EXPECT_EQ(dones().at(0).result, by_devices.result);
}

TEST_F(CarriedStepTest, of_a_broken_group_goes_by_messages_in_the_same_step) {
  const Compute asked = begin();
  runner_.link().on_group(job_.view().name(), "the cable is out", out_);
  runner_.on_group_broken();
  compute(asked.id);
  pass(1s);
  out_.clear();
  runner_.on_tick(out_);
  EXPECT_EQ(said<collective::Need>(), 1u);
  compute_at_peer();
  talk();
  ASSERT_TRUE(runner_.is_complete());
  EXPECT_FALSE(runner_.end().done().times.has_group);
}

TEST_F(CarriedStepTest, a_peer_that_sends_its_sums_by_messages_ends_the_group) {
  begin();
  compute_at_peer();
  ASSERT_EQ(of<CloseGroup>(out_).size(), 1u);
  EXPECT_EQ(of<CloseGroup>(out_)[0].step, 5u);
  EXPECT_FALSE(runner_.link().stands());
  EXPECT_TRUE(hear(5, collective::Need{{}, {0}, true}));
  EXPECT_EQ(of<CloseGroup>(out_).size(), 1u) << "once a step";
}

TEST_F(CarriedStepTest, a_peer_that_lost_the_group_late_gets_what_this_member_holds) {
  const Compute asked = begin();
  EXPECT_TRUE(carried(asked));
  compute_at_peer();  // it has nothing, and begins to send
  EXPECT_EQ(of<CloseGroup>(out_).size(), 1u);
  EXPECT_TRUE(compute(asked.id)) << "its driver tells the sums after all";
  std::vector<collective::SendTo> asks;
  peer_->on_tick(job_.now + 1s, asks);
  out_.clear();
  hear(asks);
  EXPECT_EQ(said<collective::ResultChunk>(), 1u);
  talk();
  EXPECT_TRUE(peer_->held());
  EXPECT_TRUE(runner_.is_complete());
}

TEST_F(CarriedStepTest, another_result_than_the_peers_freezes_the_view) {
  carried(begin(), 4);
  EXPECT_TRUE(hear(5, Done{digest(666), {digest(3), 4}, {}}));
  EXPECT_TRUE(runner_.exchange()->disagreed());
}

TEST_F(CarriedStepTest, what_an_older_wish_brought_is_void) {
  const Compute asked = begin();
  runner_.on_view(false);
  EXPECT_FALSE(carried(asked));
  const Compute again = begin();
  EXPECT_FALSE(carried(asked));
  EXPECT_FALSE(runner_.on_carried({again.id, 5, collective::SharedFloats::from({1, 2}), {}}, out_))
      << "of another length";
  EXPECT_EQ(runner_.carried(), 0u);
}

}  // namespace
}  // namespace gpunode::job
