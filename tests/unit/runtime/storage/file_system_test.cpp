// The contract of FileSystem, over the real one and both twins.
#include "runtime/storage/file_system.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>

#include "runtime/storage/posix_file_system.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/memory_file_system.hpp"
#include "tests/support/temporary_folder.hpp"

namespace gpunode::storage {
namespace {

using testing::FaultFileSystem;
using testing::FileOperation;
using testing::MemoryFileSystem;
using testing::TemporaryFolder;

enum class Kind { posix, memory, fault };

class Contract : public ::testing::TestWithParam<Kind> {
 protected:
  Contract() {
    if (GetParam() == Kind::memory) {
      files_ = &memory_;
      EXPECT_TRUE(memory_.create_folder(folder_.path()).has_value());
    } else if (GetParam() == Kind::fault) {
      files_ = &fault_;
    } else {
      files_ = &posix_;
    }
  }
  FileSystem& files() { return *files_; }
  Path at(std::string_view name) { return folder_.path() / name; }
  Result<void> write(std::string_view name, std::string_view text) {
    return files().write_atomic(at(name), {as_bytes(text)});
  }
  std::string read(std::string_view name) {
    Result<Bytes> bytes = files().read(at(name), 1000);
    return bytes ? std::string(as_text(*bytes)) : bytes.error().message();
  }
  std::vector<std::string> names() {
    std::vector<std::string> result;
    Result<std::vector<Entry>> entries = files().list(folder_.path());
    EXPECT_TRUE(entries.has_value());
    for (const Entry& entry : *entries) result.push_back(entry.name);
    return result;
  }

