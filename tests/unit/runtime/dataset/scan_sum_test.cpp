#include "runtime/dataset/scan_sum.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include <memory>

#include "runtime/base/rng.hpp"
#include "runtime/dataset/sample_hash.hpp"
#include "runtime/dataset/sampler.hpp"
#include "runtime/dataset/table_dataset.hpp"
#include "runtime/dataset/text_dataset.hpp"

namespace gpunode::dataset {
namespace {

std::shared_ptr<const TextSource> text(std::uint64_t seed) {
  Rng rng(seed);
  std::vector<std::pair<std::string, Bytes>> files;
  for (int i = 0; i < 7; ++i) {
    Bytes bytes(rng.below(60));
    for (std::byte& b : bytes) b = static_cast<std::byte>(rng.next());
    files.emplace_back(std::to_string(i), std::move(bytes));
  }
  files.emplace_back("last", Bytes(40));
  return std::make_shared<TextSource>(TextSource::from_memory(std::move(files)));
}

struct DataFingerprint {
  Digest sum;
  std::uint64_t samples = 0;
};

// What a job adds up while it trains: slice by slice, by the fast path.
DataFingerprint data_fingerprint(const Dataset& data, const ScanSettings& settings,
                                 std::uint32_t slices) {
  Sampler sampler({settings.seed, data.sample_count(), settings.batch, slices});
  DataFingerprint result;
  Bytes window(data.sample_bytes());
  for (std::uint64_t step = 0; step < settings.steps; ++step)
    for (std::uint32_t slice = slices; slice-- > 0;)
      for (const SamplePlace& place : sampler.samples(step, slice)) {
        data.read_sample(place.sample, window);
        result.sum += sample_hash(place.sample, place.data_epoch, window);
        ++result.samples;
      }
  return result;
}

TEST(ScanSum, equals_the_running_sum_of_any_job) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    auto source = text(seed);
    Rng rng(seed + 1000);
    ScanSettings settings{.seed = rng.next(),
                          .batch = static_cast<std::uint32_t>(1 + rng.below(20)),
                          .steps = rng.below(60),
                          .context = static_cast<std::uint32_t>(1 + rng.below(12)),
                          .stride = static_cast<std::uint32_t>(1 + rng.below(9)),
                          .validation_fraction = rng.uniform() * 0.5};
    auto data = TextDataset::create(
        source, {settings.context, settings.stride, settings.validation_fraction});
    ASSERT_TRUE(data.has_value());
    Result<Proof> proof = scan_sum(*source, settings);
    ASSERT_TRUE(proof.has_value());
    DataFingerprint running =
        data_fingerprint(**data, settings, static_cast<std::uint32_t>(1 + rng.below(7)));
    EXPECT_EQ(proof->sum, running.sum);
    EXPECT_EQ(proof->samples, running.samples);
    EXPECT_EQ(proof->sample_count, (*data)->sample_count());
    EXPECT_TRUE(proof->each_once());
  }
}

TEST(ScanSum, equals_the_running_sum_where_blocks_are_held_out) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Rng rng(seed);
    Bytes bytes(30'000 + rng.below(90'000));
    for (std::byte& b : bytes) b = static_cast<std::byte>(rng.next());
    const auto middle = bytes.begin() + static_cast<std::ptrdiff_t>(rng.below(bytes.size()));
    auto source = std::make_shared<TextSource>(TextSource::from_memory(
        {{"a", Bytes(bytes.begin(), middle)}, {"b", Bytes(middle, bytes.end())}}));
    ScanSettings settings{.seed = seed,
                          .batch = 50,
                          .steps = 40,
                          .context = static_cast<std::uint32_t>(1 + rng.below(700)),
                          .stride = static_cast<std::uint32_t>(1 + rng.below(90)),
                          .validation_fraction = rng.uniform() * 0.5};
    auto data = TextDataset::create(
        source, {settings.context, settings.stride, settings.validation_fraction});
    ASSERT_TRUE(data.has_value());
    const Result<Proof> proof = scan_sum(*source, settings);
    ASSERT_TRUE(proof.has_value());
    EXPECT_EQ(proof->sum, data_fingerprint(**data, settings, 3).sum) << seed;
    EXPECT_EQ(proof->sample_count, (*data)->sample_count());
  }
}

TEST(ScanSum, equals_the_running_sum_of_a_table) {
  std::string text = "a b c\n";
  for (int i = 0; i < 300; ++i)
    text += std::to_string(i * 0.37) + (i % 2 == 0 ? " " : "   ") + std::to_string(-i) + " " +
            std::to_string(i % 5) + "\n";
  auto source =
      std::make_shared<TextSource>(TextSource::from_memory({{"a", to_bytes(as_bytes(text))}}));
  auto data = TableDataset::create(source, 0.1);
  ASSERT_TRUE(data.has_value()) << data.error().detail;
  const ScanSettings settings{
      .seed = 3, .batch = 7, .steps = 90, .table = true, .validation_fraction = 0.1};
  const Result<Proof> proof = scan_sum(*source, settings);
  ASSERT_TRUE(proof.has_value());
  EXPECT_EQ(proof->sum, data_fingerprint(**data, settings, 2).sum);
  EXPECT_EQ(proof->sample_count, 270u);
  EXPECT_TRUE(proof->each_once());
}

