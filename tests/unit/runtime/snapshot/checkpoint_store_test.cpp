#include "runtime/snapshot/checkpoint_store.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/base/fault_point.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/memory_file_system.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/unit/runtime/snapshot/state_fixture.hpp"

namespace gpunode::snapshot {
namespace {

using gpunode::testing::FaultFileSystem;
using gpunode::testing::FileOperation;
using gpunode::testing::MemoryFileSystem;
using gpunode::testing::TemporaryFolder;
using testing::meta_of;
using testing::State;

const JobId kJob = meta_of(0).key.job;

class CheckpointStoreTest : public ::testing::Test {
 protected:
  std::vector<std::uint64_t> steps() {
    std::vector<std::uint64_t> result;
    Result<std::vector<CheckpointKey>> keys = store_.list(kJob);
    EXPECT_TRUE(keys.has_value());
    for (const CheckpointKey& key : *keys) result.push_back(key.step);
    return result;
  }
  void write(std::uint64_t step) {
    ASSERT_TRUE(store_.write(meta_of(step), small_.view()).has_value());
  }
  std::string shard(std::uint64_t step, const char* name) {
    return (store_.path_of(meta_of(step).key) / name).string();
  }
  bool has_leftovers() {
    auto entries = disk_.list("/checkpoints/" + kJob.text());
    if (!entries) return false;
    for (const storage::Entry& entry : *entries)
      if (entry.name.starts_with(".")) return true;
    return false;
  }