  TemporaryFolder folder_;
  PosixFileSystem posix_;
  MemoryFileSystem memory_;
  FaultFileSystem fault_{posix_};
  FileSystem* files_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Storage, Contract,
                         ::testing::Values(Kind::posix, Kind::memory, Kind::fault),
                         [](const auto& info) {
                           return info.param == Kind::posix    ? "posix"
                                  : info.param == Kind::memory ? "memory"
                                                               : "fault";
                         });

TEST_P(Contract, atomic_write_replaces_the_file_and_leaves_no_temporary) {
  ASSERT_TRUE(write("a", "first").has_value());
  ASSERT_TRUE(files().write_atomic(at("a"), {as_bytes("sec"), as_bytes("ond")}).has_value());
  EXPECT_EQ(read("a"), "second");
  EXPECT_EQ(names(), std::vector<std::string>{"a"});
}

TEST_P(Contract, atomic_write_touches_nothing_that_it_did_not_make) {
  ASSERT_TRUE(files().create_folder(at("a.tmp")).has_value());
  ASSERT_TRUE(write("a.tmp/kept", "1").has_value());
  ASSERT_TRUE(write("b.tmp", "2").has_value());
  ASSERT_TRUE(write("a", "text").has_value());
  ASSERT_TRUE(write("b", "text").has_value());
  EXPECT_EQ(read("a.tmp/kept"), "1");
  EXPECT_EQ(read("b.tmp"), "2");
  EXPECT_EQ(names(), (std::vector<std::string>{"a", "a.tmp", "b", "b.tmp"}));
}

TEST_P(Contract, atomic_write_writes_under_a_new_name_each_time) {
  std::vector<std::string> seen;
  for (int time = 0; time < 2; ++time) {
    const auto look = [&](WritableFile&) -> Result<void> {
      EXPECT_EQ(names().size(), 1u);
      seen.push_back(names().front());
      return Error{ErrorCode::io_error, "enough"};
    };
    EXPECT_FALSE(files().write_atomic_with(at("a"), look).has_value());
  }
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_TRUE(is_temporary(seen[0]) && is_temporary(seen[1]));
  EXPECT_NE(seen[0], seen[1]);
  EXPECT_TRUE(names().empty());
}

TEST_P(Contract, write_new_refuses_a_name_that_exists) {
  ASSERT_TRUE(write("a", "text").has_value());
  auto file = files().write_new(at("a"));
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code, ErrorCode::already_exists);
  EXPECT_EQ(read("a"), "text");
}

TEST_P(Contract, reading_what_is_not_there_is_not_found_and_names_the_path) {
  Result<Bytes> bytes = files().read(at("none"), 10);
  ASSERT_FALSE(bytes.has_value());
  EXPECT_EQ(bytes.error().code, ErrorCode::not_found);
  EXPECT_NE(bytes.error().detail.find("none"), std::string::npos);
  EXPECT_EQ(files().inspect(at("none")).error().code, ErrorCode::not_found);
  EXPECT_EQ(files().remove(at("none")).error().code, ErrorCode::not_found);
  EXPECT_EQ(files().list(at("none")).error().code, ErrorCode::not_found);
  EXPECT_FALSE(files().exists(at("none")));
}

TEST_P(Contract, reading_past_a_limit_is_refused) {
  ASSERT_TRUE(write("a", "12345").has_value());
  EXPECT_EQ(files().read(at("a"), 4).error().code, ErrorCode::resource_exhausted);
  EXPECT_TRUE(files().read(at("a"), 5).has_value());
}

TEST_P(Contract, reading_past_the_end_is_corrupted) {
  ASSERT_TRUE(write("a", "12345").has_value());
  auto file = files().open(at("a"));
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ((*file)->size_bytes(), 5u);
  Bytes target(3);
  ASSERT_TRUE((*file)->read_at(2, target).has_value());
  EXPECT_EQ(as_text(target), "345");
  EXPECT_EQ((*file)->read_at(3, target).error().code, ErrorCode::corrupted);
}

TEST_P(Contract, opening_a_folder_as_a_file_is_an_error) {
  ASSERT_TRUE(files().create_folder(at("d")).has_value());
  EXPECT_EQ(files().open(at("d")).error().code, ErrorCode::invalid_argument);
}

TEST_P(Contract, folders_are_made_with_all_above_them_and_twice_is_fine) {
  ASSERT_TRUE(files().create_folder(at("x/y/z")).has_value());
  ASSERT_TRUE(files().create_folder(at("x/y/z")).has_value());
  EXPECT_EQ(files().inspect(at("x/y/z"))->kind, EntryKind::folder);
  ASSERT_TRUE(write("x/file", "").has_value());
  EXPECT_EQ(files().create_folder(at("x/file")).error().code, ErrorCode::already_exists);
}

TEST_P(Contract, list_is_sorted_by_bytes_and_knows_kinds_and_sizes) {
  ASSERT_TRUE(write("b", "22").has_value());
  ASSERT_TRUE(write("B", "1").has_value());
  ASSERT_TRUE(files().create_folder(at("a")).has_value());
  Result<std::vector<Entry>> entries = files().list(folder_.path());
  ASSERT_TRUE(entries.has_value());
  ASSERT_EQ(entries->size(), 3u);
  EXPECT_EQ((*entries)[0].name, "B");
  EXPECT_EQ((*entries)[1].kind, EntryKind::folder);
  EXPECT_EQ((*entries)[2].size_bytes, 2u);
}

TEST_P(Contract, remove_takes_a_folder_with_all_it_holds) {
  ASSERT_TRUE(files().create_folder(at("x/y")).has_value());
  ASSERT_TRUE(write("x/y/file", "1").has_value());
  ASSERT_TRUE(files().remove(at("x")).has_value());
  EXPECT_TRUE(names().empty());
}

TEST_P(Contract, a_folder_with_contents_is_never_replaced_by_rename) {
  ASSERT_TRUE(files().create_folder(at("x")).has_value());
  ASSERT_TRUE(files().create_folder(at("y")).has_value());
  ASSERT_TRUE(write("y/file", "1").has_value());
  EXPECT_EQ(files().rename(at("x"), at("y")).error().code, ErrorCode::already_exists);
  ASSERT_TRUE(files().rename(at("y"), at("z")).has_value());
  EXPECT_EQ(read("z/file"), "1");
}

TEST_P(Contract, a_lock_is_exclusive_and_names_its_holder) {
  auto first = files().lock(at("lock"));
  ASSERT_TRUE(first.has_value());
  auto second = files().lock(at("lock"));
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::wrong_state);
  EXPECT_NE(second.error().detail.find("process " + std::to_string(::getpid())), std::string::npos);
  first->reset();
  EXPECT_TRUE(files().lock(at("lock")).has_value());
}

TEST_P(Contract, free_bytes_is_something) {
  Result<std::uint64_t> free = files().free_bytes(folder_.path());
  ASSERT_TRUE(free.has_value());
  EXPECT_GT(*free, 0u);
}

