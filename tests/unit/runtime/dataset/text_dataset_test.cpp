#include "runtime/dataset/text_dataset.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "runtime/base/rng.hpp"

namespace gpunode::dataset {
namespace {

std::shared_ptr<const TextSource> source_of(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i);
  return std::make_shared<TextSource>(TextSource::from_memory({{"a", bytes}}));
}

// Bytes of which no few in a row come twice.
std::shared_ptr<const TextSource> numbered(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(mix(7, i));
  return std::make_shared<TextSource>(TextSource::from_memory({{"a", bytes}}));
}

Bytes sample(const TextDataset& data, std::uint64_t index) {
  Bytes window(data.sample_bytes());
  data.read_sample(index, window);
  return window;
}

TEST(TextDataset, every_alignment_of_a_small_text_is_a_sample_and_its_end_is_held_out) {
  auto made = TextDataset::create(source_of(100), {.context = 4, .validation_fraction = 0.1});
  ASSERT_TRUE(made.has_value());
  const TextDataset& data = **made;
  EXPECT_EQ(data.sample_count(), 86u);
  EXPECT_EQ(sample(data, 85).back(), std::byte{89});
  EXPECT_EQ(sample(data, 85).front(), std::byte{85});
  ASSERT_EQ(data.held_out_count(), 2u);
  Bytes window(5);
  data.read_held_out(1, window);
  EXPECT_EQ(window.front(), std::byte{94});
}

// The places of all windows, found by what they hold.
struct Split {
  std::vector<bool> trained, held;
  std::vector<int> targets;  // how often each byte is one of a held-out sample
};
Split split_of(const TextDataset& data, std::size_t size) {
  Bytes all(size);
  data.source().copy(0, all);
  std::map<Bytes, std::size_t> places;
  const std::size_t window = data.window_bytes();
  for (std::size_t at = 0; at + window <= size; ++at)
    places.emplace(Bytes(all.begin() + static_cast<std::ptrdiff_t>(at),
                         all.begin() + static_cast<std::ptrdiff_t>(at + window)),
                   at);
  Split split{std::vector<bool>(size), std::vector<bool>(size), std::vector<int>(size)};
  for (std::uint64_t i = 0; i < data.sample_count(); ++i) {
    const std::size_t at = places.at(sample(data, i));
    for (std::size_t byte = 0; byte < window; ++byte) split.trained[at + byte] = true;
  }
  for (std::uint64_t i = 0; i < data.held_out_count(); ++i) {
    Bytes bytes(window);
    data.read_held_out(i, bytes);
    const std::size_t at = places.at(bytes);
    for (std::size_t byte = 0; byte < window; ++byte) {
      split.held[at + byte] = true;
      if (byte > 0) ++split.targets[at + byte];
    }
  }
  return split;
}

TEST(TextDataset, held_out_blocks_are_drawn_over_the_text_and_no_window_crosses_a_border) {
  constexpr std::size_t kSize = 60 * 4096 + 77;
  for (const std::uint32_t stride : {1u, 3u, 64u}) {
    auto made = TextDataset::create(numbered(kSize),
                                    {.context = 30, .stride = stride, .validation_fraction = 0.2});
    ASSERT_TRUE(made.has_value());
    EXPECT_EQ((*made)->block_bytes(), 4096u);
    const Split split = split_of(**made, kSize);
    std::size_t held = 0;
    std::set<std::size_t> blocks;
    for (std::size_t at = 0; at < kSize; ++at) {
      ASSERT_FALSE(split.trained[at] && split.held[at]) << "byte " << at;
      ASSERT_LE(split.targets[at], 1) << "byte " << at;
      held += split.held[at];
      if (split.held[at]) blocks.insert(at / 4096);
    }
    EXPECT_EQ(blocks.size(), 12u) << "a fifth of 61 blocks";
    EXPECT_LT(*blocks.begin(), 30u) << "not the end alone";
    EXPECT_NEAR(static_cast<double>(held), 0.2 * kSize, 0.02 * kSize);
  }
}

TEST(TextDataset, the_split_is_the_same_for_every_job_on_the_data) {
  auto first = TextDataset::create(numbered(100'000), {.context = 10});
  auto again = TextDataset::create(numbered(100'000), {.context = 10});
  ASSERT_EQ((*first)->held_out_count(), (*again)->held_out_count());
  Bytes one(11), other(11);
  (*first)->read_held_out(0, one);
  (*again)->read_held_out(0, other);
  EXPECT_EQ(one, other);
}

TEST(TextDataset, a_block_has_room_for_sixteen_windows) {
  auto data = TextDataset::create(numbered(400'000), {.context = 1000});
  EXPECT_EQ((*data)->block_bytes(), 16384u);
}

TEST(TextDataset, nothing_held_out_is_possible) {
  for (const std::size_t size : {std::size_t{10}, std::size_t{50'000}}) {
    auto data = TextDataset::create(numbered(size), {.context = 4, .validation_fraction = 0});
    ASSERT_TRUE(data.has_value());
    EXPECT_EQ((*data)->sample_count(), size - 4);
    EXPECT_EQ((*data)->held_out_count(), 0u);
  }
}

TEST(TextDataset, too_little_text_and_bad_settings_are_refused) {
  auto code = [](std::size_t size, TextSettings settings) {
    auto data = TextDataset::create(source_of(size), settings);
    return data ? ErrorCode::internal : data.error().code;
  };
  auto refused = ErrorCode::invalid_argument;
  EXPECT_EQ(code(4, {.context = 4, .validation_fraction = 0}), refused);
  EXPECT_EQ(code(5, {.context = 4, .validation_fraction = 0}), ErrorCode::internal);
  EXPECT_EQ(code(100, {.context = 0}), refused);
  EXPECT_EQ(code(100, {.context = 0xffffffff}), refused);
  EXPECT_EQ(code(100, {.context = 4, .stride = 0}), refused);
  EXPECT_EQ(code(100, {.context = 4, .validation_fraction = 1.0}), refused);
  EXPECT_EQ(code(100, {.context = 4, .validation_fraction = -0.1}), refused);
  EXPECT_EQ(code(100, {.context = 4, .validation_fraction = std::stod("nan")}), refused);
}

}  // namespace
}  // namespace gpunode::dataset
