#include "runtime/dataset/split_dataset.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "runtime/dataset/table_dataset.hpp"

namespace gpunode::dataset {
namespace {

std::shared_ptr<const Dataset> table_of(const std::string& text) {
  auto source =
      std::make_shared<TextSource>(TextSource::from_memory({{"a.csv", to_bytes(as_bytes(text))}}));
  return *TableDataset::create(source, 0);
}

float first_of(const Bytes& sample) {
  float value = 0;
  std::memcpy(&value, sample.data(), sizeof value);
  return value;
}

TEST(SplitDataset, trains_on_one_set_and_holds_the_other_out) {
  const auto split = SplitDataset::create(table_of("1,2,0\n3,4,1\n"), table_of("5,6,1\n"));
  ASSERT_TRUE(split);
  const Dataset& data = **split;
  ASSERT_EQ(data.sample_count(), 2u);
  ASSERT_EQ(data.held_out_count(), 1u);
  Bytes sample(data.sample_bytes());
  data.read_sample(1, sample);
  EXPECT_EQ(first_of(sample), 3.0f);
  data.read_held_out(0, sample);
  EXPECT_EQ(first_of(sample), 5.0f);
}

TEST(SplitDataset, a_byte_of_either_set_changes_the_digest) {
  const auto digest = [](const char* training, const char* validation) {
    return (*SplitDataset::create(table_of(training), table_of(validation)))->data_digest();
  };
  EXPECT_EQ(digest("1,2,0\n", "5,6,1\n"), digest("1,2,0\n", "5,6,1\n"));
  EXPECT_NE(digest("1,2,0\n", "5,6,1\n"), digest("1,2,0\n", "5,7,1\n"));
  EXPECT_NE(digest("1,2,0\n", "5,6,1\n"), digest("1,3,0\n", "5,6,1\n"));
  EXPECT_NE(digest("1,2,0\n", "5,6,1\n"), digest("5,6,1\n", "1,2,0\n"));
  EXPECT_EQ((*SplitDataset::create(table_of("1,2,0\n"), table_of("5,6,1\n")))->size_bytes(), 12u);
}

TEST(SplitDataset, samples_of_other_fields_are_refused) {
  const auto split = SplitDataset::create(table_of("1,2,0\n"), table_of("5,6,7,1\n"));
  ASSERT_FALSE(split);
  EXPECT_EQ(split.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(split.error().detail.find("features f32[3]"), std::string::npos)
      << split.error().detail;
}

}  // namespace
}  // namespace gpunode::dataset