TEST(PosixFiles, are_private) {
  TemporaryFolder folder;
  PosixFileSystem files;
  ASSERT_TRUE(files.create_folder(folder.path() / "d").has_value());
  ASSERT_TRUE(files.write_atomic(folder.path() / "d/f", {as_bytes("x")}).has_value());
  struct stat status;
  ASSERT_EQ(::stat((folder.path() / "d").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat((folder.path() / "d/f").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST(PosixFiles, links_are_seen_as_links_and_removed_without_their_targets) {
  TemporaryFolder folder;
  PosixFileSystem files;
  ASSERT_TRUE(files.write_atomic(folder.path() / "target", {as_bytes("x")}).has_value());
  std::filesystem::create_symlink(folder.path() / "target", folder.path() / "link");
  EXPECT_EQ(files.inspect(folder.path() / "link")->kind, EntryKind::link);
  ASSERT_TRUE(files.remove(folder.path() / "link").has_value());
  EXPECT_TRUE(files.exists(folder.path() / "target"));
}

TEST(PosixFiles, a_pipe_is_not_a_regular_file_and_does_not_block) {
  TemporaryFolder folder;
  PosixFileSystem files;
  ASSERT_EQ(::mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(files.open(folder.path() / "pipe").error().code, ErrorCode::invalid_argument);
}

TEST(PosixFiles, a_full_device_is_disk_full) {
  PosixFileSystem files;
  Error error = error_of_errno(ENOSPC, "cannot write", "/x");
  EXPECT_EQ(error.code, ErrorCode::disk_full);
  EXPECT_NE(error.detail.find("free some space"), std::string::npos);
}

TEST(Faults, a_failed_atomic_write_leaves_the_old_file_and_no_temporary) {
  for (FileOperation operation : {FileOperation::write_new, FileOperation::append,
                                  FileOperation::sync, FileOperation::rename}) {
    MemoryFileSystem memory;
    ASSERT_TRUE(memory.create_folder("/d").has_value());
    ASSERT_TRUE(memory.write_atomic("/d/a", {as_bytes("old")}).has_value());
    FaultFileSystem files(memory);
    files.fail(operation, 0);
    EXPECT_EQ(files.write_atomic("/d/a", {as_bytes("new")}).error().code, ErrorCode::io_error);
    EXPECT_EQ(files.fired(), 1u);
    EXPECT_EQ(as_text(*files.read("/d/a", 10)), "old");
    EXPECT_EQ(files.list("/d")->size(), 1u);
  }
}

TEST(Faults, a_full_disk_is_reported_and_the_old_file_stays) {
  MemoryFileSystem memory;
  ASSERT_TRUE(memory.create_folder("/d").has_value());
  ASSERT_TRUE(memory.write_atomic("/d/a", {as_bytes("old")}).has_value());
  memory.set_capacity(5);
  EXPECT_EQ(memory.write_atomic("/d/a", {as_bytes("newer")}).error().code, ErrorCode::disk_full);
  EXPECT_EQ(as_text(*memory.read("/d/a", 10)), "old");
  FaultFileSystem files(memory);
  memory.set_capacity(1000);
  files.disk_full_after(2);
  EXPECT_EQ(files.write_atomic("/d/a", {as_bytes("newer")}).error().code, ErrorCode::disk_full);
  EXPECT_EQ(as_text(*files.read("/d/a", 10)), "old");
}

TEST(Faults, an_atomic_write_survives_a_crash_at_every_moment_as_old_or_new) {
  int old_seen = 0, new_seen = 0;
  for (std::uint64_t moment = 0; moment < 8; ++moment) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      MemoryFileSystem memory;
      ASSERT_TRUE(memory.create_folder("/d").has_value());
      ASSERT_TRUE(memory.write_atomic("/d/a", {as_bytes("old")}).has_value());
      FaultFileSystem files(memory);
      files.die_after(moment);
      bool reported = files.write_atomic("/d/a", {as_bytes("new text")}).has_value();
      Rng rng(seed);
      memory.crash(rng);
      Result<Bytes> after = memory.read("/d/a", 100);
      ASSERT_TRUE(after.has_value());
      std::string text(as_text(*after));
      EXPECT_TRUE(text == "new text" || (text == "old" && !reported)) << text;
      (text == "old" ? old_seen : new_seen)++;
    }
  }
  EXPECT_GT(old_seen, 0);
  EXPECT_GT(new_seen, 0);
}

TEST(Faults, the_memory_twin_does_lose_what_nobody_synced) {
  MemoryFileSystem memory;
  ASSERT_TRUE(memory.create_folder("/d").has_value());
  {
    auto file = memory.write_new("/d/a");
    ASSERT_TRUE((*file)->append(as_bytes("text")).has_value());
    ASSERT_TRUE(memory.sync_folder("/d").has_value());
  }
  memory.crash();
  EXPECT_EQ(memory.read("/d/a", 10)->size(), 0u);
  {
    auto file = memory.write_new("/d/b");
    ASSERT_TRUE((*file)->append(as_bytes("text")).has_value());
    ASSERT_TRUE((*file)->sync().has_value());
  }
  memory.crash();
  EXPECT_FALSE(memory.exists("/d/b"));
}

}  // namespace
}  // namespace gpunode::storage
