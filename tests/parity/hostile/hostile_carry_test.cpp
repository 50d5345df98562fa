// Steps whose sums go from device to device: on hostile devices, of one or two a member and beside a
// CPU, the total has the bits of the exchange by messages; a group that breaks anywhere leaves sums
// that can still be told; and no more is moved than messages would.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "kernels/cpu/cpu_backend.hpp"
#include "tests/parity/hostile/course_test.hpp"
#include "tests/parity/hostile/exchange_course.hpp"
#include "tests/parity/hostile/hostile_backend.hpp"
#include "tests/support/hub_group.hpp"

namespace gpunode::compute {
namespace {

constexpr std::uint16_t kMembers = 3;

class HostileCarry : public CourseTest {
 protected:
  HostileCarry() : CourseTest("small-gpt", 5) {}

  // One member for each list of devices.
  void open(const std::vector<Devices>& members, int workers) {
    trainers_.clear();
    groups_.clear();
    hub_ = std::make_unique<GroupHub>();
    for (std::uint16_t rank = 0; rank < members.size(); ++rank) {
      trainers_.push_back(trainer(members[rank], workers));
      groups_.push_back(std::make_unique<HubGroup>(*hub_, members[rank].front()->backend(), rank));
    }
  }
  job::Carry carry_of(std::uint16_t rank, std::uint32_t rotation) const {
    const collective::Tree& tree = trainers_.front()->tree();
    return {rank, kMembers, rotation, collective::balanced_plan(tree, kMembers),
            std::chrono::seconds(20)};
  }
  // The members' own sums are computed, and stay.
  void compute(std::uint16_t rank, std::uint32_t rotation) {
    Trainer& one = *trainers_[rank];
    const auto cover = one.tree().cover(carry_of(rank, rotation).plan.slices_of(rank));
    one.want(one.step() + 1, cover, SumsGo::by_devices);
    do {
      const auto done = one.compute_some([](const SumRange&) { ADD_FAILURE() << "told"; });
      ASSERT_TRUE(done) << done.error().message();
    } while (!one.idle());
  }
  // Each member's total of a step, or why it has none.
  std::vector<Result<job::Carried>> carry(std::uint32_t rotation) {
    std::vector<Result<job::Carried>> totals(kMembers, job::Carried{});
    std::vector<std::thread> threads;
    for (std::uint16_t rank = 0; rank < kMembers; ++rank)
      threads.emplace_back([this, rank, rotation, &totals] {
        totals[rank] = trainers_[rank]->carry(*groups_[rank], carry_of(rank, rotation));
      });
    for (std::thread& thread : threads) thread.join();
    return totals;
  }
  std::vector<std::unique_ptr<hostile::HostileBackend>> hostile_devices(std::uint64_t seed) {
    std::vector<std::unique_ptr<hostile::HostileBackend>> opened;
    for (std::uint64_t at = 0; at < 3; ++at)
      opened.push_back(std::move(*hostile::open_backend(
          {.seed = 3 * seed + at,
           .pace = seed % 2 == 0 ? hostile::Pace::when_waited_for : hostile::Pace::random})));
    return opened;
  }

  const std::unique_ptr<ops::Backend> host_ = cpu::open_backend();
  std::unique_ptr<GroupHub> hub_;
  std::vector<std::unique_ptr<Trainer>> trainers_;
  std::vector<std::unique_ptr<HubGroup>> groups_;
};

TEST_F(HostileCarry, has_the_bits_of_the_exchange_by_messages) {
  const Member plain{{as_device(*host_)}, {}};
  const auto wanted = exchange(*this, {plain, plain, plain});
  ASSERT_TRUE(wanted) << wanted.error().message();
  for (std::uint64_t seed = 1; seed <= seed_count(4); ++seed) {
    const auto opened = hostile_devices(seed);
    open({{as_device(*opened[0])},
          {as_device(*opened[1]), as_device(*opened[2])},
          {as_device(*host_)}},
         1 + static_cast<int>(seed % 2));
    for (std::uint64_t step = 1; step <= kSteps; ++step) {
      const auto rotation = static_cast<std::uint32_t>(seed % kMembers);
      for (std::uint16_t rank = 0; rank < kMembers; ++rank) compute(rank, rotation);
      const auto totals = carry(rotation);
      for (std::uint16_t rank = 0; rank < kMembers; ++rank) {
        ASSERT_TRUE(totals[rank]) << totals[rank].error().message();
        EXPECT_EQ(totals[rank]->data_fingerprint, totals[0]->data_fingerprint);
        const auto report = trainers_[rank]->apply(step, totals[rank]->result);
        ASSERT_TRUE(report) << report.error().message();
        EXPECT_EQ(report->state, (*wanted)[step - 1]) << "seed " << seed << ", rank " << rank;
      }
    }
    for (const auto& device : opened) EXPECT_EQ(device->report().first_error, "") << seed;
  }
}

// Every look at it is a second later.
class RunningClock final : public Clock {
 public:
  Time now() const override { return Time{} + ++looks_ * Duration(std::chrono::seconds(1)); }
  std::chrono::system_clock::time_point wall() const override { return {}; }

