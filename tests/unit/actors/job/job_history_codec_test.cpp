#include "actors/job/job_history_codec.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/damaged_bytes.hpp"
#include "tests/support/ids.hpp"

namespace gpunode::jobs {
namespace {

constexpr std::uint64_t kAll = ~std::uint64_t{0};

JobHistory some_history(std::uint64_t steps) {
  JobHistory history;
  for (std::uint64_t step = 1; step <= steps; ++step) {
    history.add({.time = Time(std::chrono::milliseconds(step * 7)),
                 .step = step,
                 .view_id = 3,
                 .state = {step, 2},
                 .running = {{5, step}, step * 8},
                 .loss = step == 2 ? std::nan("") : 0.5,
                 .computed = std::make_shared<const SliceCounts>(
                     SliceCounts{{node(1), 3}, {node(step % 2 ? 2 : 4), 1}})});
  }
  if (steps > 3) history.count_skipped(3);
  history.add_event({Time(std::chrono::milliseconds(5)), "view 3", {}});
  history.add_event({Time(std::chrono::milliseconds(6)), "far away", node(9)});
  return history;
}

WallTimes times_of(const Clock& clock) {
  WallTimes times;
  times.look(clock);
  return times;
}

TEST(JobHistoryCodec, carries_all_with_the_same_times_of_day_to_another_clock) {
  FakeClock here, there;
  there.advance(std::chrono::hours(3));
  const WallTimes times = times_of(here), theirs = times_of(there);
  const JobHistory history = some_history(5000);
  const auto back = decode_history(encode_history(history, kAll, times, node(7)), theirs, node(8));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->slices(), history.slices());
  EXPECT_EQ(back->first(), 1u);
  EXPECT_EQ(back->skipped(), 1u);
  ASSERT_EQ(back->commits().size(), history.commits().size());
  EXPECT_EQ(theirs.microseconds(back->commits()[7].time),
            times.microseconds(history.commits()[7].time));
  EXPECT_EQ(back->newest().running.sample_count, 40000u);
  EXPECT_EQ(back->newest().state, (Digest{5000, 2}));
  ASSERT_EQ(back->events().size(), 2u);
  EXPECT_EQ(back->events()[0].by, node(7)) << "who told it, not this node";
  EXPECT_EQ(back->events()[1].by, node(9));
  const auto own = decode_history(encode_history(history, kAll, times, node(7)), times, node(7));
  EXPECT_EQ(own->events()[0].by, NodeId{});
  EXPECT_EQ(own->events()[0].time, history.events()[0].time);
}

TEST(JobHistoryCodec, is_the_same_after_any_number_of_restarts) {
  FakeClock clock;
  const WallTimes times = times_of(clock);
  JobHistory history = some_history(10);
  ASSERT_EQ(history.skipped(), 1u);
  for (int round = 0; round < 3; ++round) {
    auto back = decode_history(encode_history(history, kAll, times, node(7)), times, node(7));
    ASSERT_TRUE(back) << round << ": " << back.error().message();
    EXPECT_EQ(back->skipped(), 1u);
    EXPECT_EQ(back->slices(), history.slices());
    history = std::move(*back);
  }
  history.undo_to(2);
  EXPECT_EQ(history.skipped(), 0u);
}

TEST(JobHistoryCodec, leaves_out_what_is_not_reported_yet) {
  FakeClock clock;
  const WallTimes times = times_of(clock);
  const auto back = decode_history(encode_history(some_history(10), 8, times, {}), times, {});
  ASSERT_TRUE(back);
  EXPECT_EQ(back->newest().step, 8u);
  EXPECT_EQ(back->slices().at(node(1)), 24u);
}

TEST(JobHistoryCodec, survives_damage_and_what_it_reads_can_be_undone) {
  FakeClock clock;
  const WallTimes times = times_of(clock);
  const Bytes whole = encode_history(some_history(12), kAll, times, node(7));
  expect_robust(whole, [&](const Bytes& bytes) {
    auto read = decode_history(bytes, times, node(8));
    if (!read) return false;
    JobHistory joiner;
    joiner.add({.step = 13, .computed = std::make_shared<const SliceCounts>()});
    joiner.take(*read);
    joiner.undo_to(5);
    read->undo_to(0);
    EXPECT_TRUE(read->slices().empty());
    return true;
  });
}

}  // namespace
}  // namespace gpunode::jobs
