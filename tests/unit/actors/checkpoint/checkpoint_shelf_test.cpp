// The checkpoints of a job on one disk: which one is taken, and what becomes of damaged ones.
#include "actors/checkpoint/checkpoint_shelf.hpp"

#include <gtest/gtest.h>

#include "kernels/model/registry.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/memory_file_system.hpp"

namespace gpunode::checkpoint {
namespace {

using gpunode::testing::FaultFileSystem;
using gpunode::testing::FileOperation;
using gpunode::testing::MemoryFileSystem;

class Shelf : public ::testing::Test {
 protected:
  void SetUp() override {
    auto model = model::make_model(
        "gpt", {{"layers", "1"}, {"heads", "1"}, {"channels", "16"}, {"context", "8"}});
    ASSERT_TRUE(model.has_value()) << model.error().message();
    model_ = std::move(*model);
  }
  CheckpointShelf open() {
    CheckpointOptions options;
    options.job = kJob;
    options.spec.name = "small";
    options.spec.checkpoint.keep = 3;
    options.model = model_;
    options.files = &faults_;
    options.root = "/c";
    options.clock = &clock_;
    return CheckpointShelf(std::move(options));
  }
  // The state is `value` everywhere, and its digest too.
  WriteCheckpoint order(std::uint64_t step, float value, std::uint32_t rollbacks = 0) {
    Bytes bytes(3 * model_->parameter_count() * sizeof(float));
    std::fill_n(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float), value);
    WriteCheckpoint order;
    order.step = step;
    order.history = {1 + rollbacks, 0};
    order.state_digest = {static_cast<std::uint64_t>(value), 1};
    order.state = SharedBytes::from(std::move(bytes));
    return order;
  }
  storage::Path folder(std::uint64_t step) {
    return storage::Path("/c") / kJob.text() / ("1-0000000000000000-" + std::to_string(step));
  }
  void flip_a_bit(std::uint64_t step) {
    disk_.damage(folder(step) / "second_moment-000.safetensors", 2000);
  }
  float first_value(const SharedBytes& state) {
    return *reinterpret_cast<const float*>(state.view.data());
  }

