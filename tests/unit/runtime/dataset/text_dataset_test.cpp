#include "runtime/dataset/text_dataset.hpp"

#include <gtest/gtest.h>

#include <string>

namespace gpunode::dataset {
namespace {

std::shared_ptr<const TextSource> source_of(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i);
  return std::make_shared<TextSource>(TextSource::from_memory({{"a", bytes}}));
}

TEST(TextDataset, every_alignment_is_a_sample_with_stride_one) {
  auto data = TextDataset::create(source_of(100), {.context = 4, .validation_fraction = 0.1});
  ASSERT_TRUE(data.has_value());
  EXPECT_EQ(data->train_bytes(), 90u);
  EXPECT_EQ(data->sample_count(), 86u);
  Bytes window(5);
  data->read_sample(85, window);
  EXPECT_EQ(window.back(), std::byte{89});
  EXPECT_EQ(window.front(), std::byte{85});
}

TEST(TextDataset, samples_never_touch_what_is_held_out) {
  for (std::uint32_t stride : {1u, 2u, 3u, 4u, 7u, 100u}) {
    for (std::size_t size : {20u, 21u, 22u, 23u, 50u}) {
      auto data = TextDataset::create(source_of(size),
                                      {.context = 4, .stride = stride, .validation_fraction = 0.3});
      ASSERT_TRUE(data.has_value());
      std::uint64_t last_begin = (data->sample_count() - 1) * stride;
      EXPECT_LE(last_begin + 5, data->train_bytes());
      EXPECT_GT(last_begin + stride + 5, data->train_bytes());
    }
  }
}

TEST(TextDataset, held_out_windows_target_each_byte_but_the_first_exactly_once) {
  for (std::size_t size = 20; size < 60; ++size) {
    auto data = TextDataset::create(source_of(size), {.context = 4, .validation_fraction = 0.5});
    ASSERT_TRUE(data.has_value());
    std::uint64_t next = data->train_bytes() + 1, full = 0;
    for (std::uint64_t i = 0; i < data->held_out_windows(); ++i) {
      Bytes window = data->held_out_window(i);
      ASSERT_GE(window.size(), 2u);
      EXPECT_EQ(window.front(), static_cast<std::byte>(next - 1));
      for (std::size_t t = 1; t < window.size(); ++t)
        EXPECT_EQ(window[t], static_cast<std::byte>(next++));
      full += window.size() == 5;
    }
    EXPECT_EQ(next, size);
    EXPECT_EQ(full, data->full_held_out_windows());
  }
}

TEST(TextDataset, nothing_held_out_is_possible) {
  auto data = TextDataset::create(source_of(10), {.context = 4, .validation_fraction = 0});
  ASSERT_TRUE(data.has_value());
  EXPECT_EQ(data->sample_count(), 6u);
  EXPECT_EQ(data->held_out_windows(), 0u);
  EXPECT_EQ(data->full_held_out_windows(), 0u);
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
