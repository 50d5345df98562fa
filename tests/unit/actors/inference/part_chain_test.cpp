// A model in parts, as if each were on a node of its own: the texts of the whole model, what happens to them
// where a part goes away, is started again, answers wrongly or late.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/actors/inference/parts_fixture.hpp"

namespace gpunode::inference {
namespace {

TEST_F(InParts, TextsAreThoseOfTheWholeModelAndSoIsTheDigest) {
  const auto alone = whole();
  serve_all();
  EXPECT_EQ(head_->facts().digest, alone->facts().digest);
  EXPECT_EQ(nodes_.parts[node_id(2)]->facts().digest, alone->facts().digest);
  for (int number = 0; number < 4; ++number) EXPECT_EQ(said(*head_, number), said(*alone, number));
  // Several together, too.
  std::map<int, std::string> told;
  for (int number = 0; number < 4; ++number)
    head_->begin({.request = request(number),
                  .deadline = Time::max(),
                  .client = {},
                  .done = [&told, number](const Result<GenerateAnswer>& answer) {
                    told[number] = answer ? answer->text : answer.error().message();
                  }});
  while (!head_->is_idle()) ASSERT_TRUE(head_->pass());
  for (int number = 0; number < 4; ++number) EXPECT_EQ(told[number], said(*alone, number));
}

TEST_F(InParts, AHeadAloneRefusesCallsAndNamesThePart) {
  serve_head();
  EXPECT_EQ(failure().code, ErrorCode::unavailable);
  EXPECT_THAT(failure().message(), HasSubstr("part 2/3 of model big is missing"));
  EXPECT_THAT(failure().message(), HasSubstr("--part 2/3"));
  EXPECT_FALSE(head_->probe());
  serve(2, 1);
  EXPECT_THAT(failure().message(), HasSubstr("part 3/3 of model big is missing"));
  serve(3, 2);
  EXPECT_TRUE(head_->probe());
  EXPECT_EQ(said(*head_, 1), said(*whole(), 1));
}

TEST_F(InParts, APartThatGoesAwayIsNamedAndOneThatComesBackIsTakenUp) {
  serve_all();
  const std::string before = said(*head_, 0);
  nodes_.parts.erase(node_id(3));
  EXPECT_EQ(failure().code, ErrorCode::unavailable);
  EXPECT_THAT(failure().message(), HasSubstr("part 3/3 of model big is missing"));
  serve(4, 2);  // elsewhere
  EXPECT_EQ(said(*head_, 0), before);
}

// Its pages are empty, and nothing says so but its life.
TEST_F(InParts, APartThatWasStartedAgainIsNotTakenForTheOneBefore) {
  serve_all();
  const auto alone = whole();
  EXPECT_EQ(said(*head_, 1), said(*alone, 1));
  serve(3, 2);  // in place of that one
  // The beginning was remembered on the head.
  EXPECT_EQ(said(*head_, 1), said(*alone, 1));
}

TEST_F(InParts, TextsUnderWayGoOnWithAnotherNodeAsTheyWouldHave) {
  serve_all();
  serve(4, 2);
  const auto alone = whole();
  std::map<int, std::string> told;
  for (int number = 0; number < 3; ++number)
    head_->begin({.request = request(number),
                  .deadline = Time::max(),
                  .client = {},
                  .done = [&told, number](const Result<GenerateAnswer>& answer) {
                    told[number] = answer ? answer->text : answer.error().message();
                  }});
  for (int pass = 0; !head_->is_idle(); ++pass) {
    ASSERT_TRUE(head_->pass());
    if (pass == 9) nodes_.parts.erase(node_id(3));
  }
  for (int number = 0; number < 3; ++number) EXPECT_EQ(told[number], said(*alone, number));
}

TEST_F(InParts, TextsUnderWayAreAnsweredWherePartsAreGone) {
  serve_all();
  std::vector<Error> told;
  for (int number = 0; number < 3; ++number)
    head_->begin({.request = request(number),
                  .deadline = Time::max(),
                  .client = {},
                  .done = [&told](const Result<GenerateAnswer>& answer) {
                    ASSERT_FALSE(answer);
                    told.push_back(answer.error());
                  }});
  for (int pass = 0; pass < 5; ++pass) ASSERT_TRUE(head_->pass());
  nodes_.parts.erase(node_id(2));
  EXPECT_FALSE(head_->pass());
  ASSERT_EQ(told.size(), 3u);
  for (const Error& error : told) {
    EXPECT_EQ(error.code, ErrorCode::unavailable);
    EXPECT_THAT(error.message(), HasSubstr("part 2/3"));
  }
  EXPECT_TRUE(head_->is_idle());
}

TEST_F(InParts, WhoFailsIsPassedOverForAMoment) {
  serve_all();
  nodes_.failing[node_id(3)] = {ErrorCode::timeout, "late"};
  EXPECT_THAT(failure().message(), HasSubstr("node3: timeout: late"));
  nodes_.failing.clear();
  nodes_.asked.clear();
  EXPECT_THAT(failure().message(), HasSubstr("node3: timeout: late"));
  EXPECT_EQ(std::ranges::count(nodes_.asked, node_id(3)), 0);
  clock_.seen += 2s;
  said(*head_, 0);
}

TEST_F(InParts, APassIsWaitedForAsLongAsATextCanUseIt) {
  serve_all();
  const Time deadline = clock_.now() + 7s;
  EXPECT_TRUE(head_->generate(request(0), deadline));
  EXPECT_LE(nodes_.longest, 7s);
  EXPECT_GT(nodes_.longest, 6s);
}

TEST_F(InParts, AnswersThatDoNotFitAreNone) {
  serve_all();
  nodes_.change = [](PartMessage& answer) {
    if (auto* values = std::get_if<PartValues>(&answer)) values->values.pop_back();
  };
  EXPECT_EQ(failure().code, ErrorCode::unavailable);
  EXPECT_THAT(failure().message(), HasSubstr("part 2/3"));
  clock_.seen += 2s;
  nodes_.change = [](PartMessage& answer) { answer = PartOpened{1}; };
  EXPECT_EQ(failure().code, ErrorCode::unavailable);
  clock_.seen += 2s;
  nodes_.change = [](PartMessage& answer) {
    if (auto* values = std::get_if<PartValues>(&answer))
      values->values[0] = std::numeric_limits<float>::quiet_NaN();
  };
  EXPECT_THAT(failure().message(), HasSubstr("on node2: it makes numbers that are not"));
}

TEST_F(InParts, AnotherNodeComputesWhatOneMakesNonsenseOf) {
  serve_all();
  serve(4, 1);
  const std::string before = said(*whole(), 0);
  nodes_.change = [this](PartMessage& answer) {
    auto* values = std::get_if<PartValues>(&answer);
    if (values && nodes_.asked.back() == node_id(2))
      values->values[0] = std::numeric_limits<float>::quiet_NaN();
  };
  EXPECT_EQ(said(*head_, 0), before);
}

// Its time is up while a part computes: that is not the part's fault, nor that of the other texts.
TEST_F(InParts, ATextWhoseTimeIsUpCostsNoOtherItsAnswer) {
  serve_all();
  const auto alone = whole();
  const std::string other = said(*alone, 1);
  std::map<int, std::string> told;
  for (int number = 0; number < 2; ++number)
    head_->begin({.request = request(number),
                  .deadline = number == 0 ? clock_.now() + 10s : Time::max(),
                  .client = {},
                  .done = [&told, number](const Result<GenerateAnswer>& answer) {
                    told[number] = !answer                        ? answer.error().message()
                                   : answer->finish == "deadline" ? "deadline"
                                                                  : answer->text;
                  }});
  for (int pass = 0; !head_->is_idle(); ++pass) {
    if (pass == 5) {
      nodes_.failing[node_id(3)] = {ErrorCode::timeout, "late"};
      nodes_.on_ask = [this] { clock_.seen += 11s; };
    }
    (void)head_->pass();
    nodes_.on_ask = [] {};
    nodes_.failing.clear();
  }
  EXPECT_EQ(told[0], "deadline");
  // Both were waited for as long as the other one can use it, so the node was late for that one too.
  EXPECT_THAT(told[1], HasSubstr("node3: timeout: late"));
}

// The same, of a pass that is for that text alone.
TEST_F(InParts, ATextWhoseTimeIsUpBlamesNoPart) {
  serve_all();
  nodes_.failing[node_id(3)] = {ErrorCode::timeout, "late"};
  nodes_.on_ask = [this] { clock_.seen += 11s; };
  const auto late = head_->generate(request(0), clock_.now() + 10s);
  ASSERT_TRUE(late) << late.error().message();
  EXPECT_EQ(late->finish, "deadline");
  nodes_.failing.clear();
  nodes_.on_ask = [] {};
  EXPECT_EQ(said(*head_, 1), said(*whole(), 1));
}

// Else the first in the directory's order would be waited for again by every text.
TEST_F(InParts, WhoWasLateIsAskedAfterOthers) {
  serve_all();
  serve(4, 2);
  nodes_.failing[node_id(3)] = {ErrorCode::timeout, "late"};
  nodes_.on_ask = [this] { clock_.seen += 11s; };
  ASSERT_TRUE(head_->generate(request(0), clock_.now() + 10s));
  nodes_.on_ask = [] {};
  nodes_.asked.clear();
  EXPECT_EQ(said(*head_, 1), said(*whole(), 1));
  EXPECT_EQ(std::ranges::count(nodes_.asked, node_id(3)), 0);
}

// Which one text can bring about by what it says: that is no other's harm.
TEST_F(InParts, NumbersThatAreNotFiniteOfTheOnlyHolderEndTheTextsOfThatPassAlone) {
  serve_all();
  bool spoils = true;
  nodes_.change = [&](PartMessage& answer) {
    auto* values = std::get_if<PartValues>(&answer);
    if (values && std::exchange(spoils, false))
      values->values[0] = std::numeric_limits<float>::quiet_NaN();
  };
  const Error told = failure();
  EXPECT_EQ(told.code, ErrorCode::internal);
  EXPECT_THAT(told.message(), HasSubstr("part 2/3"));
  EXPECT_EQ(said(*head_, 1), said(*whole(), 1));  // at once
}

TEST_F(InParts, AHeadThatEndsGivesItsRoomBackAtOnce) {
  serve(2, 1);
  serve(3, 2);
  for (int head = 0; head < 9; ++head) {  // no time goes by
    serve_head();
    said(*head_, 0);
    head_.reset();
  }
}

TEST_F(InParts, PartsOfAnotherContentOrDivisionAreNotItsOwn) {
  serve(2, 1, 2);
  serve_head(3);
  EXPECT_THAT(failure().message(), HasSubstr("part 2/3 of model big is missing"));
}

}  // namespace
}  // namespace gpunode::inference
