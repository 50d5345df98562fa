// A model of four numbers a token on two devices, served without or by its actor.
#pragma once

#include <gtest/gtest.h>

#include "actors/checkpoint/stored_model.hpp"
#include "actors/inference/served_model.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "tests/support/memory_file_system.hpp"

namespace gpunode::inference {

using namespace std::chrono_literals;
using Users = std::set<std::string>;

// Tells the device's watcher of the time, `per_call` later each time that it is asked for.
class WatchedClock final : public Clock {
 public:
  Time now() const override {
    for (int second = 0; device && second < seconds_per_call; ++second)
      device->look_for_hangs(seen += 1s, 3s);
    return seen;
  }
  std::chrono::system_clock::time_point wall() const override { return {}; }
  compute::NodeDevice* device = nullptr;
  int seconds_per_call = 0;
  mutable Time seen = Time{} + 1h;
};

class Served : public ::testing::Test {
 protected:
  Served() {
    store(3);
    devices_.add("cuda:0", cpu::open_backend());
    devices_.add("cuda:1", cpu::open_backend());
  }
  void store(std::uint64_t seed) {
    checkpoint::StoredModel stored;
    stored.model = std::move(*model::make_model(
        "gpt", {{"layers", "1"}, {"heads", "1"}, {"channels", "4"}, {"context", "8"}}));
    stored.weights.resize(stored.model->parameter_count());
    stored.model->initialise(seed, stored.weights);
    EXPECT_TRUE(checkpoint::save_model(disk_, stored, "/file"));
  }
  compute::NodeDevice& device(std::size_t at) { return *devices_.devices()[at]; }
  ServedModel::Options on(compute::NodeDevice& device) {
    return {.device = &device,
            .user = "model letters",
            .files = &disk_,
            .clock = &clock_,
            .path = "/file"};
  }
  std::unique_ptr<ServedModel> load() {
    auto served = ServedModel::load(on(device(0)));
    EXPECT_TRUE(served) << served.error().message();
    clock_.device = &device(0);
    return std::move(*served);
  }
  static constexpr std::uint32_t kTokens = 6;
  Result<GenerateAnswer> ask(ServedModel& model) {
    return model.generate({.prompt = "a", .max_tokens = kTokens, .temperature = 0}, Time::max());
  }

  gpunode::testing::MemoryFileSystem disk_;
  WatchedClock clock_;
  compute::DeviceRoster devices_{cpu::open_backend()};
};

}  // namespace gpunode::inference