 private:
  mutable std::atomic<int> looks_ = 0;
};

TEST_F(HostileCarry, both_moves_of_a_step_end_within_its_timeout) {
  const RunningClock running;
  clock = &running;
  open({{as_device(*host_)}, {as_device(*host_)}, {as_device(*host_)}}, 1);
  for (std::uint16_t rank = 0; rank < kMembers; ++rank) compute(rank, 0);
  (void)carry(0);
  for (const auto& group : groups_) {
    ASSERT_EQ(group->timeouts().size(), 2u);
    EXPECT_LT(group->timeouts()[0], std::chrono::seconds(20));
    EXPECT_LT(group->timeouts()[1], group->timeouts()[0]);
  }
}

TEST_F(HostileCarry, leaves_sums_to_be_told_wherever_it_breaks) {
  open({{as_device(*host_)}, {as_device(*host_)}, {as_device(*host_)}}, 1);
  for (std::uint16_t rank = 0; rank < kMembers; ++rank) compute(rank, 0);
  for (const auto& total : carry(0)) ASSERT_TRUE(total);
  const std::size_t spans = hub_->spans_moved();
  for (std::size_t broken_at = 0; broken_at < spans; broken_at += 1 + broken_at / 3) {
    const auto opened = hostile_devices(broken_at);
    open({{as_device(*opened[0])}, {as_device(*opened[1])}, {as_device(*opened[2])}}, 1);
    hub_->break_after(broken_at);
    for (std::uint16_t rank = 0; rank < kMembers; ++rank) compute(rank, 0);
    const auto totals = carry(0);
    bool any_broke = false;
    for (std::uint16_t rank = 0; rank < kMembers; ++rank) {
      any_broke = any_broke || !totals[rank];
      std::map<TreeNode, SharedFloats> told;
      const auto done =
          trainers_[rank]->tell_kept([&](const SumRange& range) { told[range.node] = range.sum; });
      ASSERT_TRUE(done) << done.error().message();
      const auto reference = trainer({as_device(*host_)}, 1);
      const auto cover = reference->tree().cover(carry_of(rank, 0).plan.slices_of(rank));
      reference->want(1, cover);
      std::mutex mutex;
      std::map<TreeNode, SharedFloats> right;
      do {
        ASSERT_TRUE(reference->compute_some([&](const SumRange& range) {
          std::lock_guard lock(mutex);
          right[range.node] = range.sum;
        }));
      } while (!reference->idle());
      ASSERT_EQ(told.size(), right.size());
      for (const auto& [node, sum] : right) EXPECT_EQ(*told.at(node), *sum);
    }
    EXPECT_TRUE(any_broke) << broken_at;
    for (const auto& device : opened) EXPECT_EQ(device->report().first_error, "") << broken_at;
  }
}

TEST_F(HostileCarry, moves_no_more_than_the_exchange_does) {
  const auto opened = hostile_devices(1);
  open({{as_device(*opened[0])}, {as_device(*opened[1])}, {as_device(*opened[2])}}, 1);
  for (std::uint64_t step = 1; step <= 2; ++step) {
    for (std::uint16_t rank = 0; rank < kMembers; ++rank) compute(rank, 0);
    const auto totals = carry(0);
    for (std::uint16_t rank = 0; rank < kMembers; ++rank) {
      ASSERT_TRUE(totals[rank]);
      const auto report = trainers_[rank]->apply(step, totals[rank]->result);
      ASSERT_TRUE(report);
      if (step == 1) continue;  // the initial weights came with it
      // The hub copies through the host what a real group would not: a member's partial sums and the
      // others', and results, each as long as the gradient at most.
      const std::uint64_t gradient = trainers_[rank]->element_count() * sizeof(float);
      EXPECT_LT(report->host_traffic.to_host, 3 * gradient);
      EXPECT_LT(report->host_traffic.to_device, 3 * gradient);
    }
  }
}

}  // namespace
}  // namespace gpunode::compute
