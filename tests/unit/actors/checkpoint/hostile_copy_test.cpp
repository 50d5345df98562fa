// What comes of a copy that a lying member has given to a witness.
#include <gtest/gtest.h>

#include "actors/checkpoint/checkpoint_shelf.hpp"
#include "kernels/model/registry.hpp"
#include "tests/support/memory_file_system.hpp"

namespace gpunode::checkpoint {
namespace {

using gpunode::testing::MemoryFileSystem;

class HostileCopy : public ::testing::Test {
 protected:
  HostileCopy() {
    model_ = *model::make_model(
        "gpt", {{"layers", "1"}, {"heads", "1"}, {"channels", "16"}, {"context", "8"}});
    CheckpointOptions options;
    options.job = {1, 1};
    options.spec.name = "small";
    options.spec.checkpoint.keep = 3;
    options.model = model_;
    options.files = &disk_;
    options.root = "/c";
    options.clock = &clock_;
    shelf_.emplace(std::move(options));
  }
  WriteCheckpoint copy(std::uint64_t step, std::size_t bytes) {
    WriteCheckpoint order;
    order.step = step;
    order.copy = true;
    order.state = SharedBytes::from(Bytes(bytes));
    return order;
  }
  std::size_t size() const { return 3 * model_->parameter_count() * sizeof(float); }

  std::shared_ptr<const model::Model> model_;
  MemoryFileSystem disk_;
  FakeClock clock_;
  std::optional<CheckpointShelf> shelf_;
};

TEST_F(HostileCopy, a_state_of_another_size_is_refused_and_the_process_goes_on) {
  const auto write = [&] { std::exit(shelf_->write(copy(4, 12)).has_value() ? 1 : 0); };
  EXPECT_EXIT(write(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace gpunode::checkpoint
