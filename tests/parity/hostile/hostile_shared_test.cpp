// Sums of a lone node stay on its device, and are for whoever reads them later what they would be on
// the host: read before the step is applied, after it, while a device goes, and when the trainer is no
// more.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "kernels/cpu/cpu_backend.hpp"
#include "runtime/base/block_digest.hpp"
#include "runtime/collective/exchange_message.hpp"
#include "tests/parity/hostile/course_test.hpp"
#include "tests/parity/hostile/hostile_backend.hpp"

namespace gpunode::compute {
namespace {

class HostileShared : public CourseTest {
 protected:
  HostileShared() : CourseTest("small-gpt", 4) {}

  // The sum of all slices of the trainer's next step.
  static SharedFloats total_of(Trainer& trainer, bool stays) {
    trainer.want(trainer.step() + 1, {trainer.tree().root()},
                 stays ? SumsGo::nowhere : SumsGo::to_members);
    std::mutex mutex;
    SharedFloats total;
    std::uint64_t told = 0;
    do {
      const auto done = trainer.compute_some([&](const SumRange& range) {
        std::lock_guard lock(mutex);
        total = range.sum;
        told += range.count;
      });
      EXPECT_TRUE(done) << done.error().message();
    } while (!trainer.idle());
    EXPECT_EQ(told, trainer.element_count());
    return total;
  }

  // The totals of the steps, on the host from the start.
  std::vector<std::vector<float>> wanted() {
    const auto host = cpu::open_backend();
    const auto one = trainer({as_device(*host)}, 1);
    std::vector<std::vector<float>> totals;
    while (one->step() < kSteps) {
      const SharedFloats total = total_of(*one, true);
      totals.push_back(*total);
      EXPECT_TRUE(one->apply(one->step() + 1, total));
    }
    last_state_ = *one->state_digest();
    return totals;
  }
  Digest last_state_;
};

TEST_F(HostileShared, is_the_hosts_whenever_it_is_read) {
  const auto totals = wanted();
  for (std::uint64_t seed = 1; seed <= seed_count(4); ++seed) {
    const auto device = std::move(*hostile::open_backend({.seed = seed}));
    auto one = trainer({as_device(*device)}, 2);
    std::vector<SharedFloats> kept;
    for (std::uint64_t step = 1; step <= kSteps; ++step) {
      kept.push_back(total_of(*one, true));
      if (seed % 2 == 0) {
        EXPECT_EQ(*kept.back(), totals[step - 1]);
      }
      ASSERT_TRUE(one->apply(step, kept.back()));
      if (step > 1) {
        EXPECT_EQ(*kept[step - 2], totals[step - 2]) << "read a step later";
      }
    }
    EXPECT_EQ(*one->state_digest(), last_state_);
    one.reset();
    EXPECT_TRUE(kept.back().bring());
    EXPECT_EQ(*kept.back(), totals.back()) << "read when the trainer is no more";
    EXPECT_EQ(device->report().first_error, "");
  }
}

TEST_F(HostileShared, has_the_digests_of_the_hosts_bytes_without_being_read) {
  const auto device = std::move(*hostile::open_backend());
  const auto one = trainer({as_device(*device)}, 1);
  const SharedFloats total = total_of(*one, true);
  const auto layout = collective::ChunkLayout::of(total.size());
  ASSERT_GT(layout.chunk_count(), 2u);
  std::vector<Digest> there;
  const std::uint64_t before = device->host_traffic().to_host;
  for (std::uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk)
    there.push_back(total.digest({layout.first(chunk), layout.size(chunk)}));
  there.push_back(total.digest({0, total.size()}));
  EXPECT_EQ(device->host_traffic().to_host, before);
  for (std::uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk)
    EXPECT_EQ(there[chunk],
              block_digest_of(total.part({layout.first(chunk), layout.size(chunk)}).view))
        << chunk;
  EXPECT_EQ(there.back(), block_digest_of(total.part({0, total.size()}).view));
}

TEST_F(HostileShared, of_several_devices_survives_the_one_that_is_drained) {
  const auto totals = wanted();
  for (std::uint64_t seed = 1; seed <= seed_count(4); ++seed) {
    const auto left = std::move(*hostile::open_backend({.seed = seed}));
    const auto right = std::move(*hostile::open_backend({.seed = seed + 100}));
    NodeDevice* gone = as_device(*left);
    const auto one = trainer({gone, as_device(*right)}, 1);
    std::vector<SharedFloats> kept;
    for (std::uint64_t step = 1; step <= kSteps; ++step) {
      kept.push_back(total_of(*one, true));
      if (step == 2) gone->drain();
      ASSERT_TRUE(one->apply(step, kept.back()));
    }
    EXPECT_EQ(*one->state_digest(), last_state_);
    for (std::size_t step = 0; step < kept.size(); ++step)
      EXPECT_EQ(*kept[step], totals[step]) << "of step " << step + 1;
    EXPECT_EQ(left->report().first_error, "");
    EXPECT_EQ(right->report().first_error, "");
  }
}

TEST_F(HostileShared, is_lost_with_its_device_and_says_so) {
  const auto device = std::move(*hostile::open_backend());
  NodeDevice* lost = as_device(*device);
  auto one = trainer({lost}, 1);
  const SharedFloats total = total_of(*one, true);
  lost->lose("a test");
  one.reset();
  EXPECT_FALSE(total.bring());
  for (std::size_t at = 0; at + model::kTailElements < total.size(); ++at)
    ASSERT_TRUE(std::isnan((*total)[at])) << at;
}

}  // namespace
}  // namespace gpunode::compute
