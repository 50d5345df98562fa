#include "kernels/model/token_sampler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

namespace gpunode::model {
namespace {

TEST(TokenSampler, WithoutTemperatureTakesTheHighestScore) {
  TokenSampler sampler({.temperature = 0});
  const std::array<float, 4> logits = {0.1f, 3.0f, 3.0f, -1.0f};
  EXPECT_EQ(sampler.choose(logits), 1);
}

TEST(TokenSampler, DrawsInProportionToTheSoftmax) {
  TokenSampler sampler({.temperature = 0.5, .seed = 4});
  const std::array<float, 3> logits = {0.0f, 0.5f, 1.0f};
  std::array<int, 3> counts{};
  constexpr int kDraws = 30000;
  for (int draw = 0; draw < kDraws; ++draw)
    ++counts[static_cast<std::size_t>(sampler.choose(logits))];
  const double total = 1 + std::exp(1.0) + std::exp(2.0);
  EXPECT_NEAR(counts[0], kDraws / total, 300);
  EXPECT_NEAR(counts[2], kDraws * std::exp(2.0) / total, 300);
}

TEST(TokenSampler, KeepsToTheTopK) {
  TokenSampler sampler({.temperature = 10, .top_k = 2, .seed = 1});
  const std::array<float, 5> logits = {1, 5, 2, 4, 3};
  std::set<Token> seen;
  for (int draw = 0; draw < 200; ++draw) seen.insert(sampler.choose(logits));
  EXPECT_EQ(seen, (std::set<Token>{1, 3}));
}

std::set<Token> drawn(SamplingOptions options, std::span<const float> logits) {
  TokenSampler sampler(options);
  std::set<Token> seen;
  for (int draw = 0; draw < 400; ++draw) seen.insert(sampler.choose(logits));
  return seen;
}

TEST(TokenSampler, KeepsToThoseThatHaveTopPTogether) {
  // Chances 0.4, 0.3, 0.2, 0.1.
  const std::array<float, 4> logits = {std::log(0.2f), std::log(0.4f), std::log(0.1f),
                                       std::log(0.3f)};
  EXPECT_EQ(drawn({.top_p = 0.35}, logits), (std::set<Token>{1}));
  EXPECT_EQ(drawn({.top_p = 0.6}, logits), (std::set<Token>{1, 3}));
  EXPECT_EQ(drawn({.top_p = 0.75}, logits), (std::set<Token>{0, 1, 3}));
  EXPECT_EQ(drawn({.top_k = 2, .top_p = 0.9}, logits), (std::set<Token>{1, 3}));
  EXPECT_EQ(drawn({.top_p = 0}, logits), (std::set<Token>{1}));
}

TEST(TokenSampler, TopPOfManyIsThatOfTheSorted) {
  std::vector<float> logits(2000);
  for (std::size_t at = 0; at < logits.size(); ++at)
    logits[at] = static_cast<float>(at * 7 % 2000) / 400;
  double total = 0, kept = 0;
  for (const float score : logits) total += std::exp(static_cast<double>(score));
  std::vector<float> sorted = logits;
  std::ranges::sort(sorted, std::greater());
  std::size_t count = 0;
  while (kept < 0.5 * total) kept += std::exp(static_cast<double>(sorted[count++]));
  for (const Token token : drawn({.top_p = 0.5}, logits))
    EXPECT_GE(logits[static_cast<std::size_t>(token)], sorted[count - 1]);
}

TEST(TokenSampler, KeepsToThoseWithAShareOfTheBest) {
  const std::array<float, 4> logits = {std::log(0.2f), std::log(0.4f), std::log(0.1f),
                                       std::log(0.3f)};
  EXPECT_EQ(drawn({.min_p = 0.6}, logits), (std::set<Token>{1, 3}));
  EXPECT_EQ(drawn({.min_p = 0.45}, logits), (std::set<Token>{0, 1, 3}));
}

TEST(TokenSampler, PenalisesWhatTheTextHasByNow) {
  const std::array<float, 3> logits = {3, 2.5f, 2};
  const auto text = [&](SamplingOptions options, std::vector<Token> prompt = {}) {
    options.temperature = 0;
    TokenSampler sampler(options);
    sampler.read(prompt);
    std::vector<Token> tokens;
    for (int i = 0; i < 4; ++i) tokens.push_back(sampler.choose(logits));
    return tokens;
  };
  EXPECT_EQ(text({}), (std::vector<Token>{0, 0, 0, 0}));
  EXPECT_EQ(text({.presence_penalty = 0.75}), (std::vector<Token>{0, 1, 0, 0}));
  EXPECT_EQ(text({.frequency_penalty = 0.75}), (std::vector<Token>{0, 1, 0, 2}));
  EXPECT_EQ(text({.repetition_penalty = 2}), (std::vector<Token>{0, 1, 2, 0}));
  EXPECT_EQ(text({.repetition_penalty = 2}, {0, 1}), (std::vector<Token>{2, 0, 0, 0}));
}

TEST(TokenSampler, RepeatsItselfWithTheSameSeed) {
  const std::array<float, 5> logits = {1, 1, 1, 1, 1};
  TokenSampler first({.seed = 9}), again({.seed = 9}), other({.seed = 10});
  int differences = 0;
  for (int draw = 0; draw < 50; ++draw) {
    const Token token = first.choose(logits);
    EXPECT_EQ(again.choose(logits), token);
    differences += other.choose(logits) != token;
  }
  EXPECT_GT(differences, 0);
}

TEST(TokenSampler, NeverChoosesAScoreThatIsNoNumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  TokenSampler sampler({});
  for (int draw = 0; draw < 20; ++draw) {
    EXPECT_EQ(sampler.choose(std::array<float, 3>{nan, 1.0f, HUGE_VALF}), 1);
    EXPECT_EQ(sampler.choose(std::array<float, 2>{nan, nan}), 0);
  }
}

}  // namespace
}  // namespace gpunode::model
