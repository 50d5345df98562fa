#include "runtime/storage/log_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "tests/support/temporary_folder.hpp"

namespace gpunode::storage {
namespace {

class LogFileTest : public ::testing::Test {
 protected:
  Path path() const { return folder_.path() / "node.log"; }
  std::unique_ptr<LogFile> open(std::uint64_t limit = 100, int kept = 2) {
    auto file = LogFile::open({.path = path(), .limit_bytes = limit, .kept = kept});
    EXPECT_TRUE(file) << file.error().message();
    return std::move(*file);
  }
  static std::string read(const Path& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  gpunode::testing::TemporaryFolder folder_;
};

TEST_F(LogFileTest, is_private_and_goes_on_where_it_ended) {
  open()->write("first\n");
  open()->write("second\n");
  EXPECT_EQ(read(path()), "first\nsecond\n");
  struct stat found {};
  ASSERT_EQ(stat(path().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777u, 0600u);
}

TEST_F(LogFileTest, keeps_so_many_older_files_and_no_more) {
  const auto file = open(10, 2);
  for (const char* line : {"1234567\n", "2345678\n", "3456789\n", "4567890\n"}) file->write(line);
  const auto files = LogFile::all(path());
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(read(files[0]), "2345678\n");
  EXPECT_EQ(read(files[1]), "3456789\n");
  EXPECT_EQ(read(files[2]), "4567890\n");
}

TEST_F(LogFileTest, a_line_longer_than_a_file_is_written_whole) {
  const auto file = open(10);
  file->write(std::string(50, 'x') + "\n");
  file->write("after\n");
  EXPECT_EQ(read(LogFile::all(path()).front()).size(), 51u);
  EXPECT_EQ(read(path()), "after\n");
}

TEST_F(LogFileTest, is_opened_anew_where_it_was_moved_away) {
  const auto file = open();
  file->write("old\n");
  std::filesystem::rename(path(), folder_.path() / "moved");
  file->write("still old\n");
  ASSERT_TRUE(file->reopen());
  file->write("new\n");
  EXPECT_EQ(read(folder_.path() / "moved"), "old\nstill old\n");
  EXPECT_EQ(read(path()), "new\n");
}

TEST_F(LogFileTest, says_why_it_cannot_be_opened) {
  auto file = LogFile::open({.path = folder_.path() / "none" / "node.log"});
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().detail.find("cannot open the log"), std::string::npos);
}

}  // namespace
}  // namespace gpunode::storage