  MemoryFileSystem disk_;
  State state_{1}, small_{1, 100};
  CheckpointStore store_{disk_, "/checkpoints"};
};

TEST_F(CheckpointStoreTest, what_was_written_is_read_back_bit_for_bit_after_power_loss) {
  Result<Manifest> written = store_.write(meta_of(10), state_.view());
  ASSERT_TRUE(written.has_value()) << written.error().message();
  disk_.crash();
  Result<Checkpoint> checkpoint = store_.open(meta_of(10).key);
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  EXPECT_EQ(checkpoint->manifest(), *written);
  EXPECT_EQ(checkpoint->manifest().meta, meta_of(10));
  State read(2);
  ASSERT_NE(state_digest(read.view()), state_digest(state_.view()));
  Result<void> restored = checkpoint->read_into(read.target());
  ASSERT_TRUE(restored.has_value()) << restored.error().message();
  EXPECT_EQ(state_digest(read.view()), state_digest(state_.view()));
  EXPECT_TRUE(checkpoint->verify().has_value());
}

TEST_F(CheckpointStoreTest, works_on_a_real_disk_and_in_many_small_shards) {
  TemporaryFolder folder;
  storage::PosixFileSystem files;
  CheckpointStore store(files, folder.path() / "c", {.shard_bytes = 100});
  ASSERT_TRUE(store.write(meta_of(3), state_.view()).has_value());
  Result<Checkpoint> checkpoint = store.open(meta_of(3).key);
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  EXPECT_EQ(checkpoint->manifest().shards.size(), 9u);
  State read(2);
  ASSERT_TRUE(checkpoint->read_into(read.target()).has_value());
  EXPECT_EQ(state_digest(read.view()), state_digest(state_.view()));
  EXPECT_TRUE(store.verify(meta_of(3).key).has_value());
  ASSERT_TRUE(store.remove(meta_of(3).key).has_value());
  EXPECT_TRUE(store.list()->empty());
}

TEST_F(CheckpointStoreTest, weights_alone_can_be_stored_and_moments_are_then_not_there) {
  ASSERT_TRUE(store_.write(meta_of(1), small_.view(false)).has_value());
  Result<Checkpoint> checkpoint = store_.open(meta_of(1).key);
  ASSERT_TRUE(checkpoint.has_value());
  EXPECT_EQ(checkpoint->manifest().shards.size(), 1u);
  State read(2, 100);
  EXPECT_EQ(checkpoint->read_into(read.target()).error().code, ErrorCode::not_found);
}

TEST_F(CheckpointStoreTest, a_model_of_another_shape_is_refused_by_name) {
  write(1);
  Result<Checkpoint> checkpoint = store_.open(meta_of(1).key);
  ASSERT_TRUE(checkpoint.has_value());
  State other(1, 200);
  Result<void> done = checkpoint->read_into(other.target());
  EXPECT_EQ(done.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(done.error().detail.find("embedding has shape [1, 100]"), std::string::npos)
      << done.error().detail;
  StateTarget renamed = small_.target();
  renamed.parameters[2].name = "elsewhere";
  EXPECT_NE(checkpoint->read_into(renamed).error().detail.find("elsewhere"), std::string::npos);
  StateTarget fewer = small_.target();
  fewer.parameters.pop_back();
  EXPECT_FALSE(checkpoint->read_into(fewer).has_value());
}

TEST_F(CheckpointStoreTest, states_that_contradict_themselves_are_refused_before_writing) {
  auto refused = [&](auto change) {
    StateView view = small_.view();
    change(view);
    Result<Manifest> done = store_.write(meta_of(1), view);
    return !done && done.error().code == ErrorCode::invalid_argument && steps().empty();
  };
  EXPECT_TRUE(refused([](StateView& v) { v.parameters[0].shape[0] += 1; }));
  EXPECT_TRUE(refused([](StateView& v) { v.parameters[0].name = v.parameters[1].name; }));
  EXPECT_TRUE(refused([](StateView& v) { v.parameters[0].name = ""; }));
  EXPECT_TRUE(refused([](StateView& v) { v.parameters[0].name = "__metadata__"; }));
  EXPECT_TRUE(refused([](StateView& v) { v.parameters[0].name = "\xff"; }));
  EXPECT_TRUE(
      refused([](StateView& v) { v.parameters[0].parts[1] = v.parameters[0].parts[1].first(1); }));
}

TEST_F(CheckpointStoreTest, a_checkpoint_is_never_written_twice) {
  write(1);
  EXPECT_EQ(store_.write(meta_of(1), small_.view()).error().code, ErrorCode::already_exists);
  EXPECT_TRUE(store_.verify(meta_of(1).key).has_value());
}

TEST_F(CheckpointStoreTest, a_damaged_shard_is_named_with_its_byte_range) {
  ASSERT_TRUE(store_.write(meta_of(1), state_.view()).has_value());
  disk_.damage(shard(1, "first_moment-000.safetensors"), (1u << 20) + 17);
  Result<void> done = store_.verify(meta_of(1).key);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, ErrorCode::corrupted);
  EXPECT_NE(
      done.error().detail.find("shard first_moment-000.safetensors, bytes 1048576 to 1200459"),
      std::string::npos)
      << done.error().detail;
  State read(2);
  EXPECT_EQ(store_.open(meta_of(1).key)->read_into(read.target()).error().code,
            ErrorCode::corrupted);
}

TEST_F(CheckpointStoreTest, truncated_longer_and_missing_shards_are_named) {
  write(1);
  std::string path = shard(1, "weight-000.safetensors");
  std::uint64_t size = disk_.inspect(path)->size_bytes;
  auto detail = [&] {
    Result<void> done = store_.verify(meta_of(1).key);
    EXPECT_EQ(done.error().code, ErrorCode::corrupted);
    return done.error().detail;
  };
  disk_.truncate(path, size - 3);
  EXPECT_NE(detail().find("weight-000.safetensors, bytes " + std::to_string(size - 3) + " to " +
                          std::to_string(size - 1)),
            std::string::npos);
  disk_.truncate(path, size + 3);
  EXPECT_NE(detail().find("longer than was written"), std::string::npos);
  ASSERT_TRUE(disk_.remove(path).has_value());
  EXPECT_NE(detail().find("missing"), std::string::npos);
}

TEST_F(CheckpointStoreTest, every_damaged_byte_of_every_file_is_found) {
  ASSERT_TRUE(store_.write(meta_of(1), State(1, 100).view()).has_value());
  for (const char* name : {"manifest", "weight-000.safetensors", "first_moment-000.safetensors",
                           "second_moment-000.safetensors"}) {
    std::uint64_t size = disk_.inspect(shard(1, name))->size_bytes;
    for (std::uint64_t offset = 0; offset < size; ++offset) {
      disk_.damage(shard(1, name), offset);
      Result<void> done = store_.verify(meta_of(1).key);
      ASSERT_FALSE(done.has_value()) << name << " " << offset;
      EXPECT_EQ(done.error().code, ErrorCode::corrupted);
      disk_.damage(shard(1, name), offset);
    }
  }
  EXPECT_TRUE(store_.verify(meta_of(1).key).has_value());
}

TEST_F(CheckpointStoreTest, a_manifest_of_another_checkpoint_is_refused) {
  write(1);
  write(2);
  ASSERT_TRUE(disk_.remove(shard(2, "manifest")).has_value());
  ASSERT_TRUE(disk_.rename(shard(1, "manifest"), shard(2, "manifest")).has_value());
  EXPECT_EQ(store_.open(meta_of(2).key).error().code, ErrorCode::corrupted);
}

TEST_F(CheckpointStoreTest, a_full_disk_leaves_earlier_checkpoints_and_no_temporary) {
  write(1);
  FaultFileSystem faults(disk_);
  CheckpointStore store(faults, "/checkpoints");
  for (std::uint64_t budget : {0, 10, 500, 1500, 2500}) {
    faults.disk_full_after(budget);
    Result<Manifest> done = store.write(meta_of(2), small_.view());
    ASSERT_FALSE(done.has_value()) << budget;
    EXPECT_EQ(done.error().code, ErrorCode::disk_full);
    EXPECT_EQ(steps(), std::vector<std::uint64_t>{1});
    EXPECT_FALSE(has_leftovers());
    EXPECT_TRUE(store_.verify(meta_of(1).key).has_value());
  }
  EXPECT_EQ(faults.fired(), 5u);
  faults.heal();
  EXPECT_TRUE(store.write(meta_of(2), small_.view()).has_value());
}

TEST_F(CheckpointStoreTest, a_disk_that_is_too_small_is_told_before_writing) {
  disk_.set_capacity(1000);
  Result<Manifest> done = store_.write(meta_of(2), state_.view());
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, ErrorCode::disk_full);
  EXPECT_NE(done.error().detail.find("4649068"), std::string::npos) << done.error().detail;
}

TEST_F(CheckpointStoreTest, each_failing_operation_is_reported_and_nothing_half_is_seen) {
  write(1);
  for (FileOperation operation :
       {FileOperation::write_new, FileOperation::append, FileOperation::sync, FileOperation::rename,
        FileOperation::sync_folder, FileOperation::create_folder}) {
    for (std::uint64_t nth = 0;; ++nth) {
      FaultFileSystem faults(disk_);
      CheckpointStore store(faults, "/checkpoints");
      faults.fail(operation, nth);
      Result<Manifest> done = store.write(meta_of(2), small_.view());
      if (faults.fired() == 0) {
        EXPECT_GT(nth, 0u);
        ASSERT_TRUE(done.has_value());
        ASSERT_TRUE(store_.remove(meta_of(2).key).has_value());
        break;
      }
      ASSERT_FALSE(done.has_value());
      EXPECT_EQ(done.error().code, ErrorCode::io_error);
      EXPECT_EQ(steps(), std::vector<std::uint64_t>{1});
      EXPECT_FALSE(has_leftovers());
    }
  }
}

// The central promise: visible means whole, reported means durable, whenever the power goes.
TEST_F(CheckpointStoreTest, a_crash_at_any_moment_shows_whole_checkpoints_only) {
  int seen_new = 0, seen_old = 0;
  for (std::uint64_t moment = 0; moment < 40; ++moment) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      MemoryFileSystem disk;
      CheckpointStore before(disk, "/c");
      ASSERT_TRUE(before.write(meta_of(1), small_.view()).has_value());
      FaultFileSystem faults(disk);
      CheckpointStore dying(faults, "/c");
      faults.die_after(moment);
      bool reported = dying.write(meta_of(2), small_.view()).has_value();
      Rng rng(seed);
      disk.crash(rng);
      CheckpointStore after(disk, "/c");
      ASSERT_TRUE(after.clean_up().has_value());
      Result<std::vector<CheckpointKey>> keys = after.list(kJob);
      ASSERT_TRUE(keys.has_value());
      ASSERT_GE(keys->size(), 1u);
      for (const CheckpointKey& key : *keys) EXPECT_TRUE(after.verify(key).has_value());
      bool is_there = keys->size() == 2;
      EXPECT_TRUE(is_there || !reported) << "moment " << moment << " seed " << seed;
      (is_there ? seen_new : seen_old)++;
    }
  }
  EXPECT_GT(seen_new, 10);
  EXPECT_GT(seen_old, 10);
}

