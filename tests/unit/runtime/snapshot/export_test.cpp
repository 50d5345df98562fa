#include "runtime/snapshot/export.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>

#include "runtime/snapshot/checkpoint_store.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/memory_file_system.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/unit/runtime/snapshot/state_fixture.hpp"

namespace gpunode::snapshot {
namespace {

using gpunode::testing::FaultFileSystem;
using gpunode::testing::MemoryFileSystem;
using testing::meta_of;
using testing::State;

class ExportTest : public ::testing::Test {
 protected:
  Result<void> load(const storage::Path& path, const StateTarget& target) {
    const auto file = SafetensorsFile::open(disk_, path);
    return file ? load_exported(*file, target) : file.error();
  }
  Result<ModelDescription> described(const storage::Path& path) {
    const auto file = SafetensorsFile::open(disk_, path);
    return file ? described_in(*file) : file.error();
  }
  Checkpoint checkpoint(const CheckpointMeta& meta, const StateView& state,
                        StoreOptions options = {}) {
    CheckpointStore store(disk_, "/c", options);
    EXPECT_TRUE(store.write(meta, state).has_value());
    Result<Checkpoint> opened = store.open(meta.key);
    EXPECT_TRUE(opened.has_value());
    return std::move(*opened);
  }
  std::ptrdiff_t temporaries() {
    return std::ranges::count_if(*disk_.list("/"), storage::is_temporary, &storage::Entry::name);
  }
  MemoryFileSystem disk_;
  State state_{1};
};

// Golden: two runs, or two releases, are compared by this hash.
TEST_F(ExportTest, bytes_are_fixed_for_good) {
  std::array<float, 2> weight{1.0f, -2.5f};
  StateView state;
  state.parameters.push_back({"w", {2, 1}, weight, {}, {}});
  Result<Export> done = export_weights(disk_, {"gpt", {{"layers", "4"}}}, state, "/out");
  ASSERT_TRUE(done.has_value());
  Result<Bytes> bytes = disk_.read("/out", 1000);
  std::string json = R"({"__metadata__":{"format":"gpunode","model":"gpt","model.layers":"4"},)"
                     R"("w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}})";
  while (json.size() % 8 != 0) json += ' ';
  EXPECT_EQ(as_text(ByteView(*bytes).subspan(8, json.size())), json);
  EXPECT_EQ(to_hex(ByteView(*bytes).last(8)), "0000803f000020c0");
  EXPECT_EQ(to_hex(ByteView(*bytes).first(8)), "8000000000000000");
  EXPECT_EQ(done->size_bytes, bytes->size());
  EXPECT_EQ(done->sha256, storage::sha256_of(*bytes));
  EXPECT_EQ(done->sha256.text(),
            "a7f2d79655a7cbab3b105ef5866d1998a490d10226f3eafa894583f14c49140a");
}

TEST_F(ExportTest, depends_on_model_and_weights_and_on_nothing_else) {
  CheckpointMeta other = meta_of(77, 3);
  other.key.job = {9, 9};
  other.job_name = "another";
  other.sample_sum = {};
  other.unix_seconds = 5;
  State moments(1);
  Result<Export> first = export_weights(disk_, checkpoint(meta_of(1), state_.view()), "/a");
  Result<Export> second =
      export_weights(disk_, checkpoint(other, moments.view(false), {.shard_bytes = 100}), "/b");
  StateView reversed = state_.view();
  std::reverse(reversed.parameters.begin(), reversed.parameters.end());
  Result<Export> third = export_weights(disk_, meta_of(1).model, reversed, "/d");
  ASSERT_TRUE(first.has_value() && second.has_value() && third.has_value());
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(*first, *third);
  EXPECT_EQ(*disk_.read("/a", 1u << 30), *disk_.read("/b", 1u << 30));
  EXPECT_EQ(storage::sha256_of(*disk_.read("/a", 1u << 30)), first->sha256);
  ModelDescription changed = meta_of(1).model;
  changed.settings["layers"] = "5";
  EXPECT_NE(export_weights(disk_, changed, state_.view(), "/e")->sha256, first->sha256);
  EXPECT_NE(export_weights(disk_, meta_of(1).model, State(2).view(), "/f")->sha256, first->sha256);
}

