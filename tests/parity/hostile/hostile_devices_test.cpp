// Nodes of two and three unequal devices: whoever computes which slice, whatever is drained in the
// middle of a step, the course is that of one CPU; a device that is lost, or computes something else,
// ends the trainer by name and leaves the others what they had.
#include <atomic>

#include "kernels/cpu/cpu_backend.hpp"
#include "tests/parity/hostile/course_test.hpp"
#include "tests/parity/hostile/hostile_backend.hpp"

namespace gpunode::compute {
namespace {

constexpr std::uint32_t kSlices = 13;

std::atomic<int> products_left = 0;  // of the device that gets lost

Result<void> lost_matmul(tensor::Stream& stream, tensor::Workspace& workspace,
                         const ops::MatmulArgs& args) {
  static const auto host = cpu::open_backend();
  if (products_left-- <= 0) return {ErrorCode::device_lost, "the device fell off the bus"};
  return host->operations().matmul(stream, workspace, args);
}

// A memory cell that keeps its lowest bit.
Result<void> stuck_adamw(tensor::Stream& stream, tensor::Workspace& workspace,
                         const ops::AdamwArgs& args) {
  static const auto host = cpu::open_backend();
  auto done = host->operations().adamw(stream, workspace, args);
  auto* bits = reinterpret_cast<std::uint32_t*>(args.weights.data);
  *bits ^= 1;
  return done;
}

class HostileDevices : public CourseTest {
 protected:
  HostileDevices() : CourseTest(GetParam(), kSlices) {}

  // So many devices, of which one is the CPU with every third seed.
  Devices open(std::size_t count, std::uint64_t seed) {
    Devices devices;
    for (std::size_t at = 0; at < count; ++at) {
      if (at == 1 && seed % 3 == 0) {
        devices.push_back(host_.get());
        continue;
      }
      const auto pace =
          (seed + at) % 2 == 0 ? hostile::Pace::random : hostile::Pace::when_waited_for;
      devices.push_back(add({.seed = seed * 8 + at, .pace = pace}));
    }
    return devices;
  }

  ops::Backend* add(const hostile::Options& options) {
    auto device = hostile::open_backend(options);
    EXPECT_TRUE(device);
    opened_.push_back(std::move(*device));
    return opened_.back().get();
  }

  void expect_no_faults() const {
    for (const auto& device : opened_) EXPECT_EQ(device->report().first_error, "");
  }

  // What one undisturbed CPU does.
  const Course& wanted() {
    if (!wanted_) wanted_ = run({host_.get()}, 1, false);
    return *wanted_;
  }

  const std::unique_ptr<ops::Backend> host_ = cpu::open_backend();
  std::vector<std::unique_ptr<hostile::HostileBackend>> opened_;
  std::optional<Course> wanted_;
};

TEST_P(HostileDevices, share_the_slices_and_have_the_bits_of_one) {
  for (std::uint64_t seed = 1; seed <= seed_count(9); ++seed) {
    const std::size_t count = 2 + seed % 2;
    EXPECT_EQ(run(open(count, seed), 1 + static_cast<int>(seed % 2), seed % 2 == 1), wanted())
        << "seed " << seed;
  }
  expect_no_faults();
}

TEST_P(HostileDevices, go_on_without_one_that_is_drained_in_mid_step) {
  nodes = {{1, 0}};  // told early, while other slices are missing
  for (std::uint32_t slice = 2; slice < kSlices; ++slice) nodes.push_back({0, slice});
  const Course undisturbed = run({host_.get()}, 1, false);
  for (std::uint64_t seed = 1; seed <= seed_count(6); ++seed) {
    const std::size_t count = 2 + seed % 2;
    std::atomic<bool> drained = false;
    on_told = [&](Trainer& trainer, const SumRange&) {
      if (trainer.step() != 1 || drained.exchange(true)) return;
      EXPECT_TRUE(trainer.drain(seed % count));
      EXPECT_EQ(trainer.devices().size(), count - 1);
      if (count == 2) {
        const auto last = trainer.drain(1 - seed % count);
        ASSERT_FALSE(last) << "nobody would be left";
        EXPECT_EQ(last.error().code, ErrorCode::wrong_state);
      }
    };
    EXPECT_EQ(run(open(count, seed), 1, seed % 2 == 1), undisturbed) << "seed " << seed;
    EXPECT_TRUE(drained);
  }
  expect_no_faults();
}

TEST_P(HostileDevices, end_the_trainer_by_name_when_one_is_lost) {
  // Most of a ResNet's products are convolutions.
  const int many = GetParam() == std::string("resnet") ? 5 : 40;
  for (const int products : {0, 3, many}) {
    products_left = products;
    hostile::Options breaks{.seed = 5};
    breaks.arithmetic = host_->operations();
    breaks.arithmetic->matmul = lost_matmul;
    auto made = trainer({add({.seed = 4}), add(breaks)}, 1);
    ASSERT_TRUE(made);
    made->want(1, nodes);
    Result<void> done;
    while (done && !made->idle()) done = made->compute_some([](const SumRange&) {});
    ASSERT_FALSE(done) << products;
    EXPECT_NE(done.error().detail.find("device_lost: the device fell off"), std::string::npos)
        << done.error().message();
  }
  // Another member, which has none of it, computes the same step.
  EXPECT_EQ(run({host_.get()}, 2, false), wanted());
}

TEST_P(HostileDevices, find_the_one_that_comes_to_another_state) {
  hostile::Options stuck{.seed = 3};
  stuck.arithmetic = host_->operations();
  stuck.arithmetic->adamw = stuck_adamw;
  auto made = trainer({host_.get(), add(stuck)}, 1);
  ASSERT_TRUE(made);
  const std::vector<float> total(made->element_count(), 0.25f);
  const auto report = made->apply(1, total);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::device_lost);
  EXPECT_NE(report.error().detail.find("another state"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Models, HostileDevices, testing::Values("gpt", "llama", "resnet"),
                         [](const auto& given) { return given.param; });

}  // namespace
}  // namespace gpunode::compute
