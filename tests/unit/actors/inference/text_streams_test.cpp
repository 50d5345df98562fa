#include "actors/inference/text_streams.hpp"

#include <gtest/gtest.h>

#include "actors/inference/piece_teller.hpp"

namespace gpunode::inference {
namespace {

class Streams : public ::testing::Test {
 protected:
  std::uint64_t open() {
    return streams_.open([this](const TextPiece& more) {
      taken_ += more.text;
      for (const TokenReport& report : more.reports) tokens_ += report.token.bytes;
      return wanted_;
    });
  }
  ErrorCode failure(const GeneratePiece& piece) {
    const auto done = streams_.on_piece(piece);
    EXPECT_FALSE(done);
    return done ? ErrorCode::internal : done.error().code;
  }
  TextStreams streams_;
  std::string taken_, tokens_;
  bool wanted_ = true;
};

TEST_F(Streams, hands_on_pieces_and_at_the_end_the_rest) {
  const auto stream = open();
  EXPECT_TRUE(streams_.on_piece({stream, 0, "one "}));
  EXPECT_TRUE(streams_.on_piece({stream, 4, "two "}));
  EXPECT_EQ(taken_, "one two ");
  EXPECT_TRUE(streams_.close(stream, {"one two three"}));
  EXPECT_EQ(taken_, "one two three");
  EXPECT_EQ(failure({stream, 13, "more"}), ErrorCode::not_found);
}

TEST_F(Streams, takes_each_byte_once_whoever_sends_it) {
  const auto stream = open();
  EXPECT_TRUE(streams_.on_piece({stream, 0, "one two"}));
  EXPECT_TRUE(streams_.on_piece({stream, 0, "one"})) << "another replica begins anew";
  EXPECT_TRUE(streams_.on_piece({stream, 3, " two three"}));
  EXPECT_TRUE(streams_.on_piece({stream, 20, "behind a gap"}));
  EXPECT_EQ(taken_, "one two three");
  EXPECT_TRUE(streams_.close(stream, {"one two three, and what was behind the gap"}));
  EXPECT_EQ(taken_, "one two three, and what was behind the gap");
}

std::vector<TokenReport> told(const std::string& tokens) {
  std::vector<TokenReport> reports;
  for (const char one : tokens)
    reports.push_back({.token = {std::string(1, one), {}}, .likely = {}});
  return reports;
}

TEST_F(Streams, tell_of_each_token_once) {
  const auto stream = open();
  EXPECT_TRUE(streams_.on_piece({stream, 0, "one", 0, told("abc")}));
  EXPECT_TRUE(streams_.on_piece({stream, 0, "one two", 0, told("abcd")}));
  EXPECT_TRUE(streams_.on_piece({stream, 7, "behind a gap", 6, told("gh")}));
  EXPECT_EQ(tokens_, "abcd");
  const auto all = told("abcdefgh");
  EXPECT_TRUE(streams_.close(stream, {"one two", all}));
  EXPECT_EQ(tokens_, "abcdefgh");
  EXPECT_EQ(taken_, "one two");
}

TEST_F(Streams, never_mixes_two_texts) {
  const auto stream = open();
  EXPECT_TRUE(streams_.on_piece({stream, 0, "one"}));
  EXPECT_EQ(failure({stream, 0, "two"}), ErrorCode::wrong_state);
  EXPECT_EQ(failure({stream, 2, "xy"}), ErrorCode::wrong_state);
  EXPECT_EQ(taken_, "one");
  const auto done = streams_.close(stream, {"only"});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::wrong_state);
  EXPECT_EQ(taken_, "one");
}

TEST_F(Streams, take_another_text_where_none_was_shown) {
  std::string taken;
  const auto stream = streams_.open(
      [&](const TextPiece& more) {
        taken += more.text;
        return true;
      },
      false);
  EXPECT_TRUE(streams_.on_piece({stream, 0, "one two"}));
  EXPECT_TRUE(streams_.on_piece({stream, 4, "three"}));
  EXPECT_TRUE(streams_.on_piece({stream, 9, " four"}));
  EXPECT_TRUE(streams_.close(stream, {"another"}));
  EXPECT_EQ(taken, "one twothree fouranother");
}

TEST_F(Streams, says_when_nobody_wants_more) {
  const auto stream = open();
  wanted_ = false;
  EXPECT_EQ(failure({stream, 0, "one"}), ErrorCode::not_found);
  wanted_ = true;
  EXPECT_EQ(failure({stream, 3, "two"}), ErrorCode::not_found) << "and does not change its mind";
  EXPECT_EQ(failure({stream + 1, 0, "x"}), ErrorCode::not_found);
  EXPECT_TRUE(streams_.close(stream, {"one two"}));
}

TEST_F(Streams, have_numbers_of_their_own) {
  const auto first = open(), second = open();
  EXPECT_NE(first, second);
  EXPECT_NE(first, 0u);
  streams_.close(first);
  EXPECT_EQ(failure({first, 0, "x"}), ErrorCode::not_found);
  EXPECT_TRUE(streams_.on_piece({second, 0, "x"}));
}

class Teller : public ::testing::Test {
 protected:
  PieceTeller teller_{7, [this](GeneratePiece piece, std::function<void(Result<void>)> arrived) {
                        sent_.push_back(std::move(piece));
                        arrived_.push_back(std::move(arrived));
                      }};
  std::vector<GeneratePiece> sent_;
  std::vector<std::function<void(Result<void>)>> arrived_;
};

TEST_F(Teller, has_one_on_its_way_at_a_time) {
  EXPECT_TRUE(teller_.add({"a"}));
  EXPECT_TRUE(teller_.add({"b"}));
  EXPECT_TRUE(teller_.add({"c"}));
  ASSERT_EQ(sent_.size(), 1u);
  arrived_[0]({});
  EXPECT_TRUE(teller_.add({"d"}));
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_EQ(sent_[0].text, "a");
  EXPECT_EQ(sent_[1].text, "bcd");
  EXPECT_EQ(sent_[1].offset, 1u);
  EXPECT_EQ(sent_[1].stream, 7u);
}

TEST_F(Teller, tells_of_tokens_with_the_next_text) {
  const auto first = told("ab"), more = told("c");
  EXPECT_TRUE(teller_.add({"", first}));
  EXPECT_TRUE(sent_.empty());
  EXPECT_TRUE(teller_.add({"x", more}));
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0].reports.size(), 3u);
  arrived_[0]({});
  EXPECT_TRUE(teller_.add({"y", more}));
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_EQ(sent_[1].first_report, 3u);
}

TEST_F(Teller, sends_nothing_of_nothing) {
  EXPECT_TRUE(teller_.add({""}));
  EXPECT_TRUE(sent_.empty());
}

TEST_F(Teller, ends_with_who_wants_no_more_and_not_with_a_lost_piece) {
  EXPECT_TRUE(teller_.add({"a"}));
  arrived_[0](Error{ErrorCode::timeout, "lost"});
  EXPECT_TRUE(teller_.add({"b"}));
  ASSERT_EQ(sent_.size(), 2u);
  arrived_[1](Error{ErrorCode::not_found, "nobody"});
  EXPECT_FALSE(teller_.add({"c"}));
}

}  // namespace
}  // namespace gpunode::inference
