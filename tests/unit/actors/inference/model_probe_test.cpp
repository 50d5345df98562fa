// Whether a model that is served computes, as it tells and as a probe finds out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "actors/checkpoint/stored_model.hpp"
#include "actors/inference/served_model.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "tests/support/memory_file_system.hpp"

namespace gpunode::inference {
namespace {

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
  FakeClock clock_;
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

}  // namespace
}  // namespace gpunode::inference
