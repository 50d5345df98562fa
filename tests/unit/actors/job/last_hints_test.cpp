#include "actors/job/last_hints.hpp"

#include <gtest/gtest.h>

namespace gpunode::jobs {
namespace {

using std::chrono::seconds;

NodeInfo node(char letter, PeerHealth health) {
  NodeInfo info;
  info.id.value[0] = std::byte(letter);
  info.name = std::string(1, letter);
  info.health = health;
  return info;
}

class LastHintsTest : public ::testing::Test {
 protected:
  void tell(char by, JobPhase phase, std::uint64_t step, bool ended = false) {
    JobHint hint;
    hint.name = "j";
    hint.phase = phase;
    hint.step = step;
    hint.steps = 1200;
    hint.ended = ended;
    hints_.on_hint(now_, kJob, node(by, PeerHealth::alive).id, hint);
  }
  nlohmann::json listed(nlohmann::json list = nlohmann::json::array()) {
    hints_.add_to(list, cluster_, now_);
    return list;
  }

  static constexpr JobId kJob{1, 2};
  LastHints hints_;
  ClusterSnapshot cluster_{
      {},
      {node('a', PeerHealth::dead), node('b', PeerHealth::dead), node('e', PeerHealth::alive)},
      {},
      {}};
  Time now_ = Time{} + seconds(100);
};

TEST_F(LastHintsTest, name_a_job_whose_nodes_are_gone_who_told_of_it_and_who_is_waited_for) {
  tell('b', JobPhase::running, 380);
  tell('a', JobPhase::running, 384);
  tell('b', JobPhase::witness, 0);
  tell('e', JobPhase::outsider, 0);
  now_ += seconds(16);
  const auto list = listed();
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["phase"], "unreachable");
  EXPECT_EQ(list[0]["step"], 384);
  EXPECT_EQ(list[0]["reason"], "last told by a 16 s ago; waiting for a, b");
  const auto text = hints_.text_of(kJob, cluster_, now_);
  ASSERT_TRUE(text);
  EXPECT_NE(text->find("at step 384/1200, last told by a 16 s ago"), std::string::npos) << *text;
  EXPECT_FALSE(hints_.text_of(JobId{3, 4}, cluster_, now_));
}

TEST_F(LastHintsTest, name_jobs_until_they_are_forgotten) {
  tell('a', JobPhase::running, 384);
  JobNames names;
  hints_.add_to(names);
  EXPECT_EQ(names.meant("j", Purpose::look)->id, kJob);
  EXPECT_FALSE(names.meant("j", Purpose::look)->at_work);
  hints_.forget(kJob);
  EXPECT_TRUE(listed().empty());
}

TEST_F(LastHintsTest, say_nothing_of_a_job_that_is_listed) {
  tell('a', JobPhase::running, 384);
  EXPECT_EQ(listed({{{"job", kJob.text()}}}).size(), 1u);
}

TEST_F(LastHintsTest, follow_a_job_that_goes_back_and_know_one_that_is_over) {
  tell('a', JobPhase::running, 384);
  tell('a', JobPhase::running, 300);
  EXPECT_EQ(listed()[0]["step"], 300);
  tell('b', JobPhase::finished, 1200, true);
  EXPECT_EQ(listed()[0]["phase"], "finished");
}

}  // namespace
}  // namespace gpunode::jobs
