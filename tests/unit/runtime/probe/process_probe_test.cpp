#include "runtime/probe/process_probe.hpp"

#include <unistd.h>

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include "tests/support/temporary_folder.hpp"

namespace gpunode::probe {
namespace {

TEST(ProcessProbe, ReadsWhatTheKernelSaysOfThisProcess) {
  const ProcessSample sample = sample_process();
  ASSERT_TRUE(sample.cpu_seconds && sample.start_unix_seconds && sample.resident_bytes);
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_GE(*sample.cpu_seconds, 0);
  EXPECT_LT(*sample.start_unix_seconds, now + 2);
  EXPECT_GT(*sample.start_unix_seconds, now - 3600);
  EXPECT_GT(*sample.resident_bytes, 100'000u);
  EXPECT_GE(*sample.virtual_bytes, *sample.resident_bytes);
  EXPECT_GE(*sample.open_files, 3u);
  EXPECT_GT(sample.most_files.value_or(1), 0u);
}

TEST(ProcessProbe, ANameWithBracketsAndSpacesIsNoTrap) {
  gpunode::testing::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "self");
  std::ofstream(folder.path() / "self" / "stat")
      << "7 (a) 1 (b c)) S 1 1 1 0 -1 0 0 0 0 0 150 50 0 0 20 0 9 0 3000 4096000 25 0\n";
  std::ofstream(folder.path() / "stat") << "cpu 1 2\nbtime 1700000000\n";
  std::ofstream(folder.path() / "self" / "limits")
      << "Max open files            1024                 4096                 files\n";
  const ProcessSample sample = sample_process(folder.path());
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_EQ(sample.cpu_seconds, 200 / ticks);
  EXPECT_EQ(sample.start_unix_seconds, 1700000000 + 3000 / ticks);
  EXPECT_EQ(sample.virtual_bytes, 4096000u);
  EXPECT_EQ(sample.resident_bytes, 25u * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(sample.most_files, 1024u);
  EXPECT_FALSE(sample.open_files);
}

TEST(ProcessProbe, WhatIsNotThereIsUnknown) {
  gpunode::testing::TemporaryFolder folder;
  const ProcessSample sample = sample_process(folder.path());
  EXPECT_FALSE(sample.cpu_seconds || sample.start_unix_seconds || sample.resident_bytes ||
               sample.virtual_bytes || sample.open_files || sample.most_files);
}

}  // namespace
}  // namespace gpunode::probe