  static constexpr JobId kJob{1, 1};
  std::shared_ptr<const model::Model> model_;
  MemoryFileSystem disk_;
  FaultFileSystem faults_{disk_};
  FakeClock clock_;
};

// A lying member may have given it to a witness.
TEST_F(Shelf, a_state_of_another_size_is_refused_and_the_process_goes_on) {
  CheckpointShelf shelf = open();
  WriteCheckpoint copy = order(4, 1);
  copy.copy = true;
  copy.state = SharedBytes::from(Bytes(12));
  const auto write = [&] { std::exit(shelf.write(copy).has_value() ? 1 : 0); };
  EXPECT_EXIT(write(), ::testing::ExitedWithCode(0), "");
}

TEST_F(Shelf, what_a_part_that_gave_way_had_made_bears_its_name_no_longer) {
  CheckpointShelf shelf = open();
  ASSERT_TRUE(shelf.write(order(10, 1)).has_value());
  ASSERT_TRUE(shelf.write(order(20, 2)).has_value());
  ASSERT_TRUE(shelf.write(order(20, 7, 1)).has_value());
  ASSERT_TRUE(shelf.give_up({{1, 0}, 10}, "of another part").has_value());
  EXPECT_EQ(first_value(*shelf.read(20)), 7) << "of another history";
  EXPECT_EQ(first_value(*shelf.read(10)), 1);
  const CheckpointsFound found = open().find();
  ASSERT_EQ(found.damaged.size(), 1u) << "kept for people";
  EXPECT_EQ(found.damaged[0].name, (view::CheckpointName{{1, 0}, 20}));
  EXPECT_EQ(found.damaged[0].reason, "of another part");
}

TEST_F(Shelf, the_newest_intact_one_is_found_and_each_damaged_one_on_the_way_is_set_aside) {
  for (std::uint64_t step : {10, 20, 30}) ASSERT_TRUE(open().write(order(step, 1)).has_value());
  flip_a_bit(20);
  disk_.truncate(folder(30) / "manifest", 40);
  CheckpointShelf shelf = open();
  const CheckpointsFound found = shelf.find();
  EXPECT_EQ(found.newest.step, 10u);
  EXPECT_EQ(found.newest.history, (HistoryId{1, 0}));
  ASSERT_EQ(found.lost.size(), 2u);
  EXPECT_EQ(found.lost[0].name.step, 30u);
  EXPECT_NE(found.lost[0].reason.find("manifest"), std::string::npos) << found.lost[0].reason;
  EXPECT_EQ(found.lost[1].name.step, 20u);
  EXPECT_NE(found.lost[1].reason.find("second_moment-000"), std::string::npos);
  for (const DamagedCheckpoint& one : found.lost) EXPECT_TRUE(disk_.exists(one.path)) << one.path;
  EXPECT_FALSE(disk_.exists(folder(20)));
  EXPECT_EQ(found.damaged.size(), 2u);
  EXPECT_FALSE(shelf.has_lost()) << "it was told";
  // A later life names them, and has lost nothing itself.
  CheckpointShelf later = open();
  EXPECT_FALSE(later.has_lost());
  const CheckpointsFound again = later.find();
  EXPECT_EQ(again.newest.step, 10u);
  EXPECT_TRUE(again.lost.empty());
  EXPECT_EQ(again.damaged.size(), 2u);
}

TEST_F(Shelf, all_are_damaged_and_none_is_left) {
  for (std::uint64_t step : {10, 20}) ASSERT_TRUE(open().write(order(step, 1)).has_value());
  flip_a_bit(10);
  flip_a_bit(20);
  const CheckpointsFound found = open().find();
  EXPECT_EQ(found.newest.step, 0u);
  EXPECT_EQ(found.lost.size(), 2u);
}

TEST_F(Shelf, one_that_is_damaged_when_it_is_read_is_set_aside_and_what_is_left_is_told) {
  CheckpointShelf shelf = open();
  for (std::uint64_t step : {10, 20}) ASSERT_TRUE(shelf.write(order(step, 2)).has_value());
  flip_a_bit(20);
  EXPECT_EQ(shelf.read(20).error().code, ErrorCode::corrupted);
  EXPECT_TRUE(shelf.has_lost());
  const CheckpointsFound found = shelf.find();
  EXPECT_EQ(found.newest.step, 10u);
  ASSERT_EQ(found.lost.size(), 1u);
  EXPECT_EQ(found.lost[0].name, (view::CheckpointName{{1, 0}, 20}));
  auto state = shelf.read(10);
  ASSERT_TRUE(state.has_value());
  EXPECT_EQ(first_value(*state), 2);
}

TEST_F(Shelf, one_that_vanished_is_told_by_the_name_that_it_had) {
  CheckpointShelf shelf = open();
  for (std::uint64_t step : {10, 20}) ASSERT_TRUE(shelf.write(order(step, 2)).has_value());
  EXPECT_EQ(shelf.find().newest.step, 20u);
  ASSERT_TRUE(disk_.remove(folder(20)).has_value());
  EXPECT_EQ(shelf.read(20).error().code, ErrorCode::not_found);
  const CheckpointsFound found = shelf.find();
  EXPECT_EQ(found.newest.step, 10u);
  ASSERT_EQ(found.lost.size(), 1u);
  EXPECT_EQ(found.lost[0].name, (view::CheckpointName{{1, 0}, 20}));
}

TEST_F(Shelf, an_equal_one_is_not_written_again_and_one_that_differs_makes_way) {
  ASSERT_TRUE(open().write(order(10, 1)).has_value());
  CheckpointShelf shelf = open();
  ASSERT_TRUE(shelf.write(order(10, 1)).has_value());
  EXPECT_FALSE(shelf.has_lost());
  ASSERT_TRUE(shelf.write(order(10, 3)).has_value());
  const CheckpointsFound found = shelf.find();
  EXPECT_EQ(found.newest.state_digest, (Digest{3, 1}));
  ASSERT_EQ(found.lost.size(), 1u);
  EXPECT_NE(found.lost[0].reason.find("holds the state"), std::string::npos);
  EXPECT_EQ(first_value(*shelf.read(10)), 3);
}

TEST_F(Shelf, one_of_the_same_name_that_is_damaged_is_written_anew) {
  ASSERT_TRUE(open().write(order(10, 1)).has_value());
  flip_a_bit(10);
  CheckpointShelf shelf = open();
  ASSERT_TRUE(shelf.write(order(10, 1)).has_value());
  const CheckpointsFound found = shelf.find();
  EXPECT_EQ(found.newest.step, 10u);
  EXPECT_EQ(found.lost.size(), 1u);
  EXPECT_EQ(first_value(*shelf.read(10)), 1);
}

TEST_F(Shelf, one_that_cannot_be_moved_is_passed_over_and_outlives_retention) {
  for (std::uint64_t step : {10, 20}) ASSERT_TRUE(open().write(order(step, 1)).has_value());
  flip_a_bit(20);
  faults_.fail(FileOperation::rename, 0, ErrorCode::permission_denied);
  CheckpointShelf shelf = open();
  const CheckpointsFound found = shelf.find();
  EXPECT_EQ(faults_.fired(), 1u);
  EXPECT_EQ(found.newest.step, 10u);
  ASSERT_EQ(found.lost.size(), 1u);
  EXPECT_EQ(found.lost[0].path, folder(20).string());
  EXPECT_NE(found.lost[0].reason.find("aside"), std::string::npos) << found.lost[0].reason;
  for (std::uint64_t step : {30, 40, 50, 60, 70})
    ASSERT_TRUE(shelf.write(order(step, 1)).has_value());
  EXPECT_TRUE(disk_.exists(folder(20)));
  EXPECT_FALSE(disk_.exists(folder(10)));
  EXPECT_TRUE(shelf.find().lost.empty()) << "it is told once";
}

TEST_F(Shelf, a_lack_of_memory_or_files_is_no_damage) {
  for (std::uint64_t step : {10, 20}) ASSERT_TRUE(open().write(order(step, 1)).has_value());
  faults_.fail(FileOperation::open, 1, ErrorCode::resource_exhausted);
  const CheckpointsFound found = open().find();
  EXPECT_EQ(faults_.fired(), 1u);
  EXPECT_EQ(found.newest.step, 10u);
  EXPECT_EQ(found.lost.size(), 1u) << "it is named nevertheless";
  EXPECT_TRUE(disk_.exists(folder(20)));
  EXPECT_EQ(open().find().newest.step, 20u);
}

// A part of the job split off, made its turn 2 and gave way: its names are later than all of turn
// 1.
TEST_F(Shelf, what_the_job_came_from_goes_before_later_names_of_a_part_that_gave_way) {
  view::View view;
  view.turns = {{2, 0, 0, view::Turn::Kind::rollback}};
  CheckpointShelf shelf = open();
  ASSERT_TRUE(shelf.write(order(20, 1)).has_value());
  for (std::uint64_t step : {20, 30, 40, 50}) {
    WriteCheckpoint later = order(step, 2, 1);
    later.durable = {{1, 0}, 20};
    ASSERT_TRUE(shelf.write(later).has_value());
  }
  EXPECT_EQ(shelf.find().newest.step, 50u) << "nothing is known of the job";
  shelf.follow(view);
  EXPECT_EQ(shelf.find().newest.name(), (view::CheckpointName{{1, 0}, 20}));
  auto state = shelf.read(20);
  ASSERT_TRUE(state.has_value());
  EXPECT_EQ(first_value(*state), 1.0F);
  ASSERT_TRUE(shelf.write(order(30, 1)).has_value());
  EXPECT_EQ(shelf.find().newest.step, 30u) << "retention has left the newest one that counts";
}

TEST_F(Shelf, one_that_another_hand_set_aside_is_noticed) {
  CheckpointShelf shelf = open();
  for (std::uint64_t step : {10, 20}) ASSERT_TRUE(shelf.write(order(step, 1)).has_value());
  snapshot::CheckpointStore other(disk_, "/c");
  ASSERT_TRUE(other.set_aside({kJob, {1, 0}, 20}, "serving could not read it").has_value());
  EXPECT_TRUE(shelf.has_lost());
  const CheckpointsFound found = shelf.find();
  EXPECT_EQ(found.newest.step, 10u);
  ASSERT_EQ(found.lost.size(), 1u);
  EXPECT_EQ(found.lost[0].reason, "serving could not read it");
}

TEST_F(Shelf, a_disk_that_cannot_be_looked_through_is_told) {
  ASSERT_TRUE(open().write(order(10, 1)).has_value());
  CheckpointShelf shelf = open();
  faults_.fail(FileOperation::list, 1);  // after that of the folder of damaged ones
  const CheckpointsFound found = shelf.find();
  EXPECT_EQ(faults_.fired(), 1u);
  ASSERT_TRUE(found.failed.has_value());
  EXPECT_EQ(found.failed->code, ErrorCode::io_error);
}

TEST_F(Shelf, retention_keeps_the_durable_floor) {
  CheckpointShelf shelf = open();
  ASSERT_TRUE(shelf.write(order(10, 1)).has_value());
  for (std::uint64_t step : {20, 30, 40, 50}) {
    WriteCheckpoint next = order(step, 1);
    next.durable = {{1, 0}, 10};
    ASSERT_TRUE(shelf.write(next).has_value());
  }
  EXPECT_TRUE(disk_.exists(folder(10)));
  EXPECT_FALSE(disk_.exists(folder(20)));
  EXPECT_TRUE(disk_.exists(folder(30)));
}

}  // namespace
}  // namespace gpunode::checkpoint
