#include "runtime/base/log.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace gpunode::log {
namespace {

TEST(Log, a_line_has_the_time_in_utc_with_milliseconds) {
  const Record record{
      std::chrono::system_clock::time_point(std::chrono::milliseconds(1'700'000'000'007)), "info",
      "jobs", "tiny is done"};
  EXPECT_EQ(line_of(record), "2023-11-14T22:13:20.007Z info    jobs       tiny is done\n");
}

TEST(Log, whoever_takes_the_records_gets_them_harmless) {
  std::vector<Record> taken;
  set_sink([&](const Record& record) { taken.push_back(record); });
  warning("net", "a\nforged\x1b[2J line");
  set_sink([](const Record&) { throw 7; });
  warning("test", "the sink throws, and the process goes on");
  set_sink(nullptr);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].level, "warning");
  EXPECT_EQ(taken[0].area, "net");
  EXPECT_EQ(taken[0].text, "a forged\uFFFD[2J line");
}

}  // namespace
}  // namespace gpunode::log
