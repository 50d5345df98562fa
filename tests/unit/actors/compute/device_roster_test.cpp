#include "actors/compute/device_roster.hpp"

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.hpp"

namespace gpunode::compute {
namespace {

using namespace std::chrono_literals;

class DeviceRosterTest : public ::testing::Test {
 protected:
  DeviceRosterTest() {
    for (const char* id : {"cuda:0", "cuda:2"}) roster_.add(id, cpu::open_backend());
  }
  NodeDevice& device(std::size_t index) { return *roster_.devices()[index]; }
  std::vector<std::string> ready() const {
    std::vector<std::string> ids;
    if (const auto ready = roster_.ready())
      for (const NodeDevice* one : *ready) ids.push_back(one->id());
    return ids;
  }
  using Ids = std::vector<std::string>;

  DeviceRoster roster_{cpu::open_backend()};
  Time now_ = Time{} + 1h;
};

TEST(DeviceRoster, computes_on_the_host_where_there_is_no_other) {
  DeviceRoster roster(cpu::open_backend());
  ASSERT_TRUE(roster.ready());
  EXPECT_EQ(roster.ready()->front()->id(), "cpu");
  EXPECT_EQ(&roster.ready()->front()->backend(), &roster.host());
  const auto refused = roster.drain("cpu");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::wrong_state);
}

TEST_F(DeviceRosterTest, drains_all_but_the_last_and_takes_them_back) {
  EXPECT_EQ(ready(), (Ids{"cuda:0", "cuda:2"}));
  EXPECT_TRUE(roster_.drain("cuda:0"));
  EXPECT_TRUE(roster_.drain("cuda:0")) << "it is";
  EXPECT_EQ(ready(), Ids{"cuda:2"});
  EXPECT_EQ(roster_.drain("cuda:2").error().code, ErrorCode::wrong_state);
  EXPECT_TRUE(roster_.resume("cuda:0"));
  EXPECT_EQ(ready().size(), 2u);
  const auto unknown = roster_.drain("cuda:1");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::not_found);
  EXPECT_NE(unknown.error().detail.find("cuda:0, cuda:2"), std::string::npos);
}

// The two of DeviceRosterTest, which know where they sit.
class JudgedDevices : public DeviceRosterTest {
 protected:
  static constexpr const char* kFirst = "0000:0A:00.0";
  JudgedDevices() {
    judged_.add("cuda:0", cpu::open_backend(), kFirst);
    judged_.add("cuda:1", cpu::open_backend(), "0000:0b:00.0");
  }
  std::vector<std::string> judge(const std::string& verdict) {
    return judged_.judge("00000000:0a:00.0", verdict);
  }
  NodeDevice::Status first() const { return judged_.devices()[0]->status(); }
  DeviceRoster judged_{cpu::open_backend()};
};

TEST_F(JudgedDevices, are_drained_while_a_verdict_stands) {
  EXPECT_TRUE(judge("").empty());
  EXPECT_EQ(judge("93 C"), Ids{"cuda:0 is drained: 93 C"});
  EXPECT_TRUE(judge("94 C").empty()) << "told once";
  EXPECT_EQ(first().condition, DeviceCondition::drained);
  EXPECT_EQ(first().reason, "94 C");
  EXPECT_EQ(judged_.devices()[1]->condition(), DeviceCondition::ready);
  EXPECT_FALSE(judged_.drain("cuda:1")) << "the last one";
  EXPECT_EQ(judge("").size(), 1u);
  EXPECT_EQ(first().condition, DeviceCondition::ready);
  EXPECT_EQ(first().reason, "");
}

TEST_F(JudgedDevices, stay_drained_after_the_verdict_where_a_person_drained_them) {
  for (const bool order_first : {true, false}) {
    if (order_first) {
      ASSERT_TRUE(judged_.drain("cuda:0"));
    }
    EXPECT_EQ(judge("93 C").size(), order_first ? 0u : 1u);
    if (!order_first) {
      ASSERT_TRUE(judged_.drain("cuda:0"));
    }
    EXPECT_EQ(first().reason, "93 C");
    EXPECT_TRUE(judge("").empty());
    EXPECT_EQ(first().condition, DeviceCondition::drained);
    EXPECT_EQ(first().reason, "");
    ASSERT_TRUE(judged_.resume("cuda:0"));
    EXPECT_EQ(first().condition, DeviceCondition::ready);
  }
}

