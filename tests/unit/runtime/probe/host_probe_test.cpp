#include "runtime/probe/host_probe.hpp"

#include <unistd.h>

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temporary_folder.hpp"

namespace gpunode::probe {
namespace {

using namespace std::chrono_literals;

class HostProbeTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder.path() / name).parent_path());
    std::ofstream(folder.path() / name) << text;
  }
  void write_all(int busy, int idle, std::uint64_t received) {
    write("stat", "cpu  " + std::to_string(busy) + " 0 0 " + std::to_string(idle) +
                      " 0 0 0 0 0 0\ncpu0 1 0 0 1\ncpu1 1 0 0 1\nintr 5\n");
    write("meminfo",
          "MemTotal:       16000 kB\nMemFree:         1000 kB\nMemAvailable:    4000 kB\n");
    write("loadavg", "1.50 1.00 0.50 1/100 1234\n");
    write("pressure/cpu",
          "some avg10=12.50 avg60=0.52 avg300=6.72 total=56\nfull avg10=9.00 total=0\n");
    write("cpuinfo", "processor : 0\nmodel name\t: Some CPU\n");
    write("net/dev",
          "Inter-|   Receive  |  Transmit\n face |bytes packets\n"
          "    lo: 999999 1 0 0 0 0 0 0 999999 1 0 0 0 0 0 0\n"
          "  eth0: " +
              std::to_string(received) + " 1 0 0 0 0 0 0 500 1 0 0 0 0 0 0\n");
  }
  gpunode::testing::TemporaryFolder folder;
  Time now = Time{} + 1h;
};

TEST_F(HostProbeTest, MemoryIsBoundedByTheLimitOfTheProcess) {
  write_all(100, 100, 1000);
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  write("self/statm", "10 5 3 1 0 4 0\n");
  write("self/limits", "Limit   Soft Limit  Hard Limit  Units\nMax address space         " +
                           std::to_string(30 * page) + "  unlimited   bytes\n");
  EXPECT_EQ(ProcHostProbe(folder.path(), folder.path()).sample(now).memory_available_bytes,
            20 * page);
  write("self/limits", "Max address space         unlimited   unlimited   bytes\n");
  EXPECT_EQ(ProcHostProbe(folder.path(), folder.path()).sample(now).memory_available_bytes,
            4000u * 1024);
}

TEST_F(HostProbeTest, AMachineIsKnownByItsBoot) {
  EXPECT_EQ(machine_text(folder.path()), "");
  write("sys/kernel/random/boot_id", "0a1b\n");
  EXPECT_EQ(machine_text(folder.path()), "0a1b");
}

TEST_F(HostProbeTest, FiguresAreReadFromProc) {
  write_all(100, 100, 1000);
  ProcHostProbe probe(folder.path(), folder.path());
  const HostSample first = probe.sample(now);
  EXPECT_EQ(first.cpu_load, std::nullopt);
  EXPECT_EQ(first.received_bytes_per_second, std::nullopt);
  EXPECT_EQ(first.cpu_count, 2);
  EXPECT_EQ(first.cpu_model, "Some CPU");
  EXPECT_EQ(first.load_average, 1.5);
  EXPECT_EQ(first.cpu_pressure, 0.125);
  EXPECT_EQ(first.memory_total_bytes, 16000u * 1024);
  EXPECT_EQ(first.memory_available_bytes, 4000u * 1024);
  EXPECT_TRUE(first.disk_free_bytes.has_value());
  EXPECT_GE(*first.disk_total_bytes, *first.disk_free_bytes);

  write_all(130, 110, 5000);
  const HostSample second = probe.sample(now + 2s);
  ASSERT_TRUE(second.cpu_load.has_value());
  EXPECT_DOUBLE_EQ(*second.cpu_load, 0.75);
  ASSERT_TRUE(second.received_bytes_per_second.has_value());
  EXPECT_DOUBLE_EQ(*second.received_bytes_per_second, 2000.0);
  EXPECT_DOUBLE_EQ(*second.sent_bytes_per_second, 0.0);
}

TEST_F(HostProbeTest, WhatIsMissingIsAbsentAndNotZero) {
  ProcHostProbe probe("/no/such/folder", folder.path() / "nothing");
  const HostSample sample = probe.sample(now);
  EXPECT_EQ(sample.cpu_count, std::nullopt);
  EXPECT_EQ(sample.memory_total_bytes, std::nullopt);
  EXPECT_EQ(sample.memory_available_bytes, std::nullopt);
  EXPECT_EQ(sample.disk_free_bytes, std::nullopt);
  EXPECT_EQ(sample.load_average, std::nullopt);
  EXPECT_EQ(sample.cpu_pressure, std::nullopt);
}

TEST_F(HostProbeTest, GarbageIsAbsentToo) {
  for (const char* name : {"stat", "meminfo", "loadavg", "pressure/cpu", "cpuinfo", "net/dev"})
    write(name, "cpu x y\nMemTotal: lots\n eth0: many\n:\nmodel name\n");
  ProcHostProbe probe(folder.path(), folder.path());
  probe.sample(now);
  const HostSample sample = probe.sample(now + 1s);
  EXPECT_EQ(sample.cpu_load, std::nullopt);
  EXPECT_EQ(sample.memory_total_bytes, std::nullopt);
  EXPECT_EQ(sample.received_bytes_per_second, std::nullopt);
}

TEST_F(HostProbeTest, CountersThatRunBackwardsGiveNoRate) {
  write_all(100, 100, 1000);
  ProcHostProbe probe(folder.path(), folder.path());
  probe.sample(now);
  write_all(10, 10, 10);
  const HostSample sample = probe.sample(now + 1s);
  EXPECT_EQ(sample.cpu_load, std::nullopt);
  EXPECT_EQ(sample.received_bytes_per_second, std::nullopt);
}

TEST_F(HostProbeTest, ThisMachineIsRead) {
  ProcHostProbe probe(folder.path());
  const HostSample sample = probe.sample(now);
  EXPECT_GE(sample.cpu_count.value_or(0), 1);
  EXPECT_GT(sample.memory_total_bytes.value_or(0), 1u << 20);
}

}  // namespace
}  // namespace gpunode::probe
