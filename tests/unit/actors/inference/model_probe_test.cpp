// Whether a model that is served computes, as it tells and as a probe finds out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>

#include <algorithm>
#include <atomic>
#include <future>
#include <limits>

#include "actors/checkpoint/stored_model.hpp"
#include "actors/inference/detail/model_actor.hpp"
#include "actors/inference/served_model.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "tests/support/memory_file_system.hpp"

namespace gpunode::inference {
namespace {

using namespace std::chrono_literals;

// Moved on by the test while a model's thread looks at it.
class SharedClock final : public Clock {
 public:
  Time now() const override { return Time{} + Duration(now_.load()); }
  std::chrono::system_clock::time_point wall() const override { return {}; }
  void advance(Duration by) { now_ += by.count(); }

 private:
  std::atomic<Duration::rep> now_{0};
};

class Probed : public ::testing::Test {
 protected:
  Probed() {
    store([](std::span<float> weights) { weights[0] = 0.5F; });
    devices_.add("cuda:0", cpu::open_backend());
  }
  template <class Fill>
  void store(Fill fill) {
    checkpoint::StoredModel stored;
    stored.model = *model::make_model(
        "gpt", {{"layers", "1"}, {"heads", "1"}, {"channels", "4"}, {"context", "8"}});
    stored.weights.resize(stored.model->parameter_count());
    stored.model->initialise(3, stored.weights);
    fill(std::span<float>(stored.weights));
    EXPECT_TRUE(checkpoint::save_model(disk_, stored, "/file"));
  }
  compute::NodeDevice& device() { return *devices_.devices()[0]; }
  ServedModel::Options options() {
    return {.device = &device(), .files = &disk_, .clock = &clock_, .path = "/file"};
  }

  gpunode::testing::MemoryFileSystem disk_;
  SharedClock clock_;
  compute::DeviceRoster devices_{cpu::open_backend()};
};

TEST_F(Probed, tells_of_what_it_computes_and_fails_a_probe_where_it_cannot) {
  auto options = this->options();
  int computed = 0;
  options.computed = [&] { ++computed; };
  const auto model = ServedModel::load(options);
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_GE(computed, 1) << "the probe of the load";
  const int before = computed;
  EXPECT_TRUE((*model)->probe());
  EXPECT_EQ(computed, before + 1);
  bool told = false;
  (*model)->begin({.request = {.prompt = "a", .max_tokens = 6},
                   .deadline = Time::max(),
                   .client = {},
                   .done = [&](const auto&) { told = true; }});
  EXPECT_TRUE((*model)->probe());
  EXPECT_EQ((*model)->texts()->under_way(), 1u) << "a pass of it is the probe";
  while (!told) EXPECT_TRUE((*model)->pass());
  device().lose("fell off the bus");
  const int lost_at = computed;
  const auto failed = (*model)->probe();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::device_lost);
  EXPECT_EQ(computed, lost_at);
}

TEST_F(Probed, whose_scores_are_no_numbers_is_not_loaded) {
  store([](std::span<float> weights) {
    std::ranges::fill(weights, std::numeric_limits<float>::quiet_NaN());
  });
  const auto refused = ServedModel::load(options());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), ::testing::HasSubstr("no finite numbers"));
}

TEST_F(Probed, by_its_thread_when_somebody_wants_to_know_and_what_is_known_is_old) {
  telemetry::Registry metrics;
  auto pulses = std::make_shared<ModelPulses>(
      ModelPulses::Limits{.fresh = 1s, .answers_within = std::chrono::seconds(20)});
  caf::actor_system_config config;
  caf::actor_system system{config};
  caf::scoped_actor owner{system};
  const auto me = caf::actor_cast<caf::actor>(owner.ptr());
  const caf::actor model = spawn_model(system, {me, "m", &metrics, &clock_, pulses});
  owner->send(model,
              Load{options(), [this]() -> Result<compute::NodeDevice*> { return &device(); }});
  owner->receive([](const Loaded& loaded) { ASSERT_TRUE(loaded.facts); },
                 caf::after(20s) >> [] { FAIL() << "it is not loaded"; });
  EXPECT_TRUE(pulses->readiness(clock_)) << "it answered the probe of its load";
  clock_.advance(1h);
  EXPECT_TRUE(pulses->readiness(clock_)) << "and another one now";
  EXPECT_TRUE(pulses->known("m", clock_.now()));
  EXPECT_THAT(metrics.prometheus_text(),
              ::testing::HasSubstr("gpunode_generated_tokens_total{model=\"m\"} 0\n"))
      << "of which nobody's figures tell";
  device().lose("fell off the bus");
  EXPECT_TRUE(pulses->readiness(clock_)) << "it computed a moment ago";
  clock_.advance(1h);
  const auto lost = pulses->readiness(clock_);
  EXPECT_THAT(lost ? "" : lost.error().message(), ::testing::HasSubstr("fell off the bus"));
  std::promise<Result<SharedBytes>> told;
  owner->send(model, Infer{InferDescribe{.probe = true}, clock_.now(),
                           [&](Result<SharedBytes> bytes) { told.set_value(std::move(bytes)); }});
  auto future = told.get_future();
  ASSERT_EQ(future.wait_for(20s), std::future_status::ready);
  EXPECT_FALSE(future.get()) << "as who asks over the mesh is told";
  owner->send(model, Shutdown{});
  owner->wait_for(model);
  EXPECT_TRUE(pulses->readiness(clock_)) << "there is none any more";
}

}  // namespace
}  // namespace gpunode::inference
