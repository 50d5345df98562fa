// Copies through page-locked memory: they are whole whatever their length, two pieces do for any of
// them, and a piece that is used again too early is found. And how little a step copies: the state
// stays on the device.
#include <gtest/gtest.h>

#include <mutex>

#include "kernels/ops/lane.hpp"
#include "runtime/base/rng.hpp"
#include "tests/parity/hostile/course_test.hpp"
#include "tests/parity/hostile/hostile_backend.hpp"

namespace gpunode::compute {
namespace {

constexpr std::size_t kPiece = hostile::kStagingPieceBytes;

Bytes random_bytes(std::size_t count, Rng& rng) {
  Bytes bytes(count);
  for (std::byte& one : bytes) one = static_cast<std::byte>(rng.below(256));
  return bytes;
}

TEST(HostileStaging, brings_copies_of_any_length_there_and_back) {
  for (std::uint64_t seed = 1; seed <= seed_count(6); ++seed) {
    const auto device = std::move(*hostile::open_backend(
        {.seed = seed,
         .pace = seed % 2 == 0 ? hostile::Pace::random : hostile::Pace::when_waited_for}));
    tensor::BufferPool pool(device->memory(), 1 << 24);
    auto lane = ops::Lane::open(*device, pool);
    ASSERT_TRUE(lane);
    Rng rng(seed);
    for (const std::size_t length :
         {std::size_t{1}, kPiece - 1, kPiece, kPiece + 1, 2 * kPiece, 7 * kPiece + 5}) {
      const Bytes sent = random_bytes(length, rng);
      auto there = pool.take(length);
      ASSERT_TRUE(there);
      Bytes source = sent, back(length);
      ASSERT_TRUE(lane->upload(source, there->data()));
      std::ranges::fill(source, std::byte{0});  // the caller's again
      ASSERT_TRUE(lane->download(there->data(), back));
      EXPECT_EQ(back, sent) << length << " bytes, seed " << seed;
    }
    EXPECT_EQ(device->report().first_error, "");
  }
}

TEST(HostileStaging, finds_a_piece_that_is_used_again_before_its_copy_has_run) {
  const auto device = std::move(*hostile::open_backend({.pace = hostile::Pace::when_waited_for}));
  auto memory = device->memory()->allocate(kPiece);
  auto piece = device->staging_memory()->allocate(kPiece);
  auto stream = device->open_stream();
  ASSERT_TRUE(memory && piece && stream);
  const MutableByteView bytes(static_cast<std::byte*>(*piece), kPiece);
  std::ranges::fill(bytes, std::byte{1});
  ASSERT_TRUE(device->upload(**stream, bytes, *memory));
  std::ranges::fill(bytes, std::byte{2});
  EXPECT_FALSE((*stream)->synchronise());
  EXPECT_NE(device->report().first_error.find("changed before the copy had run"),
            std::string::npos);
  device->memory()->release(*memory, kPiece);
}

TEST(HostileStaging, holds_two_pieces_however_much_is_copied) {
  const auto device = std::move(*hostile::open_backend());
  tensor::BufferPool pool(device->memory(), 1 << 24);
  auto lane = ops::Lane::open(*device, pool);
  auto there = pool.take(64 * kPiece);
  ASSERT_TRUE(lane && there);
  Bytes bytes(64 * kPiece);
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(lane->upload(bytes, there->data()));
    ASSERT_TRUE(lane->download(there->data(), bytes));
  }
  EXPECT_EQ(device->staging_bytes(), 2 * kPiece);
}

// One node, whose total is its own sum. Weights and moments stay where they are, and so does the
// gradient; to the host come each token's loss, and digests.
TEST(HostileStaging, is_little_needed_by_a_step_of_one_node) {
  TrainingCourse course("small-gpt", 4);
  const auto device = std::move(*hostile::open_backend());
  NodeDevice of_the_node("device", *device);
  auto trainer = course.open_trainer({&of_the_node}, 2);
  ASSERT_TRUE(trainer) << trainer.error().message();
  const std::uint64_t gradient_bytes = (*trainer)->element_count() * sizeof(float);
  ASSERT_GT(gradient_bytes, 128u << 10) << "the state could travel and nobody would see it";
  for (std::uint64_t step = 1; step <= TrainingCourse::kSteps; ++step) {
    (*trainer)->want(step, course.nodes, SumsGo::nowhere);
    std::mutex mutex;
    collective::SharedFloats total;
    do {
      auto done = (*trainer)->compute_some([&](const SumRange& range) {
        std::lock_guard lock(mutex);
        total = range.sum;
      });
      ASSERT_TRUE(done) << done.error().message();
    } while (!(*trainer)->idle());
    const auto report = (*trainer)->apply(step, total);
    ASSERT_TRUE(report) << report.error().message();
    if (step == 1) continue;  // the initial weights came with it
    const std::uint64_t tails = model::kTailElements * sizeof(float);
    const std::uint64_t samples = course.spec.train.batch * 2 * 8 * sizeof(std::int32_t);
    EXPECT_LE(report->host_traffic.to_device, samples + tails);
    EXPECT_GE(report->host_traffic.to_device, samples / 2);
    EXPECT_LE(report->host_traffic.to_host, 8u << 10);
    EXPECT_GT(report->host_traffic.to_host, 0u);
  }
  EXPECT_EQ(device->report().first_error, "");
}

}  // namespace
}  // namespace gpunode::compute