std::vector<std::string> points_passed;

TEST_F(CheckpointStoreTest, the_fault_points_of_the_kill_test_are_passed_in_order) {
  points_passed.clear();
  fault_hook = [](std::string_view point, std::uint64_t step) {
    points_passed.push_back(std::string(point) + " " + std::to_string(step));
  };
  ASSERT_TRUE(store_.write(meta_of(4), small_.view(false)).has_value());
  fault_hook = nullptr;
  EXPECT_EQ(points_passed, (std::vector<std::string>{"checkpoint.shard 4", "checkpoint 4",
                                                     "checkpoint.renamed 4"}));
}

TEST_F(CheckpointStoreTest, what_a_crash_left_is_cleaned_up_and_never_listed) {
  write(1);
  std::string folder = "/checkpoints/" + kJob.text();
  ASSERT_TRUE(disk_.create_folder(folder + "/.tmp-1-0-9").has_value());
  ASSERT_TRUE(disk_.create_folder(folder + "/.trash-1-0-8").has_value());
  ASSERT_TRUE(disk_.create_folder(folder + "/notes").has_value());
  EXPECT_EQ(steps(), std::vector<std::uint64_t>{1});
  ASSERT_TRUE(store_.clean_up().has_value());
  EXPECT_FALSE(has_leftovers());
  EXPECT_TRUE(disk_.exists(folder + "/notes"));
}

