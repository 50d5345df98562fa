#include "runtime/dataset/text_dataset.hpp"

#include <gtest/gtest.h>

#include <cstring>
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
  const std::size_t window = data.window_tokens();
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
    EXPECT_EQ((*made)->block_tokens(), 4096u);
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
  EXPECT_EQ((*data)->block_tokens(), 16384u);
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

// Two files of token ids 0, 10, 20, ...
std::shared_ptr<const TextSource> tokens_of(std::size_t width) {
  std::vector<std::pair<std::string, Bytes>> files;
  for (std::uint32_t file = 0, token = 0; file < 2; ++file) {
    Bytes bytes(20 * width);
    for (std::size_t at = 0; at < 20; ++at, token += 10)
      std::memcpy(bytes.data() + at * width, &token, width);
    files.emplace_back(file == 0 ? "a" : "b", std::move(bytes));
  }
  return std::make_shared<TextSource>(TextSource::from_memory(std::move(files)));
}

TEST(TextDataset, token_ids_become_samples_of_whole_numbers) {
  for (const std::uint32_t width : {2u, 4u}) {
    auto data = TextDataset::create(
        tokens_of(width),
        {.context = 4, .validation_fraction = 0.1, .token_bytes = width, .vocabulary = 391});
    ASSERT_TRUE(data.has_value()) << data.error().detail;
    EXPECT_EQ((*data)->fields(), (std::vector<SampleField>{{"tokens", SampleDtype::i32, 5}}));
    EXPECT_EQ((*data)->sample_count(), 32u);  // of 36 tokens
    for (const std::uint64_t index : {0u, 17u, 31u}) {
      const Bytes bytes = sample(**data, index);
      for (std::size_t at = 0; at < 5; ++at) {
        std::int32_t token = -1;
        std::memcpy(&token, bytes.data() + at * 4, 4);
        EXPECT_EQ(token, static_cast<std::int32_t>((index + at) * 10)) << width;
      }
    }
  }
}

TEST(TextDataset, says_where_a_token_is_none_of_the_vocabulary) {
  const auto refusal = [](std::size_t width, TextSettings settings) {
    auto data = TextDataset::create(tokens_of(width), settings);
    return data ? std::string() : data.error().detail;
  };
  EXPECT_EQ(refusal(2, {.context = 4, .token_bytes = 2, .vocabulary = 250}),
            "data: b holds token 250 at position 5, but the model's vocabulary is 250: raise it, "
            "or check data.token_bytes");
  EXPECT_NE(refusal(2, {.context = 4, .token_bytes = 4, .vocabulary = 391}).find("at position 0"),
            std::string::npos);
  EXPECT_NE(refusal(2, {.context = 4, .token_bytes = 3, .vocabulary = 391}), "");
  auto odd = std::make_shared<TextSource>(TextSource::from_memory({{"odd", Bytes(101)}}));
  auto data = TextDataset::create(odd, {.context = 4, .token_bytes = 2, .vocabulary = 9});
  ASSERT_FALSE(data.has_value());
  EXPECT_EQ(data.error().detail, "data: odd has 101 bytes and ends inside a token of 2");
}

}  // namespace
}  // namespace gpunode::dataset
