#include "actors/inference/detail/text_orders.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace gpunode::inference {
namespace {

std::uint64_t of_text(std::string text) {
  return affinity_of({.prompt = std::move(text)});
}

std::uint64_t of_tokens(std::vector<std::int32_t> tokens) {
  GenerateRequest request;
  request.prompt_tokens = std::move(tokens);
  return affinity_of(request);
}

TEST(Affinity, IsThatOfTheBeginningOfATextOrAChat) {
  EXPECT_NE(of_text("once"), of_text("twice"));
  const std::string long_one(256, 'x');
  EXPECT_EQ(of_text(long_one + "a"), of_text(long_one + "b"));
  GenerateRequest chat;
  chat.chat = "once";
  EXPECT_EQ(affinity_of(chat), of_text("once"));
}

TEST(Affinity, IsThatOfTheFirstTokensWhereAPromptIsGivenAsTokens) {
  EXPECT_NE(of_tokens({1, 2}), of_tokens({1, 3}));
  EXPECT_NE(of_tokens({1, 2}), of_text(""));
  std::vector<std::int32_t> tokens(64);
  std::iota(tokens.begin(), tokens.end(), 70'000);
  auto one = tokens, other = tokens;
  one.push_back(1);
  other.push_back(2);
  EXPECT_EQ(of_tokens(one), of_tokens(other));
  EXPECT_EQ(of_tokens(one), of_tokens(tokens));
}

TEST(AnAnswer, IsReadyAWhileBeforeItsCallerGivesUpAndNoLaterThanItsRequestSays) {
  using namespace std::chrono_literals;
  constexpr Time kNow{1000s};
  const auto answered = [&](Duration waited_for, std::chrono::milliseconds timeout) {
    const CallReply reply([](const Result<SharedBytes>&) {}, kNow + waited_for);
    return answer_by_of(reply, kNow, timeout) - kNow;
  };
  EXPECT_EQ(answered(100ms, 100ms), 95ms);
  EXPECT_EQ(answered(40ms, 100ms), 38ms) << "another replica had the rest of it";
  EXPECT_EQ(answered(100ms, 40ms), 38ms);
  EXPECT_EQ(answered(30s, 30s), 30s - 200ms);
  EXPECT_EQ(answered(-5ms, 100ms), -5ms);
}

}  // namespace
}  // namespace gpunode::inference
