// From NVML's word to a device that takes no more work: the health actor over the fake library, and
// the roster's devices, which are CPUs that sit where the fake GPUs do.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include <condition_variable>
#include <mutex>

#include "actors/health/health_actor.hpp"
#include "actors/json_answer.hpp"
#include "actors/node/commands.hpp"
#include "kernels/cpu/cpu_backend.hpp"

namespace gpunode::node {
namespace {

constexpr int kGpuIsLost = 15;  // NVML's code

caf::behavior nobody(caf::event_based_actor* self) {
  return {
      [](const SetEntry&) {},
      [self](const Shutdown&) { self->quit(); },
  };
}

class DeviceVerdicts : public ::testing::Test {
 protected:
  DeviceVerdicts() {
    // As CUDA writes them, and in its own order.
    devices_.add("cuda:0", cpu::open_backend(), "0000:c1:00.0");
    devices_.add("cuda:1", cpu::open_backend(), "0000:01:00.0");
  }
  void SetUp() override {
    library_ = dlopen(GPUNODE_FAKE_NVML, RTLD_NOW);
    ASSERT_NE(library_, nullptr) << dlerror();
    set_ = reinterpret_cast<void (*)(int, unsigned, int)>(dlsym(library_, "fake_nvml_set"));
    ASSERT_NE(set_, nullptr);
    set_(0, 2, 0);
    directory_ = system_.spawn(nobody);
    health_ = health::spawn_health(
        system_, {std::make_shared<probe::ProcHostProbe>("/tmp"),
                  std::shared_ptr<probe::GpuProbe>(probe::open_nvml_probe(GPUNODE_FAKE_NVML)),
                  &clock_, directory_, [this](const health::Verdict& verdict) { hear(verdict); }});
  }
  void TearDown() override {
    caf::anon_send(health_, Shutdown{});
    caf::anon_send(directory_, Shutdown{});
    caf::scoped_actor self(system_);
    self->wait_for(health_);
    health_ = {};
    directory_ = {};
    set_(0, 2, 0);
    dlclose(library_);
  }
  // On the health actor's thread, which alone reads the clock.
  void hear(const health::Verdict& verdict) {
    drain_(verdict);
    std::lock_guard lock(mutex_);
    if (verdict.subject != "gpu1") return;
    ++samples_;
    clock_.advance(std::chrono::seconds(10));
    sampled_.notify_all();
  }
  // After `count` more samples, the last of them begun after this call.
  void sample(int count = 1) {
    std::unique_lock lock(mutex_);
    const int wanted = samples_ + count + 1;
    for (int asked = 0; asked <= count; ++asked) caf::anon_send(health_, Tick{});
    ASSERT_TRUE(
        sampled_.wait_for(lock, std::chrono::seconds(20), [&] { return samples_ >= wanted; }));
  }
  nlohmann::json shown(int index) {
    return nlohmann::json::parse(devices_json(devices_))["devices"][index];
  }

  void* library_ = nullptr;
  void (*set_)(int init, unsigned count, int query) = nullptr;
  FakeClock clock_;
  compute::DeviceRoster devices_{cpu::open_backend()};
  std::function<void(const health::Verdict&)> drain_ = drain_by_verdict(devices_);
  std::mutex mutex_;
  std::condition_variable sampled_;
  int samples_ = 0;
  caf::actor_system_config config_;
  caf::actor_system system_{config_};
  caf::actor directory_, health_;
};

TEST_F(DeviceVerdicts, drain_the_gpu_that_nvml_means_and_take_it_back) {
  sample();
  EXPECT_EQ(shown(0)["state"], "ready");
  EXPECT_FALSE(shown(0).contains("reason"));
  EXPECT_EQ(shown(0)["pci_bus_id"], "00000000:c1:00.0");
  set_(0, 2, kGpuIsLost);  // NVML's device 1 answers nothing now, its place neither
  sample();
  EXPECT_EQ(shown(0)["state"], "drained");
  EXPECT_NE(shown(0)["reason"].get<std::string>().find("driver has lost"), std::string::npos);
  EXPECT_EQ(shown(1)["state"], "ready") << "which is NVML's device 0";
  set_(0, 2, 0);
  sample();
  EXPECT_EQ(shown(0)["state"], "drained") << "it must be well for 30 s";
  sample(4);
  EXPECT_EQ(shown(0)["state"], "ready");
  EXPECT_FALSE(shown(0).contains("reason"));
}

TEST_F(DeviceVerdicts, are_told_again_so_that_a_device_that_could_not_be_spared_is_drained_later) {
  sample();
  ASSERT_TRUE(devices_.drain("cuda:1"));
  set_(0, 2, kGpuIsLost);
  sample();
  EXPECT_EQ(shown(0)["state"], "ready");
  EXPECT_NE(shown(0)["warning"].get<std::string>().find("driver has lost"), std::string::npos);
  ASSERT_TRUE(devices_.resume("cuda:1"));
  sample();
  EXPECT_EQ(shown(0)["state"], "drained");
}

}  // namespace
}  // namespace gpunode::node
