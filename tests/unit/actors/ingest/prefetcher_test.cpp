#include "actors/ingest/prefetcher.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <thread>

#include "runtime/dataset/text_dataset.hpp"

namespace {
std::atomic<bool> only_tester_has_memory{false};
std::atomic<int> refused{0};
thread_local bool is_tester = false;
}  // namespace

void* operator new(std::size_t size) {
  if (only_tester_has_memory && !is_tester) {
    ++refused;
    throw std::bad_alloc();
  }
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace gpunode::ingest {
namespace {

class PrefetcherTest : public ::testing::Test {
 protected:
  PrefetcherTest() : reader_(make_reader()) {}
  static SliceReader make_reader() {
    Bytes bytes(2000);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 13 >> 1);
    auto source = std::make_shared<dataset::TextSource>(
        dataset::TextSource::from_memory({{"a", std::move(bytes)}}));
    auto data = dataset::TextDataset::create(source, {.context = 16});
    return SliceReader(*data, {.seed = 1, .batch = 8, .slices = 4});
  }
  static std::vector<SliceKey> steps(std::uint64_t begin, std::uint64_t end) {
    std::vector<SliceKey> keys;
    for (std::uint64_t step = begin; step < end; ++step)
      for (std::uint32_t slice = 0; slice < 4; ++slice) keys.push_back({step, slice});
    return keys;
  }
  static void wait_ready(const Prefetcher& prefetcher, std::size_t count) {
    while (prefetcher.ready() < count) std::this_thread::yield();
  }
  void expect_right(const Slice& slice, SliceKey key) {
    Slice expected = reader_.read(key);
    EXPECT_EQ(slice.key, key);
    EXPECT_EQ(slice.bytes, expected.bytes);
    EXPECT_EQ(slice.data_fingerprint, expected.data_fingerprint);
  }
  SliceReader reader_;
  FakeClock clock_;
};

TEST_F(PrefetcherTest, hands_out_what_was_planned_in_any_order_of_asking) {
  Prefetcher prefetcher(reader_, clock_, 3);
  std::vector<SliceKey> keys = steps(0, 20);
  prefetcher.plan(keys);
  for (const SliceKey& key : keys) expect_right(prefetcher.take(key), key);
  prefetcher.plan(keys);
  for (auto key = keys.rbegin(); key != keys.rend(); ++key)
    expect_right(prefetcher.take(*key), *key);
  EXPECT_EQ(prefetcher.starvation().taken, 160u);
}

TEST_F(PrefetcherTest, never_holds_more_than_its_capacity) {
  Prefetcher prefetcher(reader_, clock_, 3);
  prefetcher.plan(steps(0, 20));
  wait_ready(prefetcher, 3);
  EXPECT_EQ(prefetcher.ready(), 3u);
  expect_right(prefetcher.take({0, 0}), {0, 0});
  wait_ready(prefetcher, 3);
  EXPECT_EQ(prefetcher.ready(), 3u);
}

TEST_F(PrefetcherTest, what_is_ready_is_no_starvation_and_what_is_not_is) {
  Prefetcher prefetcher(reader_, clock_, 2);
  prefetcher.plan(steps(0, 2));
  wait_ready(prefetcher, 2);
  (void)prefetcher.take({0, 0});
  EXPECT_EQ(prefetcher.starvation(), (Starvation{1, 0, Duration{}}));
  expect_right(prefetcher.take({9, 3}), {9, 3});  // never planned
  EXPECT_EQ(prefetcher.starvation().taken, 2u);
  EXPECT_EQ(prefetcher.starvation().waited, 1u);
}

// Time passes only by being looked at.
class TickingClock final : public Clock {
 public:
  Time now() const override { return Time(std::chrono::milliseconds(++ticks_)); }
  std::chrono::system_clock::time_point wall() const override { return {}; }

 private:
  mutable std::atomic<int> ticks_{0};
};

TEST_F(PrefetcherTest, counts_the_time_of_waiting_and_of_nothing_else) {
  TickingClock clock;
  Prefetcher prefetcher(reader_, clock, 2);
  (void)prefetcher.take({0, 0});
  (void)prefetcher.take({0, 1});
  EXPECT_EQ(prefetcher.starvation().waiting, std::chrono::milliseconds(2));
  prefetcher.plan({{0, 2}});
  wait_ready(prefetcher, 1);
  (void)prefetcher.take({0, 2});
  EXPECT_EQ(prefetcher.starvation().waiting, std::chrono::milliseconds(2));
}

TEST_F(PrefetcherTest, a_new_plan_keeps_what_is_still_wanted_and_drops_the_rest) {
  Prefetcher prefetcher(reader_, clock_, 4);
  prefetcher.plan({{0, 0}, {0, 1}, {0, 2}, {0, 3}});
  wait_ready(prefetcher, 4);
  prefetcher.plan({{0, 1}, {0, 3}});
  EXPECT_EQ(prefetcher.ready(), 2u);
  expect_right(prefetcher.take({0, 3}), {0, 3});
  expect_right(prefetcher.take({0, 1}), {0, 1});
  EXPECT_EQ(prefetcher.starvation().waited, 0u);
  expect_right(prefetcher.take({0, 0}), {0, 0});
  EXPECT_EQ(prefetcher.starvation().waited, 1u);
}

TEST_F(PrefetcherTest, plans_that_change_while_it_reads_never_give_a_wrong_slice) {
  Prefetcher prefetcher(reader_, clock_, 2);
  for (std::uint64_t round = 0; round < 200; ++round) {
    prefetcher.plan(steps(round, round + 3));
    SliceKey key{round + round % 3, static_cast<std::uint32_t>(round % 4)};
    expect_right(prefetcher.take(key), key);
  }
}

TEST_F(PrefetcherTest, a_slice_that_found_no_memory_ahead_is_read_by_who_takes_it) {
  is_tester = true;
  Prefetcher prefetcher(reader_, clock_, 4);
  only_tester_has_memory = true;
  prefetcher.plan({{0, 0}, {0, 1}});
  while (refused < 2) std::this_thread::yield();
  expect_right(prefetcher.take({0, 0}), {0, 0});
  only_tester_has_memory = false;
  prefetcher.plan({{0, 2}, {0, 3}});
  wait_ready(prefetcher, 2);
  expect_right(prefetcher.take({0, 2}), {0, 2});
}

TEST_F(PrefetcherTest, can_be_destroyed_at_any_moment) {
  for (int round = 0; round < 50; ++round) {
    Prefetcher prefetcher(reader_, clock_, 2);
    if (round % 2) prefetcher.plan(steps(0, 5));
  }
}

}  // namespace
}  // namespace gpunode::ingest