TEST_F(ExportTest, is_loaded_back_bit_for_bit) {
  ASSERT_TRUE(export_weights(disk_, meta_of(1).model, state_.view(), "/a").has_value());
  EXPECT_EQ(*described("/a"), meta_of(1).model);
  State read(2);
  Result<void> done = load("/a", read.target());
  ASSERT_TRUE(done.has_value()) << done.error().message();
  EXPECT_EQ(state_digest(read.view(false)), state_digest(state_.view(false)));
}

TEST_F(ExportTest, another_model_is_refused_by_name) {
  ASSERT_TRUE(export_weights(disk_, meta_of(1).model, state_.view(), "/a").has_value());
  State other(1, 200);
  Result<void> done = load("/a", other.target());
  EXPECT_EQ(done.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(done.error().detail.find("embedding"), std::string::npos);
  State same(1);
  StateTarget fewer = same.target();
  fewer.parameters.pop_back();
  EXPECT_FALSE(load("/a", fewer).has_value());
}

TEST_F(ExportTest, every_truncation_of_a_file_is_refused) {
  State small(1, 100);
  ASSERT_TRUE(export_weights(disk_, meta_of(1).model, small.view(), "/a").has_value());
  std::uint64_t size = disk_.inspect("/a")->size_bytes;
  for (std::uint64_t left = size; left-- > 0;) {
    disk_.truncate("/a", left);
    EXPECT_FALSE(load("/a", small.target()).has_value());
    EXPECT_EQ(described("/a").error().code, ErrorCode::corrupted);
  }
}

TEST_F(ExportTest, a_damaged_shard_stops_it_and_the_old_file_stays) {
  Checkpoint opened = checkpoint(meta_of(1), state_.view());
  ASSERT_TRUE(export_weights(disk_, opened, "/a").has_value());
  Bytes old = *disk_.read("/a", 1u << 30);
  disk_.damage(opened.folder() / "weight-000.safetensors", 1'100'000);
  Result<Export> done = export_weights(disk_, opened, "/a");
  ASSERT_FALSE(done.has_value());
  EXPECT_NE(done.error().detail.find("weight-000.safetensors, bytes 1048576"), std::string::npos);
  EXPECT_EQ(*disk_.read("/a", 1u << 30), old);
  EXPECT_EQ(temporaries(), 0);
}

TEST_F(ExportTest, a_full_disk_stops_it_and_leaves_no_temporary) {
  FaultFileSystem faults(disk_);
  faults.disk_full_after(1000);
  Result<Export> done = export_weights(faults, meta_of(1).model, state_.view(), "/a");
  EXPECT_EQ(done.error().code, ErrorCode::disk_full);
  EXPECT_FALSE(disk_.exists("/a"));
  EXPECT_EQ(temporaries(), 0);
}

// Another program's eyes: Python's struct and json, nothing of ours.
TEST_F(ExportTest, another_program_reads_the_same_values) {
  if (::access("/usr/bin/python3", X_OK) != 0) GTEST_SKIP() << "no /usr/bin/python3";
  gpunode::testing::TemporaryFolder folder;
  storage::PosixFileSystem files;
  storage::Path path = folder.path() / "weights.safetensors";
  ASSERT_TRUE(export_weights(files, meta_of(1).model, state_.view(), path).has_value());
  std::string command =
      "/usr/bin/python3 -c \"import json,struct,sys\n"
      "b=open(sys.argv[1],'rb').read(); n=struct.unpack('<Q',b[:8])[0]; h=json.loads(b[8:8+n])\n"
      "t=h['blocks.0.bias']; s,e=t['data_offsets']; d=b[8+n:]\n"
      "assert max(v['data_offsets'][1] for k,v in h.items() if k!='__metadata__')==len(d)\n"
      "print(t['dtype'],t['shape'],d[s:e].hex())\" " +
      path.string();
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), &::pclose);
  std::array<char, 512> line{};
  ASSERT_NE(std::fgets(line.data(), line.size(), pipe.get()), nullptr);
  EXPECT_EQ(std::string(line.data()),
            "F32 [5] " + to_hex(bytes_of(state_.view().parameters[2][TensorPart::weight])) + "\n");
}

}  // namespace
}  // namespace gpunode::snapshot
