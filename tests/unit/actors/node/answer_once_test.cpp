// An answer is told once: by the first who knows it, else by the last who forgets it.
#include "actors/answer_once.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gpunode {
namespace {

TEST(AnswerOnce, tells_the_first_answer_and_no_other) {
  std::vector<std::string> told;
  {
    AnswerOnce<std::string> answer([&](std::string text) { told.push_back(text); }, "nobody");
    auto copy = answer;
    copy("first");
    answer("second");
  }
  EXPECT_EQ(told, std::vector<std::string>{"first"});
}

TEST(AnswerOnce, tells_the_fallback_when_the_last_copy_goes_unanswered) {
  std::vector<std::string> told;
  auto answer = std::make_unique<AnswerOnce<std::string>>(
      [&](std::string text) { told.push_back(text); }, "nobody");
  auto copy = std::make_unique<AnswerOnce<std::string>>(*answer);
  answer.reset();
  EXPECT_TRUE(told.empty());
  copy.reset();
  EXPECT_EQ(told, std::vector<std::string>{"nobody"});
}

}  // namespace
}  // namespace gpunode
