#include "runtime/storage/state_directory.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/storage/posix_file_system.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/temporary_folder.hpp"

namespace gpunode::storage {
namespace {

using testing::FaultFileSystem;
using testing::FileOperation;
using testing::TemporaryFolder;

class StateDirectoryTest : public ::testing::Test {
 protected:
  Path path() { return folder_.path() / "state"; }
  Error failure(const Path& path) {
    Result<StateDirectory> state = StateDirectory::open(files_, path);
    EXPECT_FALSE(state.has_value());
    return state ? Error{} : state.error();
  }
  TemporaryFolder folder_;
  PosixFileSystem files_;
};

TEST_F(StateDirectoryTest, is_created_private_and_can_be_opened_again) {
  for (int round = 0; round < 2; ++round) {
    Result<StateDirectory> state = StateDirectory::open(files_, path());
    ASSERT_TRUE(state.has_value()) << state.error().message();
    struct stat status;
    ASSERT_EQ(::stat(path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700u);
    EXPECT_TRUE(files_.exists(*state->folder("jobs")));
    EXPECT_FALSE(files_.exists(state->within(".writable")));
  }
}

TEST_F(StateDirectoryTest, opening_removes_what_a_crash_left_of_writes_and_nothing_else) {
  {
    Result<StateDirectory> state = StateDirectory::open(files_, path());
    const Path jobs = *state->folder("jobs");
    for (const char* name : {"a.tmp", "0123456789abcdef.tmp", "a.0123456789abcdeg.tmp"})
      ASSERT_TRUE(files_.write_atomic(jobs / name, {}).has_value());
    for (const Path& folder : {path(), jobs})
      ASSERT_TRUE(files_.write_new(folder / "a.0123456789abcdef.tmp").has_value());
    ASSERT_TRUE(files_.create_folder(jobs / "b.0123456789abcdef.tmp").has_value());
  }
  Result<StateDirectory> state = StateDirectory::open(files_, path());
  ASSERT_TRUE(state.has_value());
  EXPECT_FALSE(files_.exists(path() / "a.0123456789abcdef.tmp"));
  EXPECT_EQ(files_.list(path() / "jobs")->size(), 4u);
}

TEST_F(StateDirectoryTest, in_use_names_the_process_that_holds_it) {
  Result<StateDirectory> first = StateDirectory::open(files_, path());
  ASSERT_TRUE(first.has_value());
  Error error = failure(path());
  EXPECT_EQ(error.code, ErrorCode::wrong_state);
  EXPECT_NE(error.detail.find("is in use"), std::string::npos);
  EXPECT_NE(error.detail.find("process " + std::to_string(::getpid())), std::string::npos);
}

TEST_F(StateDirectoryTest, is_in_use_while_it_is_open_and_no_longer) {
  EXPECT_FALSE(StateDirectory::in_use(files_, path()));
  {
    const Result<StateDirectory> held = StateDirectory::open(files_, path());
    ASSERT_TRUE(held.has_value());
    EXPECT_TRUE(StateDirectory::in_use(files_, path()));
  }
  EXPECT_FALSE(StateDirectory::in_use(files_, path()));
}

TEST_F(StateDirectoryTest, of_another_version_is_refused_untouched) {
  { ASSERT_TRUE(StateDirectory::open(files_, path()).has_value()); }
  ASSERT_TRUE(files_.write_atomic(path() / "format", {as_bytes("gpunode state 9\n")}).has_value());
  Error error = failure(path());
  EXPECT_EQ(error.code, ErrorCode::unsupported);
  EXPECT_NE(error.detail.find("format 9"), std::string::npos);
  EXPECT_EQ(as_text(*files_.read(path() / "format", 100)), "gpunode state 9\n");
}

TEST_F(StateDirectoryTest, with_a_damaged_format_file_is_corrupted) {
  { ASSERT_TRUE(StateDirectory::open(files_, path()).has_value()); }
  ASSERT_TRUE(files_.write_atomic(path() / "format", {as_bytes("rubbish")}).has_value());
  EXPECT_EQ(failure(path()).code, ErrorCode::corrupted);
  std::string large(1000, 'x');
  ASSERT_TRUE(files_.write_atomic(path() / "format", {as_bytes(large)}).has_value());
  EXPECT_EQ(failure(path()).code, ErrorCode::corrupted);
}

TEST_F(StateDirectoryTest, without_a_descriptor_for_its_format_file_is_not_called_damaged) {
  { ASSERT_TRUE(StateDirectory::open(files_, path()).has_value()); }
  FaultFileSystem failing(files_);
  failing.fail(FileOperation::open, 0, ErrorCode::resource_exhausted);
  const Result<StateDirectory> state = StateDirectory::open(failing, path());
  ASSERT_FALSE(state.has_value());
  EXPECT_EQ(state.error().code, ErrorCode::resource_exhausted);
  EXPECT_EQ(failing.fired(), 1u);
}

TEST_F(StateDirectoryTest, too_long_for_a_socket_names_the_limit_and_the_remedy) {
  Path long_path = folder_.path() / std::string(100, 'x');
  Error error = failure(long_path);
  EXPECT_EQ(error.code, ErrorCode::invalid_argument);
  EXPECT_NE(error.detail.find("107"), std::string::npos);
  EXPECT_NE(error.detail.find("--state"), std::string::npos);
  EXPECT_FALSE(files_.exists(long_path));
}

TEST_F(StateDirectoryTest, as_long_as_a_socket_may_be_is_taken) {
  std::size_t rest =
      StateDirectory::kSocketPathLimitBytes - (folder_.path() / "x" / "node.sock").native().size();
  Path longest = folder_.path() / std::string(rest + 1, 'x');
  Result<StateDirectory> state = StateDirectory::open(files_, longest);
  ASSERT_TRUE(state.has_value()) << state.error().message();
  EXPECT_EQ(state->socket_path().native().size(), StateDirectory::kSocketPathLimitBytes);
  EXPECT_EQ(failure(folder_.path() / std::string(rest + 2, 'x')).code, ErrorCode::invalid_argument);
}

TEST_F(StateDirectoryTest, a_folder_of_somebody_else_is_not_taken_over) {
  ASSERT_TRUE(files_.create_folder(path()).has_value());
  ASSERT_EQ(::chmod(path().c_str(), 0755), 0);
  ASSERT_TRUE(files_.write_atomic(path() / "letter.txt", {as_bytes("dear")}).has_value());
  EXPECT_EQ(failure(path()).code, ErrorCode::invalid_argument);
  struct stat status;
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0755u);
}

TEST_F(StateDirectoryTest, a_file_in_its_place_is_an_error) {
  ASSERT_TRUE(files_.write_atomic(path(), {as_bytes("x")}).has_value());
  EXPECT_EQ(failure(path()).code, ErrorCode::already_exists);
}

TEST_F(StateDirectoryTest, that_cannot_be_written_says_so_whatever_fails) {
  { ASSERT_TRUE(StateDirectory::open(files_, path()).has_value()); }
  for (FileOperation operation : {FileOperation::lock, FileOperation::write_new,
                                  FileOperation::append, FileOperation::sync}) {
    FaultFileSystem faults(files_);
    faults.fail(operation, 0, ErrorCode::permission_denied);
    Result<StateDirectory> state = StateDirectory::open(faults, path());
    ASSERT_FALSE(state.has_value());
    EXPECT_EQ(state.error().code, ErrorCode::permission_denied);
    EXPECT_NE(state.error().detail.find("cannot be written"), std::string::npos);
    EXPECT_EQ(faults.fired(), 1u);
  }
  EXPECT_TRUE(StateDirectory::open(files_, path()).has_value());
}

TEST_F(StateDirectoryTest, on_a_full_disk_says_disk_full) {
  { ASSERT_TRUE(StateDirectory::open(files_, path()).has_value()); }
  FaultFileSystem faults(files_);
  faults.disk_full_after(0);
  Result<StateDirectory> state = StateDirectory::open(faults, path());
  ASSERT_FALSE(state.has_value());
  EXPECT_EQ(state.error().code, ErrorCode::disk_full);
}

}  // namespace
}  // namespace gpunode::storage
