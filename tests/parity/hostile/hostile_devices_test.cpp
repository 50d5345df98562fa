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

// Drains a device within its work.
struct Drain {
  static inline std::atomic<int> products_left = 0;
  static inline NodeDevice* device = nullptr;
  static Result<void> matmul(tensor::Stream& stream, tensor::Workspace& workspace,
                             const ops::MatmulArgs& args) {
    static const auto host = cpu::open_backend();
    if (--products_left == 0) device->drain();
    return host->operations().matmul(stream, workspace, args);
  }
};

class HostileDevices : public CourseTest {
 protected:
  explicit HostileDevices(const std::string& mode = "exact")
      : CourseTest(GetParam(), kSlices, mode) {}

  // So many devices, of which one is the CPU with every third seed.
  Devices open(std::size_t count, std::uint64_t seed) {
    Devices devices;
    for (std::size_t at = 0; at < count; ++at) {
      if (at == 1 && seed % 3 == 0) {
        devices.push_back(as_device(*host_));
        continue;
      }
      const auto pace =
          (seed + at) % 2 == 0 ? hostile::Pace::random : hostile::Pace::when_waited_for;
      devices.push_back(add({.seed = seed * 8 + at, .pace = pace}));
    }
    return devices;
  }

  NodeDevice* add(const hostile::Options& options) {
    auto device = hostile::open_backend(options);
    EXPECT_TRUE(device);
    opened_.push_back(std::move(*device));
    return as_device(*opened_.back());
  }

  // Closes them too: each takes a lot of addresses, of which there are not enough for hundreds.
  void expect_no_faults() {
    for (const auto& device : opened_) EXPECT_EQ(device->report().first_error, "");
    forget_devices();
    opened_.clear();
  }

  // What one undisturbed CPU does.
  const Course& wanted() {
    if (!wanted_) wanted_ = run({as_device(*host_)}, 1, false);
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
    expect_no_faults();
  }
}

TEST_P(HostileDevices, go_on_without_one_that_is_drained_in_mid_step) {
  nodes = {{1, 0}};  // told early, while other slices are missing
  for (std::uint32_t slice = 2; slice < kSlices; ++slice) nodes.push_back({0, slice});
  const Course undisturbed = run({as_device(*host_)}, 1, false);
  for (std::uint64_t seed = 1; seed <= seed_count(6); ++seed) {
    const std::size_t count = 2 + seed % 2;
    const Devices devices = open(count, seed);
    std::atomic<bool> drained = false;
    on_told = [&](Trainer& trainer, const SumRange&) {
      if (trainer.step() != 1 || drained.exchange(true)) return;
      devices[seed % count]->drain();
      // The node says that it is the last; a job that needs it uses it on.
      if (seed > 4) devices[(seed + 1) % count]->drain();
    };
    EXPECT_EQ(run(devices, 1, seed % 2 == 1), undisturbed) << "seed " << seed;
    EXPECT_TRUE(drained);
    for (const NodeDevice* device : devices) EXPECT_EQ(device->status().users.size(), 0u);
    expect_no_faults();
  }
}

TEST_P(HostileDevices, end_the_trainer_by_name_when_one_is_lost) {
  // Most of a ResNet's products are convolutions.
  const int many = GetParam() == std::string("resnet") ? 5 : 40;
  for (const int products : {0, 3, many}) {
    products_left = products;
    hostile::Options breaks{.seed = 5};
    breaks.arithmetic = host_->operations();
    breaks.arithmetic->matmul = lost_matmul;
    const Devices devices = {add({.seed = 4}), add(breaks)};
    std::string told;
    devices[1]->on_lost([&](const NodeDevice& lost, const std::string& reason, const auto& users) {
      EXPECT_EQ(&lost, devices[1]);
      EXPECT_EQ(users.size(), 1u);
      told = reason;
    });
    auto made = trainer(devices, 1);
    ASSERT_TRUE(made);
    made->want(1, nodes);
    Result<void> done;
    while (done && !made->idle()) done = made->compute_some([](const SumRange&) {});
    ASSERT_FALSE(done) << products;
    EXPECT_EQ(done.error().code, ErrorCode::device_lost) << done.error().message();
    EXPECT_NE(told.find("the device fell off"), std::string::npos) << told;
    EXPECT_EQ(devices[0]->condition(), DeviceCondition::ready);
    EXPECT_EQ(devices[1]->condition(), DeviceCondition::lost);
  }
  // Another member, which has none of it, computes the same step.
  EXPECT_EQ(run({as_device(*host_)}, 2, false), wanted());
}

