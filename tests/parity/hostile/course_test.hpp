// What tests of whole courses share: the course that each run must show, and how many seeds there are.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/parity/hostile/training_course.hpp"

namespace gpunode::compute {

// So many are tried, or as many as the environment says: 500 in parity_hostile_all.
inline std::uint64_t seed_count(std::uint64_t normal) {
  const char* text = std::getenv("GPUNODE_HOSTILE_SEEDS");
  return text ? std::strtoull(text, nullptr, 10) : normal;
}

// Of one kind of model. What fails, fails the test.
class CourseTest : public ::testing::TestWithParam<std::string>, protected TrainingCourse {
 protected:
  CourseTest(const std::string& kind, std::uint32_t slices, const std::string& mode = "exact")
      : TrainingCourse(kind, slices, mode) {}

  std::unique_ptr<Trainer> trainer(const Devices& devices, int workers) {
    auto made = open_trainer(devices, workers);
    EXPECT_TRUE(made) << made.error().message();
    return made ? std::move(*made) : nullptr;
  }
  Course run(const Devices& devices, int workers, bool speculates) {
    auto course = take(devices, {workers, speculates});
    EXPECT_TRUE(course) << course.error().message();
    return course ? *std::move(course) : Course{};
  }
  Course run(ops::Backend& backend, int workers, bool speculates) {
    NodeDevice device("device", backend);
    return run(Devices{&device}, workers, speculates);
  }
  // Anew each time: a drained one stays so.
  NodeDevice* as_device(ops::Backend& backend) {
    const std::string id = "device:" + std::to_string(devices_.size());
    return devices_.emplace_back(std::make_unique<NodeDevice>(id, backend)).get();
  }
  void forget_devices() { devices_.clear(); }
  const model::Model& model() const { return *model_; }
  const dataset::Dataset& data() const { return *data_; }

 private:
  std::vector<std::unique_ptr<NodeDevice>> devices_;
};

}  // namespace gpunode::compute