TEST_F(JudgedDevices, work_against_a_verdict_that_a_person_overrules_until_the_next) {
  judge("93 C");
  ASSERT_TRUE(judged_.resume("cuda:0"));
  EXPECT_TRUE(judge("94 C").empty());
  EXPECT_EQ(first().condition, DeviceCondition::ready);
  EXPECT_EQ(first().warning, "as it was resumed: 94 C");
  judge("");
  EXPECT_EQ(first().warning, "");
  judge("95 C");
  EXPECT_EQ(first().condition, DeviceCondition::drained);
}

TEST_F(JudgedDevices, are_not_drained_as_the_last_but_once_another_works) {
  ASSERT_TRUE(judged_.drain("cuda:1"));
  const auto news = judge("93 C");
  ASSERT_EQ(news.size(), 1u);
  EXPECT_NE(news[0].find("is the last device"), std::string::npos);
  EXPECT_TRUE(judge("93 C").empty());
  EXPECT_EQ(first().condition, DeviceCondition::ready);
  EXPECT_EQ(first().warning, "as the last device that does: 93 C");
  ASSERT_TRUE(judged_.resume("cuda:1"));
  EXPECT_EQ(judge("93 C").size(), 1u);
  EXPECT_EQ(first().condition, DeviceCondition::drained);
}

TEST_F(JudgedDevices, that_are_lost_stay_so_and_a_verdict_elsewhere_reaches_none) {
  judged_.devices()[0]->lose("hangs");
  EXPECT_TRUE(judge("93 C").empty());
  EXPECT_TRUE(judge("").empty());
  EXPECT_EQ(first().condition, DeviceCondition::lost);
  EXPECT_EQ(first().reason, "hangs");
  EXPECT_TRUE(roster_.judge("", "93 C").empty()) << "whose devices have no place";
  EXPECT_TRUE(judged_.judge("0000:0c:00.0", "93 C").empty());
  EXPECT_EQ(ready().size(), 2u);
}

TEST_F(DeviceRosterTest, loses_a_device_once_and_for_good) {
  std::vector<std::string> told;
  device(0).on_lost([&](const NodeDevice& lost, const std::string& reason, const auto& users) {
    told.push_back(lost.id() + ": " + reason);
    EXPECT_EQ(users, (std::set<std::string>{"one", "two"}));
  });
  DeviceUse one(device(0), "one"), two(device(0), "two");
  const auto done = one.run([]() -> Result<void> { return {ErrorCode::device_lost, "it fell"}; });
  EXPECT_EQ(done.error().code, ErrorCode::device_lost);
  (void)two.run([]() -> Result<void> { return {ErrorCode::device_lost, "me, too"}; });
  EXPECT_EQ(told, Ids{"cuda:0: it fell"});
  EXPECT_TRUE(one.is_over());
  EXPECT_EQ(ready(), Ids{"cuda:2"});
  EXPECT_EQ(device(0).status().reason, "it fell");
  EXPECT_EQ(roster_.resume("cuda:0").error().code, ErrorCode::wrong_state);
  EXPECT_EQ(roster_.drain("cuda:2").error().code, ErrorCode::wrong_state) << "it is the last now";
  device(1).lose("fire");
  const auto none = roster_.ready();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::no_device);
  EXPECT_NE(none.error().detail.find("cuda:2 is lost"), std::string::npos);
}

TEST_F(DeviceRosterTest, other_errors_are_none_of_the_devices) {
  DeviceUse use(device(0), "job");
  (void)use.run([]() -> Result<void> { return {ErrorCode::out_of_memory, "too large"}; });
  EXPECT_EQ(device(0).condition(), DeviceCondition::ready);
}

TEST_F(DeviceRosterTest, finds_what_works_and_does_not_get_on) {
  DeviceUse idle(device(0), "idle"), use(device(0), "job");
  const auto look = [&](Duration passed) {
    for (Duration each = 500ms; passed > 0s; passed -= each)
      device(0).look_for_hangs(now_ += each, 10s);
  };
  look(1min);
  EXPECT_EQ(device(0).condition(), DeviceCondition::ready) << "nobody works";
  (void)use.run([&]() -> Result<void> {
    look(9s);
    use.got_on();
    look(5s);
    EXPECT_EQ(device(0).condition(), DeviceCondition::ready);
    now_ += 1h;  // the process was stopped
    look(500ms);
    EXPECT_EQ(device(0).condition(), DeviceCondition::ready);
    use.apart([&] {
      look(1min);
      return 0;
    });
    EXPECT_EQ(device(0).condition(), DeviceCondition::ready) << "it waits for something else";
    look(11s);
    EXPECT_EQ(device(0).condition(), DeviceCondition::lost);
    EXPECT_NE(device(0).status().reason.find("the work of job"), std::string::npos);
    return {};
  });
}

}  // namespace
}  // namespace gpunode::compute
