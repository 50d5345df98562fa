#include "runtime/dataset/table_dataset.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace gpunode::dataset {
namespace {

std::shared_ptr<const TextSource> source_of(const std::string& text) {
  return std::make_shared<TextSource>(
      TextSource::from_memory({{"a.csv", to_bytes(as_bytes(text))}}));
}

auto table(const std::string& text, double fraction = 0) {
  return TableDataset::create(source_of(text), fraction);
}

struct Row {
  float first, second;
  std::int32_t label;
};
Row row(const TableDataset& data, std::uint64_t index) {
  Row row{};
  data.read_sample(index, std::as_writable_bytes(std::span(&row, 1)));
  return row;
}

TEST(TableDataset, a_line_without_a_label_is_read_alike) {
  for (const char* line : {"1.5\t-2\r", "1.5,-2", "  1.5   -2 "})
    EXPECT_EQ(*features_of(line, 2), (std::vector<float>{1.5f, -2})) << line;
  EXPECT_EQ(features_of("1,2,3", 2).error().detail, "a row of 3 cells: the model reads 2 features");
  EXPECT_EQ(features_of("1,two", 2).error().detail, "'two' is no finite number");
  EXPECT_EQ(features_of("1,nan", 2).error().code, ErrorCode::invalid_argument);
}

TEST(TableDataset, a_line_is_a_sample_and_its_last_cell_the_label) {
  for (const char* text : {"1.5\t-2\t3\n4\t5\t0\n", "1.5,-2,3\r\n4, 5 ,0",
                           "  1.5  -2 3 \n\n4 5 0\n", "width,height,kind\n1.5,-2,3\n4,5,0\n"}) {
    auto data = table(text);
    ASSERT_TRUE(data.has_value()) << data.error().detail;
    EXPECT_EQ(to_text((*data)->fields()), "features f32[2], label i32[1]");
    ASSERT_EQ((*data)->sample_count(), 2u) << text;
    EXPECT_EQ(row(**data, 0).first, 1.5f);
    EXPECT_EQ(row(**data, 0).second, -2.0f);
    EXPECT_EQ(row(**data, 0).label, 3);
    EXPECT_EQ(row(**data, 1).label, 0);
  }
}

TEST(TableDataset, says_where_a_line_is_wrong) {
  const std::pair<const char*, const char*> kWrong[] = {
      {"1,2,3\n1,x,3\n", "a.csv, line 2: column 2: 'x' is no finite number"},
      {"1,2,3\n\n1,nan,3\n", "line 3: column 2: 'nan'"},
      {"1,2,3\n1,,3\n", "line 2: column 2: ''"},
      {"1,2,3\n1,2\n", "line 2: has 2 cells, the first row has 3"},
      {"1,2,3\n1,2,-1\n", "line 2: column 3: '-1' is no label"},
      {"1,2,3\n1,2,1.5\n", "'1.5' is no label"},
      {"1,2,3\n1,2,9999999999\n", "is no label"},
      {"5\n6\n", "line 1: a single column"},
      {"a;b;c\n1;2;3\n", "commas, tabs or spaces separate cells, not semicolons"},
      {"1,2,3\n1\t2\t3\n", "line 2: has 1 cells"},
      {"name,kind\n", "no row"},
      {"\n", "no row"}};
  for (const auto& [text, why] : kWrong) {
    auto data = table(text);
    ASSERT_FALSE(data.has_value()) << text;
    EXPECT_EQ(data.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(data.error().detail.find(why), std::string::npos) << data.error().detail;
  }
}

TEST(TableDataset, held_out_rows_are_drawn_and_are_not_trained_on) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += std::to_string(i) + ",0,1\n";
  auto data = table(text, 0.1);
  ASSERT_TRUE(data.has_value());
  ASSERT_EQ((*data)->sample_count(), 180u);
  ASSERT_EQ((*data)->held_out_count(), 20u);
  std::vector<int> seen(200);
  for (std::uint64_t i = 0; i < 180; ++i) ++seen[static_cast<std::size_t>(row(**data, i).first)];
  for (std::uint64_t i = 0; i < 20; ++i) {
    Row held{};
    (*data)->read_held_out(i, std::as_writable_bytes(std::span(&held, 1)));
    ++seen[static_cast<std::size_t>(held.first)];
  }
  EXPECT_EQ(seen, std::vector<int>(200, 1));
}

TEST(TableDataset, a_share_that_is_none_is_refused) {
  EXPECT_FALSE(table("1,2,3\n", 1.0).has_value());
  EXPECT_FALSE(table("1,2,3\n", -0.5).has_value());
}

// Large tables are read in pieces, in which lines end anywhere.
TEST(TableDataset, many_lines_are_the_same_as_few) {
  std::string text = "first,second,label\n";
  std::uint64_t lines = 0;
  for (; text.size() < (3 << 20); ++lines)
    text += std::to_string(lines) + "." + std::string(lines % 40, '0') + "5,-1," +
            std::to_string(lines % 7) + (lines % 3 == 0 ? "\r\n" : "\n");
  text.pop_back();
  auto data = table(text);
  ASSERT_TRUE(data.has_value()) << data.error().detail;
  ASSERT_EQ((*data)->sample_count(), lines);
  for (std::uint64_t line = 0; line < lines; ++line) {
    ASSERT_EQ(static_cast<std::uint64_t>(row(**data, line).first), line);
    ASSERT_EQ(row(**data, line).label, static_cast<std::int32_t>(line % 7));
  }
  auto wrong = table(text + "\n1,2\n");
  ASSERT_FALSE(wrong.has_value());
  EXPECT_NE(wrong.error().detail.find("line " + std::to_string(lines + 2)), std::string::npos)
      << wrong.error().detail;
}

}  // namespace
}  // namespace gpunode::dataset