// A round's inner steps go on without the device, whichever it is.
class HostileDevicesInRounds : public HostileDevices {
 protected:
  HostileDevicesInRounds() : HostileDevices("local") {}
};

TEST_P(HostileDevicesInRounds, share_the_slices_of_inner_steps_and_have_the_bits_of_one) {
  for (std::uint64_t seed = 1; seed <= seed_count(6); ++seed) {
    EXPECT_EQ(run(open(2 + seed % 2, seed), 1 + static_cast<int>(seed % 2), false), wanted())
        << "seed " << seed;
    // Each had a part in it.
    for (const auto& device : opened_) EXPECT_GT(device->report().operations, 100u);
    expect_no_faults();
  }
}

TEST_P(HostileDevicesInRounds, go_on_without_one_that_is_drained_within_an_inner_step) {
  for (std::uint64_t seed = 1; seed <= seed_count(4); ++seed) {
    hostile::Options drains{.seed = seed};
    drains.arithmetic = host_->operations();
    drains.arithmetic->matmul = Drain::matmul;
    const std::size_t which = seed % 2;
    Devices devices = {add(which == 0 ? drains : hostile::Options{.seed = 10 + seed}),
                       add(which == 1 ? drains : hostile::Options{.seed = 10 + seed})};
    Drain::device = devices[which];
    Drain::products_left = static_cast<int>(30 * (1 + (seed - 1) % 4));
    EXPECT_EQ(run(devices, 1, false), wanted()) << "seed " << seed;
    EXPECT_EQ(devices[which]->condition(), DeviceCondition::drained);
    EXPECT_EQ(devices[which]->status().users.size(), 0u);
    expect_no_faults();
  }
}

TEST_P(HostileDevicesInRounds, end_the_trainer_by_name_when_one_is_lost) {
  products_left = 20;
  hostile::Options breaks{.seed = 5};
  breaks.arithmetic = host_->operations();
  breaks.arithmetic->matmul = lost_matmul;
  const Devices devices = {add({.seed = 4}), add(breaks)};
  auto made = trainer(devices, 1);
  ASSERT_TRUE(made);
  made->want(1, nodes);
  Result<void> done;
  while (done && !made->idle()) done = made->compute_some([](const SumRange&) {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::device_lost) << done.error().message();
  EXPECT_EQ(devices[0]->condition(), DeviceCondition::ready);
  EXPECT_EQ(devices[1]->condition(), DeviceCondition::lost);
}

INSTANTIATE_TEST_SUITE_P(Models, HostileDevicesInRounds, ::testing::Values("gpt", "llama"),
                         [](const auto& given) { return given.param; });

TEST_P(HostileDevices, find_the_one_that_comes_to_another_state) {
  hostile::Options stuck{.seed = 3};
  stuck.arithmetic = host_->operations();
  stuck.arithmetic->adamw = stuck_adamw;
  for (const std::size_t count : {2u, 3u}) {
    Devices devices = {as_device(*host_), add(stuck)};
    if (count == 3) devices.push_back(add({.seed = 4}));
    auto made = trainer(devices, 1);
    ASSERT_TRUE(made);
    const auto total = std::make_shared<std::vector<float>>(made->element_count(), 0.25f);
    const auto report = made->apply(1, total);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, ErrorCode::device_lost);
    EXPECT_NE(report.error().detail.find("another state"), std::string::npos);
    EXPECT_EQ(devices[1]->condition(), DeviceCondition::lost);
    // Of two, either may be wrong; of three, most are right.
    EXPECT_EQ(devices[0]->condition(), count == 2 ? DeviceCondition::lost : DeviceCondition::ready);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, HostileDevices, ::testing::Values("gpt", "llama", "resnet"),
                         [](const auto& given) { return given.param; });

}  // namespace
}  // namespace gpunode::compute