TEST_F(CheckpointStoreTest, retention_keeps_the_newest_and_every_marked_one) {
  for (std::uint64_t step : {10, 20, 30, 40, 50, 60, 70}) write(step);
  Result<std::vector<CheckpointKey>> gone = store_.apply(kJob, {.newest = 2, .every_steps = 30});
  ASSERT_TRUE(gone.has_value());
  EXPECT_EQ(gone->size(), 4u);
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{30, 60, 70}));
  ASSERT_TRUE(store_.apply(kJob, {.newest = 0}).has_value());
  EXPECT_EQ(steps(), std::vector<std::uint64_t>{70});
}

TEST(Retention, never_gives_up_the_newest_of_any_job) {
  std::vector<CheckpointKey> keys;
  for (std::uint64_t job = 0; job < 3; ++job)
    for (std::uint64_t step = 1; step <= job + 1; ++step) keys.push_back({{job, 0}, 1, 0, step});
  std::vector<CheckpointKey> gone = expired(keys, {.newest = 0});
  EXPECT_EQ(gone.size(), 3u);
  for (const CheckpointKey& key : gone) EXPECT_LT(key.step, key.job.high + 1);
  EXPECT_TRUE(expired({}, {}).empty());
}

TEST(Retention, keeps_the_furthest_one_until_a_later_one_behind_it_is_durable) {
  JobId job{1, 1};
  CheckpointKey far{job, {1, 1}, 900}, back{job, {2, 1}, 500}, later{job, {2, 1}, 520};
  const std::vector<CheckpointKey> keys = {far, back, later};
  EXPECT_EQ(expired(keys, {.newest = 1}), (std::vector{back})) << "nothing is known to be durable";
  EXPECT_EQ(expired(keys, {.newest = 1, .durable = far}), (std::vector{back}));
  EXPECT_EQ(expired(keys, {.newest = 1, .durable = back}), (std::vector{far}));
  EXPECT_EQ(expired(keys, {.newest = 1, .durable = later}), (std::vector{far, back}));
}

TEST(Retention, keeps_the_durable_floor_and_what_it_is_told_to) {
  JobId job{1, 1};
  std::vector<CheckpointKey> keys;
  for (std::uint64_t step = 10; step <= 60; step += 10) keys.push_back({job, 1, 0, step});
  EXPECT_EQ(expired(keys, {.newest = 2, .durable = keys[0], .keep = {keys[2]}}),
            (std::vector{keys[1], keys[3]}));
}

