#include "runtime/base/harmless_text.hpp"

#include <gtest/gtest.h>

namespace gpunode {
namespace {

TEST(HarmlessText, text_of_any_script_stays_as_it_is) {
  for (const char* text : {"", "node-1", "Jürgen's Gerät", "機械学習", "عقدة", "🚀 fast"}) {
    EXPECT_EQ(harmless(text), text);
    EXPECT_EQ(harmless_lines(text), text);
    EXPECT_EQ(harmless_json(text), text);
  }
}

TEST(HarmlessText, a_name_forges_no_line) {
  EXPECT_EQ(harmless("a\nb\r\nc\td\vx\fy"), "a b  c d x y");
  EXPECT_EQ(harmless("a\xC2\x85"
                     "b\xE2\x80\xA8"
                     "c\xE2\x80\xA9"
                     "d"),
            "a b c d");  // NEL, LS, PS
}

TEST(HarmlessText, no_escape_sequence_of_either_kind_gets_through) {
  EXPECT_EQ(harmless("\x1b[2J\x07"), "\uFFFD[2J\uFFFD");
  EXPECT_EQ(harmless("\xC2\x9B"
                     "31m"),
            "\uFFFD31m");  // CSI of C1
  EXPECT_EQ(harmless("\x9B"
                     "31m"),
            "\uFFFD31m");  // as a bare byte
  EXPECT_EQ(harmless("a\x7f\b"), "a\uFFFD\uFFFD");
  EXPECT_EQ(harmless(std::string_view("a\0b", 3)), "a\uFFFDb");
}

TEST(HarmlessText, the_direction_of_writing_is_ours) {
  EXPECT_EQ(harmless("a\u202Eb\u2066c\u2069d\u200Fe\u061Cf"),
            "a\uFFFDb\uFFFDc\uFFFDd\uFFFDe\uFFFDf");
}

TEST(HarmlessText, what_is_no_utf8_is_replaced_byte_by_byte) {
  EXPECT_EQ(harmless("\xff\xc3"), "\uFFFD\uFFFD");
  EXPECT_EQ(harmless("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");  // half of a pair
  EXPECT_EQ(harmless("\xc0\x9b"), "\uFFFD\uFFFD");            // too long for what it says
}

TEST(HarmlessText, a_text_of_many_lines_keeps_them_and_nothing_else) {
  EXPECT_EQ(harmless_lines("a\n\tb\r\x1b[2Jc\n"), "a\n\tb \uFFFD[2Jc\n");
}

TEST(HarmlessText, json_says_the_same_to_a_program) {
  EXPECT_EQ(harmless_json("{\"a\":\"\\u001b x\xC2\x9B\x7f\u202E ä\"}\n"),
            "{\"a\":\"\\u001b x\\u009b\\u007f\\u202e ä\"}\n");
}

}  // namespace
}  // namespace gpunode
