// Device groups over NCCL on real GPUs: a group of one moves spans to itself, and where there are
// two GPUs, a group of two processes moves them both ways. Prints a line of what was seen, which
// tools/gpu_check.sh shows.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <random>
#include <thread>

#include "kernels/cuda/cuda_backend.hpp"
#include "runtime/carrier/carrier_process.hpp"

namespace gpunode::parity {
namespace {

using ops::MovedSpan;
constexpr std::chrono::milliseconds kTimeout = std::chrono::seconds(60);
constexpr std::size_t kLarge = std::size_t{256} << 20;  // bytes, of which a rate is told

struct Rank {
  std::unique_ptr<ops::Backend> backend;
  std::unique_ptr<tensor::Stream> stream;
  std::unique_ptr<ops::DeviceGroup> group;
  std::byte* region = nullptr;
};

// Beside this program, or where it was built.
void find_program() {
  if (!carrier::find_carrier() && access(GPUNODE_CARRIER_BUILT, X_OK) == 0)
    setenv("GPUNODE_CARRIER", GPUNODE_CARRIER_BUILT, 0);
  const auto found = carrier::find_carrier();
  ASSERT_TRUE(found) << found.error().message();
}

// Why there is none, or nothing.
std::string open(Rank& rank, int ordinal) {
  auto backend = cuda::open_backend(ordinal);
  if (!backend) return backend.error().message();
  rank.backend = std::move(*backend);
  auto stream = rank.backend->open_stream();
  if (!stream) return stream.error().message();
  rank.stream = std::move(*stream);
  auto group = rank.backend->open_group(false);
  if (!group) return group.error().message();
  rank.group = std::move(*group);
  return {};
}

void at_each(std::vector<Rank>& ranks, const std::function<void(Rank&, std::uint16_t)>& act) {
  std::vector<std::thread> threads;
  for (std::uint16_t rank = 0; rank < ranks.size(); ++rank)
    threads.emplace_back([&, rank] { act(ranks[rank], rank); });
  for (std::thread& thread : threads) thread.join();
}

// Odd sizes, two spans a pair of ranks; sent from the first half, received into the second.
struct Course {
  std::vector<MovedSpan> spans;  // as sends; as receives they lie half a region further on
  std::size_t half_bytes = 0;
};
Course course_of(std::size_t ranks) {
  Course course;
  for (std::uint16_t peer = 0; peer < ranks; ++peer)
    for (const std::size_t bytes : {std::size_t{1'000'003}, std::size_t{77}}) {
      course.spans.push_back({peer, course.half_bytes, bytes});
      course.half_bytes += (bytes + 15) / 16 * 16;
    }
  return course;
}

// What rank `from` has to send.
Bytes content(const Course& course, std::uint16_t from) {
  std::mt19937 random(from + 1u);
  Bytes bytes(course.half_bytes);
  for (std::byte& one : bytes) one = static_cast<std::byte>(random());
  return bytes;
}

void move_and_compare(Rank& rank, std::uint16_t mine, const Course& course) {
  const Bytes sent = content(course, mine);
  ASSERT_TRUE(rank.backend->upload(*rank.stream, sent, rank.region));
  ASSERT_TRUE(rank.backend->clear(*rank.stream, rank.region + sent.size(), sent.size()));
  ASSERT_TRUE(rank.stream->synchronise());
  std::vector<MovedSpan> receives = course.spans;
  for (MovedSpan& span : receives) span.offset += course.half_bytes;
  const auto done = rank.group->move(course.spans, receives, kTimeout);
  ASSERT_TRUE(done) << done.error().message();
  Bytes got(sent.size());
  ASSERT_TRUE(rank.backend->download(*rank.stream, rank.region + sent.size(), got));
  ASSERT_TRUE(rank.stream->synchronise());
  for (const MovedSpan& span : course.spans) {
    const Bytes theirs = content(course, span.peer);
    // The n-th of the peer's two spans for this rank.
    const std::size_t nth = static_cast<std::size_t>(&span - course.spans.data()) % 2;
    const MovedSpan& send = course.spans[2 * std::size_t{mine} + nth];
    ASSERT_EQ(send.bytes, span.bytes);
    EXPECT_TRUE(std::equal(theirs.begin() + static_cast<std::ptrdiff_t>(send.offset),
                           theirs.begin() + static_cast<std::ptrdiff_t>(send.offset + send.bytes),
                           got.begin() + static_cast<std::ptrdiff_t>(span.offset)))
        << "rank " << mine << ", from " << span.peer;
  }
}

void run_group(std::size_t count) {
  ASSERT_NO_FATAL_FAILURE(find_program());
  std::vector<Rank> ranks(count);
  for (std::size_t rank = 0; rank < count; ++rank)
    if (const std::string why = open(ranks[rank], static_cast<int>(rank)); !why.empty())
      GTEST_SKIP() << why;
  const auto invite = ranks[0].group->invite();
  ASSERT_TRUE(invite) << invite.error().message();
  at_each(ranks, [&](Rank& rank, std::uint16_t mine) {
    const auto done = rank.group->join(*invite, mine, static_cast<std::uint16_t>(count), kTimeout);
    EXPECT_TRUE(done) << done.error().message();
    auto region = rank.group->region(2 * kLarge);
    ASSERT_TRUE(region) << region.error().message();
    rank.region = *region;
  });
  ASSERT_FALSE(::testing::Test::HasFailure());
  const Course course = course_of(count);
  for (int time = 0; time < 3; ++time)
    at_each(ranks, [&](Rank& rank, std::uint16_t mine) { move_and_compare(rank, mine, course); });
  const auto begin = std::chrono::steady_clock::now();
  at_each(ranks, [&](Rank& rank, std::uint16_t mine) {
    const auto next = static_cast<std::uint16_t>((mine + 1) % count);
    const MovedSpan send{next, 0, kLarge}, receive{next, kLarge, kLarge};
    for (int time = 0; time < 10; ++time)
      EXPECT_TRUE(rank.group->move(std::span(&send, 1), std::span(&receive, 1), kTimeout));
  });
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  std::cout << "group of " << count << ": bytes equal, "
            << static_cast<int>(10 * kLarge / 1e9 / taken.count()) << " GB/s each way\n";
}

TEST(NcclGroup, one_gpu_moves_spans_to_itself) {
  run_group(1);
}

TEST(NcclGroup, two_gpus_move_spans_both_ways) {
  run_group(2);
}

}  // namespace
}  // namespace gpunode::parity