TEST(ScanSum, takes_the_same_first_lines_for_headers_as_the_table_does) {
  for (const char* first : {"a,b,c", "+1,2,0", "0x10,2,0", ",2,0", " ,2,0", "1e2,2,0", "nan,2,0"}) {
    const std::string text = std::string(first) + "\n3,4,1\n5,6,0\n7,8,1\n";
    auto source =
        std::make_shared<TextSource>(TextSource::from_memory({{"a", to_bytes(as_bytes(text))}}));
    auto data = TableDataset::create(source, 0);
    if (!data) continue;  // no finite number, and no header
    const ScanSettings settings{
        .seed = 3, .batch = 2, .steps = 4, .table = true, .validation_fraction = 0};
    const Result<Proof> proof = scan_sum(*source, settings);
    ASSERT_TRUE(proof.has_value()) << first;
    EXPECT_EQ(proof->sum, data_fingerprint(**data, settings, 2).sum) << first;
  }
}

TEST(ScanSum, equals_the_running_sum_of_tokens) {
  for (const std::uint32_t width : {2u, 4u}) {
    std::vector<std::pair<std::string, Bytes>> files;
    for (std::uint32_t file = 0; file < 3; ++file) {
      Bytes bytes(9000 * width);
      for (std::uint32_t at = 0; at < 9000; ++at) {
        const std::uint32_t token = (at * 7 + file) % 60000;
        std::memcpy(bytes.data() + at * width, &token, width);
      }
      files.emplace_back(std::to_string(file), std::move(bytes));
    }
    auto source = std::make_shared<TextSource>(TextSource::from_memory(std::move(files)));
    auto data = TextDataset::create(
        source,
        {.context = 8, .validation_fraction = 0.2, .token_bytes = width, .vocabulary = 60000});
    ASSERT_TRUE(data.has_value()) << data.error().detail;
    const ScanSettings settings{.seed = 3,
                                .batch = 7,
                                .steps = 900,
                                .token_bytes = width,
                                .context = 8,
                                .validation_fraction = 0.2};
    const Result<Proof> proof = scan_sum(*source, settings);
    ASSERT_TRUE(proof.has_value());
    EXPECT_EQ(proof->sum, data_fingerprint(**data, settings, 2).sum);
    EXPECT_EQ(proof->sample_count, (*data)->sample_count());
    EXPECT_TRUE(proof->each_once());
  }
}

TEST(ScanSum, sees_another_seed_step_count_or_byte) {
  auto source = text(1);
  ScanSettings settings{.seed = 1, .batch = 4, .steps = 10, .context = 8};
  Digest sum = scan_sum(*source, settings)->sum;
  ScanSettings other = settings;
  other.seed = 2;
  EXPECT_NE(scan_sum(*source, other)->sum, sum);
  other = settings;
  other.steps = 11;
  EXPECT_NE(scan_sum(*source, other)->sum, sum);
  // The last training byte is used by a whole epoch at the latest.
  other = settings;
  other.steps = 1000;
  std::vector<std::pair<std::string, Bytes>> files;
  for (const TextSource::File& file : source->files())
    files.emplace_back(file.name, to_bytes(file.bytes.view));
  files[0].second.at(0) ^= std::byte{1};
  EXPECT_NE(scan_sum(TextSource::from_memory(files), other)->sum, scan_sum(*source, other)->sum);
}

TEST(ScanSum, sees_a_sample_that_was_fed_twice_instead_of_another) {
  auto source = text(2);
  ScanSettings settings{.seed = 1, .batch = 4, .steps = 5, .context = 8};
  auto data = TextDataset::create(source, {.context = 8});
  DataFingerprint running = data_fingerprint(**data, settings, 2);
  Sampler sampler({1, (*data)->sample_count(), 4, 1});
  std::vector<SamplePlace> places = sampler.samples(0, 0);
  Bytes window(9);
  (*data)->read_sample(places[0].sample, window);
  Digest twice = sample_hash(places[0].sample, 0, window);
  (*data)->read_sample(places[1].sample, window);
  Digest left_out = sample_hash(places[1].sample, 0, window);
  ASSERT_NE(twice, left_out);
  Digest wrong = scan_sum(*source, settings)->sum;
  wrong += twice;
  EXPECT_EQ(running.sum, scan_sum(*source, settings)->sum);
  Digest running_wrong = running.sum;
  running_wrong += left_out;
  EXPECT_NE(wrong, running_wrong);
}

TEST(ScanSum, no_steps_is_the_empty_sum) {
  Result<Proof> proof = scan_sum(*text(1), {.batch = 4, .steps = 0, .context = 8});
  ASSERT_TRUE(proof.has_value());
  EXPECT_EQ(proof->sum, Digest{});
  EXPECT_EQ(proof->samples, 0u);
}

TEST(ScanSum, settings_that_no_job_can_have_are_refused) {
  auto source = text(1);
  EXPECT_FALSE(scan_sum(*source, {.batch = 0}).has_value());
  EXPECT_FALSE(scan_sum(*source, {.stride = 0}).has_value());
  EXPECT_FALSE(scan_sum(*source, {.context = 100'000}).has_value());
  EXPECT_FALSE(scan_sum(*source, {.batch = 1000, .steps = ~0ull}).has_value());
  EXPECT_FALSE(scan_sum(*source, {.validation_fraction = 2}).has_value());
}

}  // namespace
}  // namespace gpunode::dataset
