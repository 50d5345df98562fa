#include "actors/inference/stop_sequences.hpp"

#include <gtest/gtest.h>

namespace gpunode::inference {
namespace {

TEST(StopSequences, GivesAllAtOnceWhereThereAreNone) {
  StopSequences stop({""});
  EXPECT_EQ(stop.add("once"), "once");
  EXPECT_EQ(stop.end(), "");
  EXPECT_FALSE(stop.is_over());
}

TEST(StopSequences, EndsBeforeTheFirstOne) {
  StopSequences stop({"b", "ab"});
  EXPECT_EQ(stop.add("xxaby"), "xx");
  EXPECT_TRUE(stop.is_over());
  EXPECT_EQ(stop.add("more"), "");
  EXPECT_EQ(stop.end(), "");
}

TEST(StopSequences, HoldsBackWhatCouldBecomeOne) {
  StopSequences stop({"###"});
  EXPECT_EQ(stop.add("a#"), "a");
  EXPECT_EQ(stop.add("#"), "");
  EXPECT_EQ(stop.add("b#"), "##b");
  EXPECT_EQ(stop.end(), "#");
}

TEST(StopSequences, FindsOneThatComesInPieces) {
  for (std::size_t cut = 1; cut < 9; ++cut) {
    const std::string text = "aab\n\nUser";
    StopSequences stop({"\n\nUser", "never"});
    std::string given = stop.add(text.substr(0, cut));
    given += stop.add(text.substr(cut));
    EXPECT_EQ(given + stop.end(), "aab") << cut;
    EXPECT_TRUE(stop.is_over());
  }
}

// One that begins inside the beginning of itself.
TEST(StopSequences, FindsOneBehindAFalseBeginning) {
  StopSequences stop({"aab"});
  std::string given;
  for (const char* letter : {"a", "a", "a", "b", "c"}) given += stop.add(letter);
  EXPECT_EQ(given, "a");
  EXPECT_TRUE(stop.is_over());
}

}  // namespace
}  // namespace gpunode::inference
