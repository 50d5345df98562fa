#include "actors/checkpoint/newest_checkpoints.hpp"

#include <gtest/gtest.h>

#include "actors/checkpoint/checkpoint_shelf.hpp"
#include "kernels/model/registry.hpp"
#include "tests/support/memory_file_system.hpp"

namespace gpunode::checkpoint {
namespace {

class Newest : public ::testing::Test {
 protected:
  void write(const JobId& job, std::uint64_t step) {
    auto model = model::make_model(
        "gpt", {{"layers", "1"}, {"heads", "1"}, {"channels", "16"}, {"context", "8"}});
    ASSERT_TRUE(model.has_value()) << model.error().message();
    CheckpointOptions options;
    options.job = job;
    options.spec.name = "small";
    options.model = std::move(*model);
    options.files = &disk_;
    options.root = "/c";
    options.clock = &clock_;
    WriteCheckpoint order;
    order.step = step;
    order.history = {1, 0};
    order.state = SharedBytes::from(Bytes(3 * options.model->parameter_count() * sizeof(float)));
    ASSERT_TRUE(CheckpointShelf(std::move(options)).write(order).has_value());
  }
  bool shows(const JobId& job, const std::string& name, const std::string& value) {
    newest_.record(metrics_, clock_.wall());
    return metrics_.prometheus_text().find("gpunode_job_checkpoint_" + name +
                                           "{job=\"small\",job_id=\"" + job.text() + "\"} " +
                                           value + "\n") != std::string::npos;
  }

  gpunode::testing::MemoryFileSystem disk_;
  FakeClock clock_;
  telemetry::Registry metrics_;
  NewestCheckpoints newest_{disk_, "/c"};
};

TEST_F(Newest, each_job_shows_the_step_and_age_of_its_newest_also_where_two_have_one_name) {
  write({1, 1}, 10);
  clock_.advance(std::chrono::seconds(60));
  write({1, 1}, 20);
  write({2, 2}, 7);
  clock_.advance(std::chrono::seconds(5));
  EXPECT_TRUE(shows({1, 1}, "step", "20")) << metrics_.prometheus_text();
  EXPECT_TRUE(shows({1, 1}, "age_seconds", "5"));
  EXPECT_TRUE(shows({2, 2}, "step", "7"));
  clock_.advance(std::chrono::hours(1));
  EXPECT_TRUE(shows({2, 2}, "age_seconds", "3605")) << "it grows while nothing is written";
}

TEST_F(Newest, a_job_whose_checkpoints_are_gone_is_not_shown) {
  write({1, 1}, 10);
  EXPECT_TRUE(shows({1, 1}, "step", "10"));
  snapshot::CheckpointStore store(disk_, "/c");
  ASSERT_TRUE(store.remove({{1, 1}, {1, 0}, 10}).has_value());
  newest_.record(metrics_, clock_.wall());
  EXPECT_EQ(metrics_.prometheus_text().find("gpunode_job_checkpoint_step{"), std::string::npos);
  write({1, 1}, 20);
  EXPECT_TRUE(shows({1, 1}, "step", "20"));
}

}  // namespace
}  // namespace gpunode::checkpoint
