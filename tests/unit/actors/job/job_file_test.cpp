#include "actors/job/job_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace gpunode::jobs {
namespace {

constexpr const char* kGood = R"(
name = "tiny"
nodes = 3
labels = ["cpu"]
[data]
path = "text"
validation_path = "held/text"
[model]
kind = "gpt"
start = "weights"
layers = 2
[train]
steps = 40
batch = 8
slices = 4
tree = [2, 2]
learning_rate = 1e-3
)";

TEST(JobFile, a_good_file_fills_the_spec_and_finds_its_data_beside_it) {
  auto spec = parse_job_file(kGood, "/home/jobs");
  ASSERT_TRUE(spec) << spec.error().message();
  EXPECT_EQ(spec->data.path, "/home/jobs/text");
  EXPECT_EQ(spec->data.validation_path, "/home/jobs/held/text");
  EXPECT_EQ(spec->model_start, "/home/jobs/weights");
  EXPECT_EQ(spec->train.steps, 40u);
  EXPECT_EQ(spec->train.tree, (std::vector<std::uint32_t>{2, 2}));
  EXPECT_EQ(spec->train.learning_rate, 1e-3);
  EXPECT_EQ(spec->model_settings.at("layers"), "2");
  EXPECT_EQ(spec->labels, std::vector<std::string>{"cpu"});
}

TEST(JobFile, mistakes_are_named_with_their_line_and_the_nearest_known_word) {
  struct Case {
    const char* text;
    const char* expected;
  };
  for (const Case& c : {
           Case{"name = ", "not TOML"},
           Case{"nmae = \"x\"", "did you mean 'name'"},
           Case{"[trian]\nsteps = 1", "did you mean 'train'"},
           Case{"[train]\nlearning_rat = 1", "did you mean 'learning_rate'"},
           Case{"[train]\nsteps = \"many\"", "whole number"},
           Case{"name = \"x\"\n\n[train]\nsteps = -4", "(line 4)"},
           Case{"labels = 3", "list of texts"},
           Case{"[labels]\nzone = \"a\"", "'labels' is a key, not a section: write labels = "},
           Case{"[exchange]\nfoo = 1", "[exchange] has bulk, mode, "},
           Case{"checkpoint = 7", "write [checkpoint]"},
           Case{"name = \"x\"", "data.path is missing"},
       }) {
    auto spec = parse_job_file(c.text, "/");
    ASSERT_FALSE(spec) << c.text;
    EXPECT_NE(spec.error().detail.find(c.expected), std::string::npos) << spec.error().detail;
  }
}

TEST(JobFile, the_ready_ones_of_the_examples_are_good) {
  const std::filesystem::path folder = std::string(GPUNODE_SOURCE_DIR) + "/examples/jobs";
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const auto spec = parse_job_file(text.str(), folder);
    EXPECT_TRUE(spec) << entry.path() << ": " << spec.error().message();
    ++count;
  }
  EXPECT_GE(count, 4);
}

TEST(JobFile, data_is_named_by_a_path_or_by_a_set_and_not_by_both) {
  const auto parsed = [](const std::string& data) {
    return parse_job_file("name = \"x\"\n[data]\n" + data, "/home/jobs");
  };
  const auto named = parsed("set = \"books\"\n");
  ASSERT_TRUE(named) << named.error().message();
  EXPECT_EQ(named->data.text(), "data set 'books'");
  EXPECT_FALSE(parsed("set = \"books\"\npath = \"a\"\n"));
  EXPECT_FALSE(parsed("path = \"a\"\nvalidation_set = \"b\"\nvalidation_path = \"c\"\n"));
}

TEST(JobFile, every_key_is_explained_with_its_default) {
  for (const job::SettingText& one : job::setting_texts()) {
    EXPECT_GT(one.text.size(), 20u) << one.key;
    EXPECT_FALSE(one.type.empty()) << one.key;
  }
}

}  // namespace
}  // namespace gpunode::jobs
