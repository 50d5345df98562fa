#include "runtime/storage/durable_record.hpp"

#include <gtest/gtest.h>

#include "tests/support/fault_file_system.hpp"
#include "tests/support/memory_file_system.hpp"

namespace gpunode::storage {
namespace {

using testing::FaultFileSystem;
using testing::MemoryFileSystem;

class DurableRecordTest : public ::testing::Test {
 protected:
  DurableRecordTest() { EXPECT_TRUE(disk_.create_folder("/d").has_value()); }
  DurableRecord record(std::uint32_t version = 1) {
    return DurableRecord(disk_, "/d/votes", {{'V', 'O', 'T', 'E'}, version});
  }
  MemoryFileSystem disk_;
};

TEST_F(DurableRecordTest, never_written_is_nothing_and_not_an_error) {
  Result<std::optional<Bytes>> loaded = record().load();
  ASSERT_TRUE(loaded.has_value());
  EXPECT_FALSE(loaded->has_value());
}

TEST_F(DurableRecordTest, what_was_stored_is_loaded_after_power_loss) {
  for (std::string_view text : {"first", "", "third, longer than the others"}) {
    ASSERT_TRUE(record().store(as_bytes(text)).has_value());
    disk_.crash();
    Result<std::optional<Bytes>> loaded = record().load();
    ASSERT_TRUE(loaded.has_value() && loaded->has_value());
    EXPECT_EQ(as_text(**loaded), text);
  }
}

TEST_F(DurableRecordTest, every_flipped_bit_is_detected) {
  ASSERT_TRUE(record().store(as_bytes("payload")).has_value());
  std::uint64_t size = disk_.inspect("/d/votes")->size_bytes;
  for (std::uint64_t offset = 0; offset < size; ++offset) {
    disk_.damage("/d/votes", offset);
    Result<std::optional<Bytes>> loaded = record().load();
    ASSERT_FALSE(loaded.has_value()) << offset;
    EXPECT_EQ(loaded.error().code, ErrorCode::corrupted);
    EXPECT_NE(loaded.error().detail.find("/d/votes"), std::string::npos);
    disk_.damage("/d/votes", offset);
  }
  EXPECT_TRUE(record().load().has_value());
}

TEST_F(DurableRecordTest, every_truncation_is_detected) {
  ASSERT_TRUE(record().store(as_bytes("payload")).has_value());
  std::uint64_t size = disk_.inspect("/d/votes")->size_bytes;
  for (std::uint64_t left = size; left-- > 0;) {
    disk_.truncate("/d/votes", left);
    EXPECT_EQ(record().load().error().code, ErrorCode::corrupted) << left;
  }
}

TEST_F(DurableRecordTest, another_version_is_unsupported_and_says_so) {
  ASSERT_TRUE(record(7).store(as_bytes("payload")).has_value());
  Result<std::optional<Bytes>> loaded = record(1).load();
  EXPECT_EQ(loaded.error().code, ErrorCode::unsupported);
  EXPECT_NE(loaded.error().detail.find("format 7"), std::string::npos);
}

TEST_F(DurableRecordTest, a_crash_at_any_moment_leaves_the_old_or_the_new_record) {
  ASSERT_TRUE(record().store(as_bytes("old")).has_value());
  for (std::uint64_t moment = 0; moment < 8; ++moment) {
    FaultFileSystem files(disk_);
    DurableRecord dying(files, "/d/votes", {{'V', 'O', 'T', 'E'}, 1});
    files.die_after(moment);
    bool reported = dying.store(as_bytes("new")).has_value();
    disk_.crash();
    Result<std::optional<Bytes>> loaded = record().load();
    ASSERT_TRUE(loaded.has_value() && loaded->has_value());
    if (reported) {
      EXPECT_EQ(as_text(**loaded), "new");
    }
    ASSERT_TRUE(record().store(as_bytes("old")).has_value());
  }
}

}  // namespace
}  // namespace gpunode::storage
