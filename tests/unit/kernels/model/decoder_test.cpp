#include "kernels/model/decoder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "kernels/model/model_code.hpp"

namespace gpunode::model {
namespace {

// Scores the sum of all that it has read, in a vocabulary of ten.
class SummingSession final : public Session {
 public:
  explicit SummingSession(std::size_t capacity) : capacity_(capacity) {}
  std::size_t position() const override { return position_; }
  std::size_t capacity() const override { return capacity_; }
  void reset() override { position_ = sum_ = 0; }
  Result<void> append(std::span<const Token> tokens, std::span<float> logits) override {
    for (const Token token : tokens) sum_ += static_cast<std::size_t>(token);
    position_ += tokens.size();
    std::ranges::fill(logits, static_cast<float>(sum_));
    return {};
  }

 private:
  std::size_t capacity_, position_ = 0, sum_ = 0;
};

class SummingProgram final : public Program {
 public:
  explicit SummingProgram(std::size_t capacity) : capacity_(capacity) {}
  Result<void> load(std::span<const float>) override { return {}; }
  Result<LossSum> gradient(int, std::span<const Sample>, std::span<float>) override {
    return LossSum{};
  }
  Result<Evaluation> evaluate(int, std::span<const Sample>) override { return Evaluation{}; }
  Result<std::unique_ptr<Session>> session() override {
    return std::unique_ptr<Session>(std::make_unique<SummingSession>(capacity_));
  }

 private:
  std::size_t capacity_;
};

TEST(SessionsAsDecoder, KeepOneTextAPage) {
  SummingProgram program(8);
  const auto decoder = sessions_as_decoder(program, 10, {.texts = 2});
  ASSERT_TRUE(decoder);
  EXPECT_EQ((*decoder)->context(), 8u);
  EXPECT_EQ((*decoder)->page(), 8u);
  EXPECT_EQ((*decoder)->pages(), 2u);
  const std::vector<Token> first{1, 2}, second{5}, more{3};
  const std::vector<std::int32_t> one{0}, other{1};
  std::vector<float> scores(20);
  const TextPart both[] = {{.tokens = first, .pages = one}, {.tokens = second, .pages = other}};
  ASSERT_TRUE((*decoder)->read(both, scores));
  EXPECT_EQ(scores[0], 3);
  EXPECT_EQ(scores[10], 5);
  const TextPart next{.tokens = more, .position = 2, .pages = one};
  ASSERT_TRUE((*decoder)->read(std::span(&next, 1), std::span(scores).first(10)));
  EXPECT_EQ(scores[0], 6);
  const TextPart anew{.tokens = more, .position = 0, .pages = one};
  ASSERT_TRUE((*decoder)->read(std::span(&anew, 1), std::span(scores).first(10)));
  EXPECT_EQ(scores[0], 3) << "a page begins with another text";
}

TEST(SessionsAsDecoder, TakeWhateverCapacityTheyTell) {
  SummingProgram endless(std::numeric_limits<std::size_t>::max());
  const auto decoder = sessions_as_decoder(endless, 10, {.texts = 16});
  ASSERT_TRUE(decoder);
  EXPECT_GT((*decoder)->context() * (*decoder)->pages(), (*decoder)->context());
  SummingProgram none(0);
  const auto refused = sessions_as_decoder(none, 10, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::internal);
}

}  // namespace
}  // namespace gpunode::model
