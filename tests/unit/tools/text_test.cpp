#include "tools/gpunode/text.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace gpunode::cli {
namespace {

std::int64_t milliseconds(const char* text) {
  auto parsed = parse_duration(text);
  return parsed ? parsed->count() : -1;
}

TEST(Text, ReadsDurationsInAllUnitsAndJoined) {
  EXPECT_EQ(milliseconds("250ms"), 250);
  EXPECT_EQ(milliseconds("30s"), 30'000);
  EXPECT_EQ(milliseconds("15m"), 900'000);
  EXPECT_EQ(milliseconds("2h"), 7'200'000);
  EXPECT_EQ(milliseconds("1d"), 86'400'000);
  EXPECT_EQ(milliseconds("1h30m"), 5'400'000);
}

TEST(Text, RefusesWhatIsNoDurationAndSaysWhatIsWanted) {
  const auto is_told = [](const char* text, const char* words) {
    auto parsed = parse_duration(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(parsed.error().detail.find(words), std::string::npos) << parsed.error().detail;
  };
  for (const char* text : {"", "15", "m", "15 m", "-5s", "15q", "1.5h", "1h 30m"})
    is_told(text, "30s, 15m or 2h");
  for (const char* text : {"99999999999999999999s", "9999999999d", "1000000h", "3650d1s"})
    is_told(text, "at most ten years (3650d)");
}

TEST(Text, WritesFiguresAsPeopleReadThem) {
  EXPECT_EQ(human_duration(130), "2m10s");
  EXPECT_EQ(time_text(1'795'271'853.1234), "2026-11-21 14:37:33.123Z");
  EXPECT_EQ(time_text(-1), "?");
  EXPECT_EQ(human_duration(900), "15m");
  EXPECT_EQ(human_duration(5400), "1h30m");
  EXPECT_EQ(human_duration(-1), "?");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(3.0 * (1 << 30)), "3 GiB");
  EXPECT_EQ(human_count(12345), "12.3k");
  EXPECT_EQ(decimal(2.50, 4), "2.5");
  EXPECT_EQ(decimal(100, 0), "100");
  EXPECT_EQ(decimal(std::numeric_limits<double>::quiet_NaN(), 4), "not finite");
}

TEST(Text, ColumnsAreAlignedByCharactersNotBytes) {
  EXPECT_EQ(aligned({{"A", "B"}, {"é", "x"}, {"long", ""}}), "A     B\né     x\nlong\n");
}

TEST(Text, APortAloneIsOneOnEveryAddress) {
  EXPECT_EQ(listen_address("21807"), "0.0.0.0:21807");
  EXPECT_EQ(listen_address("127.0.0.1:21807"), "127.0.0.1:21807");
  EXPECT_EQ(listen_address("none"), "none");
  EXPECT_EQ(listen_address("99999"), "99999") << "no port";
}

TEST(Text, WhatIsPrintedEndsItsLineOnce) {
  EXPECT_EQ(with_line_end("abc"), "abc\n");
  EXPECT_EQ(with_line_end("abc\n"), "abc\n");
  EXPECT_EQ(with_line_end(""), "\n");
}

}  // namespace
}  // namespace gpunode::cli
