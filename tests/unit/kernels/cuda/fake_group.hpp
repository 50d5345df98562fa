// What a test of device groups over NCCL has in place of GPUs: memory by name, libraries that stand
// in NCCL's and the driver's place, and a look at this process's children, threads and descriptors.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "tests/support/shm_group_memory.hpp"

namespace gpunode::cuda {

inline constexpr const char* kFakeGpu = "0000:0a:00.0";

// An environment variable for a while.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = std::make_unique<std::string>(before);
    setenv(name, value.c_str(), 1);
  }
  ~Setting() {
    if (before_)
      setenv(name_, before_->c_str(), 1);
    else
      unsetenv(name_);
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
  std::unique_ptr<std::string> before_;
};

// Processes that this one has started and not reaped.
inline std::set<pid_t> children() {
  std::set<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text;
    std::getline(file, text);  // one that is gone meanwhile leaves it empty
    const std::size_t end = text.rfind(')');
    if (end == std::string::npos) continue;
    char state = 0;
    int parent = 0;
    if (std::sscanf(text.c_str() + end + 1, " %c %d", &state, &parent) == 2 && parent == getpid())
      found.insert(std::stoi(name));
  }
  return found;
}

inline std::size_t entries_of(const char* folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

class FakeGroupMemory final : public ShmGroupMemory {
 public:
  Result<Piece> allocate(std::size_t bytes) override {
    if (bytes > most) return Error{ErrorCode::out_of_memory, "the fake GPU is small"};
    return ShmGroupMemory::allocate(bytes);
  }
  void release(std::byte* place) override {
    children_at_release = children().size();
    ShmGroupMemory::release(place);
  }

  std::size_t most = std::size_t{64} << 20;  // bytes of one piece
  std::size_t children_at_release = 0;
};

// Nothing of a group is left after a test.
class NcclGroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* before = std::getenv("LD_LIBRARY_PATH");
    libraries_ = std::make_unique<Setting>(
        "LD_LIBRARY_PATH",
        std::string(GPUNODE_FAKE_DEVICES) + (before ? ":" : "") + (before ? before : ""));
    nccl_ = std::make_unique<Setting>("GPUNODE_NCCL_FOLDER", GPUNODE_FAKE_DEVICES);
    descriptors_ = entries_of("/proc/self/fd");
    std::thread([] {}).join();  // a sanitizer has one of its own from then on
    threads_ = entries_of("/proc/self/task");
  }
  void TearDown() override {
    EXPECT_TRUE(children().empty());
    EXPECT_EQ(entries_of("/proc/self/fd"), descriptors_);
    // A joined thread's entry goes a moment after it.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (entries_of("/proc/self/task") > threads_ && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    EXPECT_LE(entries_of("/proc/self/task"), threads_);
    EXPECT_EQ(memory->held(), 0u);
  }

  Result<std::unique_ptr<ops::DeviceGroup>> try_open(const std::string& gpu = kFakeGpu,
                                                     const std::string& program = GPUNODE_CARRIER) {
    return open_nccl_group(
        {.memory = memory, .pci_bus_id = gpu, .between_machines = false, .program = program});
  }
  std::unique_ptr<ops::DeviceGroup> open() {
    auto group = try_open();
    if (group) return std::move(*group);
    ADD_FAILURE() << group.error().message();
    return nullptr;
  }

  std::shared_ptr<FakeGroupMemory> memory = std::make_shared<FakeGroupMemory>();

 private:
  std::unique_ptr<Setting> libraries_, nccl_;
  std::size_t descriptors_ = 0, threads_ = 0;
};

}  // namespace gpunode::cuda