TEST_F(CheckpointStoreTest, a_damaged_one_is_set_aside_with_its_reason_and_stays_there) {
  for (std::uint64_t step : {1, 2, 3}) write(step);
  const CheckpointKey key = meta_of(2).key;
  disk_.truncate(shard(2, "manifest"), 10);
  const std::string reason = store_.verify(key).error().message();
  Result<Damaged> aside = store_.set_aside(key, reason);
  ASSERT_TRUE(aside.has_value()) << aside.error().message();
  EXPECT_EQ(aside->path.string(), "/checkpoints/" + kJob.text() + "/damaged/" + key.text() + "-1");
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{1, 3}));
  write(2);  // the name is free, and the second damaged one does not replace the first
  disk_.damage(shard(2, "weight-000.safetensors"), 500);
  ASSERT_TRUE(store_.set_aside(key, "a flipped bit").has_value());
  disk_.crash();
  ASSERT_TRUE(store_.clean_up().has_value());
  ASSERT_TRUE(store_.apply(kJob, {.newest = 1}).has_value());
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{3}));
  Result<std::vector<Damaged>> damaged = store_.damaged(kJob);
  ASSERT_TRUE(damaged.has_value());
  ASSERT_EQ(damaged->size(), 2u);
  EXPECT_EQ((*damaged)[0].reason, reason);
  EXPECT_EQ((*damaged)[1].reason, "a flipped bit");
  EXPECT_EQ((*damaged)[1].key, key);
  EXPECT_TRUE(disk_.exists((*damaged)[1].path / "weight-000.safetensors"));
  EXPECT_EQ(store_.set_aside(key, "again").error().code, ErrorCode::not_found);
}

TEST_F(CheckpointStoreTest, one_is_set_aside_or_where_it_was_whenever_the_power_goes) {
  bool seen_aside = false, seen_there = false;
  for (std::uint64_t moment = 0; moment < 8; ++moment) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      MemoryFileSystem disk;
      CheckpointStore before(disk, "/c");
      ASSERT_TRUE(before.write(meta_of(1), small_.view()).has_value());
      FaultFileSystem faults(disk);
      CheckpointStore dying(faults, "/c");
      faults.die_after(moment);
      (void)dying.set_aside(meta_of(1).key, "why");
      Rng rng(seed);
      disk.crash(rng);
      CheckpointStore after(disk, "/c");
      const bool there = !after.list(kJob)->empty(), aside = !after.damaged(kJob)->empty();
      EXPECT_TRUE(there || aside) << "moment " << moment << " seed " << seed;
      (aside ? seen_aside : seen_there) = true;
    }
  }
  EXPECT_TRUE(seen_aside && seen_there);
}

TEST_F(CheckpointStoreTest, a_disk_too_full_for_the_reason_does_not_keep_it_in_the_way) {
  write(1);
  disk_.set_capacity(0);
  ASSERT_TRUE(store_.set_aside(meta_of(1).key, "why").has_value());
  EXPECT_TRUE(steps().empty());
  ASSERT_EQ(store_.damaged(kJob)->size(), 1u);
}

TEST_F(CheckpointStoreTest, reading_every_byte_tells_how_far_it_is) {
  ASSERT_TRUE(store_.write(meta_of(1), state_.view()).has_value());
  std::vector<std::uint64_t> told;
  std::uint64_t all = 0;
  ASSERT_TRUE(store_
                  .verify(meta_of(1).key,
                          [&](std::uint64_t read, std::uint64_t of) {
                            told.push_back(read);
                            all = of;
                          })
                  .has_value());
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_EQ(told.back(), all);
  EXPECT_EQ(all, store_.open(meta_of(1).key)->manifest().size_bytes());
}

TEST_F(CheckpointStoreTest, unknown_checkpoints_are_not_found_and_no_folder_is_no_checkpoint) {
  EXPECT_TRUE(store_.list(kJob)->empty());
  EXPECT_TRUE(store_.list()->empty());
  EXPECT_TRUE(store_.clean_up().has_value());
  EXPECT_EQ(store_.open(meta_of(1).key).error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace gpunode::snapshot
