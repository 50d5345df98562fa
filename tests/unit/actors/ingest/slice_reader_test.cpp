#include "actors/ingest/slice_reader.hpp"

#include <gtest/gtest.h>

#include "runtime/dataset/scan_sum.hpp"
#include "runtime/dataset/text_dataset.hpp"

namespace gpunode::ingest {
namespace {

std::shared_ptr<const dataset::TextSource> text(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 37 >> 2);
  return std::make_shared<dataset::TextSource>(dataset::TextSource::from_memory({{"a", bytes}}));
}

TEST(SliceReader, sums_of_all_slices_equal_the_independent_scan) {
  auto source = text(1000);
  auto data = dataset::TextDataset::create(source, {.context = 16});
  ASSERT_TRUE(data.has_value());
  SliceReader reader(*data, {.seed = 5, .batch = 10, .slices = 4});
  Digest sum;
  for (std::uint64_t step = 0; step < 150; ++step)
    for (std::uint32_t slice = 0; slice < 4; ++slice)
      sum += reader.read({step, slice}).data_fingerprint;
  auto proof = dataset::scan_sum(*source, {.seed = 5, .batch = 10, .steps = 150, .context = 16});
  ASSERT_TRUE(proof.has_value());
  EXPECT_EQ(sum, proof->sum);
  EXPECT_TRUE(proof->each_once());
}

TEST(SliceReader, gives_the_windows_of_its_samples_row_by_row) {
  auto data = dataset::TextDataset::create(text(1000), {.context = 16, .stride = 3});
  SliceReader reader(*data, {.seed = 5, .batch = 10, .slices = 3});
  Slice slice = reader.read({7, 2});
  ASSERT_EQ(slice.samples.size(), 4u);
  Bytes window(17);
  for (std::size_t row = 0; row < slice.samples.size(); ++row) {
    (*data)->read_sample(slice.samples[row].sample, window);
    EXPECT_EQ(to_bytes(slice.sample(row)), window);
  }
}

TEST(SliceReader, a_slice_may_be_empty_where_there_are_more_slices_than_samples) {
  auto data = dataset::TextDataset::create(text(1000), {.context = 16});
  SliceReader reader(*data, {.seed = 5, .batch = 2, .slices = 4});
  EXPECT_TRUE(reader.read({0, 0}).samples.empty());
  EXPECT_EQ(reader.read({0, 0}).data_fingerprint, Digest{});
  EXPECT_EQ(reader.read({0, 1}).samples.size(), 1u);
}

}  // namespace
}  // namespace gpunode::ingest
