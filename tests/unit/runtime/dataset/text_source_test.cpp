#include "runtime/dataset/text_source.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "runtime/base/thrown_error.hpp"
#include "runtime/storage/confined_files.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/temporary_folder.hpp"

namespace gpunode::dataset {
namespace {

using storage::PosixFileSystem;

class TextSourceTest : public ::testing::Test {
 protected:
  void write(const std::string& name, std::string_view text) {
    auto path = folder_.path() / name;
    ASSERT_TRUE(files_->create_folder(path.parent_path()).has_value());
    ASSERT_TRUE(files_->write_atomic(path, {as_bytes(text)}).has_value());
  }
  static std::string all(const TextSource& source) {
    Bytes bytes(source.size_bytes());
    source.copy(0, bytes);
    return std::string(as_text(bytes));
  }
  testing::TemporaryFolder folder_;
  std::shared_ptr<PosixFileSystem> files_ = std::make_shared<PosixFileSystem>();
};

TEST_F(TextSourceTest, a_folder_is_its_files_in_byte_order_of_their_paths) {
  write("b.txt", "5");
  write("a/z", "3");
  write("a/y/x", "2");
  write("B", "1");
  write("a.txt", "4");  // '.' sorts before '/'
  write("a/empty", "");
  write(".hidden", "0");
  Result<TextSource> source = TextSource::open(files_, folder_.path());
  ASSERT_TRUE(source.has_value());
  std::vector<std::string> names;
  for (const TextSource::File& file : source->files()) names.push_back(file.name);
  EXPECT_EQ(names, (std::vector<std::string>{".hidden", "B", "a.txt", "a/empty", "a/y/x", "a/z",
                                             "b.txt"}));
  EXPECT_EQ(all(*source), "014235");
}

TEST_F(TextSourceTest, links_pipes_and_loops_are_left_out) {
  write("real", "text");
  std::filesystem::create_symlink("/etc/passwd", folder_.path() / "out");
  std::filesystem::create_symlink(folder_.path() / "real", folder_.path() / "same");
  std::filesystem::create_directory_symlink(folder_.path(), folder_.path() / "loop");
  ASSERT_EQ(::mkfifo((folder_.path() / "pipe").c_str(), 0600), 0);
  Result<TextSource> source = TextSource::open(files_, folder_.path());
  ASSERT_TRUE(source.has_value());
  EXPECT_EQ(all(*source), "text");
}

TEST_F(TextSourceTest, the_named_path_itself_may_be_a_link) {
  write("folder/real", "text");
  std::filesystem::create_directory_symlink(folder_.path() / "folder", folder_.path() / "link");
  const auto files =
      storage::ConfinedFiles::open({folder_.path() / "link", "it", folder_.path() / "state"});
  ASSERT_TRUE(files) << files.error().message();
  EXPECT_EQ(all(*TextSource::open(*files, "it")), "text");
}

TEST_F(TextSourceTest, ranges_cross_files_of_any_length) {
  std::vector<std::pair<std::string, Bytes>> parts;
  std::string whole;
  const char* texts[] = {"", "a", "", "", "bcd", "efghij", "", "k", ""};
  for (int i = 0; i < 9; ++i) {
    parts.emplace_back(std::to_string(i), to_bytes(as_bytes(texts[i])));
    whole += texts[i];
  }
  TextSource source = TextSource::from_memory(parts);
  ASSERT_EQ(source.size_bytes(), whole.size());
  for (std::size_t begin = 0; begin <= whole.size(); ++begin) {
    for (std::size_t end = begin; end <= whole.size(); ++end) {
      Bytes bytes(end - begin);
      source.copy(begin, bytes);
      EXPECT_EQ(as_text(bytes), std::string_view(whole).substr(begin, end - begin));
    }
  }
}

// Data that stays in its files, of which so many are kept open.
TextSourceOptions in_files(std::size_t open_files) {
  return {.copy_below_bytes = 0, .open_files = open_files};
}

TEST_F(TextSourceTest, data_in_files_and_copied_data_are_the_same) {
  write("a", "first");
  write("b", "");
  write("c", "second");
  write("d", std::string((2 << 20) + 3, 'x'));
  Result<TextSource> copied = TextSource::open(files_, folder_.path());
  ASSERT_TRUE(copied.has_value());
  for (const std::size_t open_files : {0, 2, 9}) {
    const auto stays = TextSource::open(files_, folder_.path(), in_files(open_files));
    ASSERT_TRUE(stays.has_value());
    EXPECT_EQ(all(*copied), all(*stays));
    EXPECT_EQ(copied->data_digest(), stays->data_digest());
  }
}

TEST_F(TextSourceTest, data_that_is_cut_short_while_it_is_used_is_an_error_and_no_end) {
  for (const std::size_t open_files : {0, 9}) {
    write("a", std::string(100'000, 'x'));
    const auto source = TextSource::open(files_, folder_.path() / "a", in_files(open_files));
    ASSERT_TRUE(source.has_value());
    std::filesystem::resize_file(folder_.path() / "a", 10);
    Bytes target(8192);
    for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{90'000}}) {
      try {
        source->copy(offset, target);
        ADD_FAILURE() << "at " << offset;
      } catch (const ThrownError& thrown) {
        EXPECT_EQ(thrown.error().code, ErrorCode::unavailable);
        EXPECT_NE(thrown.error().detail.find((folder_.path() / "a").string()), std::string::npos);
      }
    }
    EXPECT_THROW(source->data_digest(), ThrownError);
  }
}

TEST_F(TextSourceTest, a_file_that_is_replaced_is_not_mixed_with_the_one_before) {
  write("a", "before");
  const auto kept = TextSource::open(files_, folder_.path() / "a", in_files(1));
  const auto opened_again = TextSource::open(files_, folder_.path() / "a", in_files(0));
  write("a", "and after");
  EXPECT_EQ(all(*kept), "before");
  EXPECT_THROW(all(*opened_again), ThrownError);
}

TEST_F(TextSourceTest, copied_data_does_not_change_under_a_running_job) {
  write("a", "before");
  Result<TextSource> source = TextSource::open(files_, folder_.path() / "a");
  std::filesystem::resize_file(folder_.path() / "a", 0);
  EXPECT_EQ(all(*source), "before");
}

TEST_F(TextSourceTest, digest_depends_on_names_borders_and_bytes_and_not_on_place) {
  auto digest = [](std::vector<std::pair<std::string, std::string>> parts) {
    std::vector<std::pair<std::string, Bytes>> files;
    for (auto& [name, text] : parts) files.emplace_back(name, to_bytes(as_bytes(text)));
    return TextSource::from_memory(std::move(files)).data_digest();
  };
  auto base = digest({{"a", "xy"}, {"b", "z"}});
  EXPECT_EQ(base, digest({{"b", "z"}, {"a", "xy"}}));
  EXPECT_NE(base, digest({{"a", "x"}, {"b", "yz"}}));
  EXPECT_NE(base, digest({{"a", "xy"}, {"c", "z"}}));
  EXPECT_NE(base, digest({{"a", "xy"}, {"b", "w"}}));
  EXPECT_NE(base, digest({{"a", "xy"}, {"b", "z"}, {"c", ""}}));
  write("one/text", "same");
  write("two/other", "same");
  EXPECT_EQ(TextSource::open(files_, folder_.path() / "one/text")->data_digest(),
            TextSource::open(files_, folder_.path() / "two/other")->data_digest());
}

TEST_F(TextSourceTest, what_cannot_be_read_is_named) {
  Result<TextSource> none = TextSource::open(files_, folder_.path() / "none");
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::not_found);
  EXPECT_NE(none.error().detail.find("none"), std::string::npos);
  write("good", "text");
  write("locked", "text");
  for (auto operation : {testing::FileOperation::open, testing::FileOperation::read_at}) {
    const auto faults = std::make_shared<testing::FaultFileSystem>(*files_);
    faults->fail(operation, 1, ErrorCode::permission_denied);
    Result<TextSource> source = TextSource::open(faults, folder_.path());
    ASSERT_FALSE(source.has_value());
    EXPECT_EQ(source.error().code, ErrorCode::permission_denied);
    EXPECT_NE(source.error().detail.find("locked"), std::string::npos);
  }
}

TEST_F(TextSourceTest, no_text_at_all_is_an_error) {
  write("d/empty", "");
  EXPECT_EQ(TextSource::open(files_, folder_.path()).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(TextSource::open(files_, "/dev/null").error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace gpunode::dataset
