#include "actors/inference/row_desk.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <future>
#include <thread>

#include "actors/checkpoint/stored_model.hpp"
#include "actors/inference/served_model.hpp"
#include "actors/inference/tensors.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "tests/support/memory_file_system.hpp"

namespace gpunode::inference {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kFeatures = 5, kClasses = 3;

class RowDeskTest : public ::testing::Test {
 protected:
  RowDeskTest() {
    checkpoint::StoredModel stored;
    stored.model = *model::make_model("mlp", {{"features", std::to_string(kFeatures)},
                                              {"classes", std::to_string(kClasses)},
                                              {"layers", "2"},
                                              {"hidden", "40"}});
    stored.weights.resize(stored.model->parameter_count());
    stored.model->initialise(3, stored.weights);
    EXPECT_TRUE(checkpoint::save_model(disk_, stored, "/file"));
    auto loaded = ServedModel::load(
        {.device = &device(), .files = &disk_, .clock = &clock_, .path = "/file"});
    EXPECT_TRUE(loaded) << loaded.error().message();
    model_ = *std::move(loaded);
    model_->set_version(7);
  }
  compute::NodeDevice& device() { return *devices_.devices()[0]; }
  static InferRequest request(std::size_t rows, int seed) {
    std::vector<float> values(rows * kFeatures);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = std::sin(static_cast<float>(i + 100 * static_cast<std::size_t>(seed)));
    return {{tensor_of("features", TensorKind::fp32,
                       {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(kFeatures)},
                       values)}};
  }
  std::future<Result<InferAnswer>> ask(const InferRequest& request, Duration within = 100s) {
    auto promise = std::make_shared<std::promise<Result<InferAnswer>>>();
    auto answer = promise->get_future();
    desk_.ask(request, "me", clock_.now() + within,
              [promise](Result<InferAnswer> told) { promise->set_value(std::move(told)); });
    return answer;
  }
  // While somebody computes: it waits.
  std::future<Result<InferAnswer>> ask_meanwhile(const InferRequest& request) {
    const auto held = desk_.hold();
    return std::async(std::launch::async, [&] { return ask(request); }).get();
  }
  static bool is_told(const std::future<Result<InferAnswer>>& answer) {
    return answer.wait_for(0s) == std::future_status::ready;
  }

  gpunode::testing::MemoryFileSystem disk_;
  SystemClock clock_;
  compute::DeviceRoster devices_{cpu::open_backend()};
  std::unique_ptr<ServedModel> model_;
  std::atomic<int> called_ = 0;
  RowDesk desk_{clock_, [this] { ++called_; }, 1h};
};

// A text of rows is read on the model's thread, past the desk.
TEST_F(RowDeskTest, TextsOfRowsAndRowsAreComputedSideBySide) {
  desk_.open(*model_);
  const std::string prompt = "0.1,0.2,0.3,0.4,0.5\n";
  const auto alone = model_->generate({.prompt = prompt}, Time::max());
  ASSERT_TRUE(alone) << alone.error().message();
  std::atomic<bool> over = false;
  auto asking = std::async(std::launch::async, [&] {
    int wrong = 0;
    for (std::size_t rows = 1; !over; rows = rows % 64 + 1) {
      const auto told = ask(request(rows, 1)).get();
      wrong += !told || told->outputs.empty();
    }
    return wrong;
  });
  std::string many;
  for (int line = 0; line < 200; ++line) many += prompt;
  for (int time = 0; time < 20; ++time) {
    const auto told = model_->generate({.prompt = many}, Time::max());
    ASSERT_TRUE(told) << told.error().message();
    std::string expected;
    for (int line = 0; line < 200; ++line) expected += alone->text;
    EXPECT_EQ(told->text, expected);
  }
  over = true;
  EXPECT_EQ(asking.get(), 0);
}

TEST_F(RowDeskTest, IsNotOpenBeforeAModelServes) {
  EXPECT_FALSE(desk_.is_open());
  EXPECT_EQ(ask(request(1, 0)).get().error().code, ErrorCode::unavailable);
  desk_.open(*model_);
  EXPECT_TRUE(desk_.is_open());
}

TEST_F(RowDeskTest, AnswersHaveTheSameBitsAloneAndAmongOthers) {
  desk_.open(*model_);
  std::vector<std::future<Result<InferAnswer>>> together, alone;
  for (int i = 0; i < 40; ++i) together.push_back(ask_meanwhile(request(1 + i % 7, i)));
  while (desk_.work()) {
  }
  for (int i = 0; i < 40; ++i) {
    alone.push_back(ask(request(1 + i % 7, i)));
    desk_.work();
  }
  for (std::size_t i = 0; i < alone.size(); ++i) {
    ASSERT_TRUE(is_told(together[i]) && is_told(alone[i])) << i;
    const auto one = together[i].get(), other = alone[i].get();
    ASSERT_TRUE(one && other);
    EXPECT_EQ(one->version, 7u);
    ASSERT_EQ(one->outputs.size(), 2u);
    EXPECT_EQ(one->outputs[1].shape[0], static_cast<std::int64_t>(1 + i % 7));
    for (std::size_t output = 0; output < 2; ++output)
      EXPECT_EQ(one->outputs[output].data, other->outputs[output].data) << i;
  }
}

TEST_F(RowDeskTest, WhoComesWhileNobodyComputesComputesItself) {
  desk_.open(*model_);
  auto waits = ask_meanwhile(request(1, 0));
  EXPECT_FALSE(is_told(waits));
  EXPECT_EQ(called_, 1);
  desk_.work();
  EXPECT_TRUE(waits.get());
  bool at_once = false;  // on a busy machine one or the other may have taken long
  for (int i = 0; i < 100 && !at_once; ++i) {
    auto next = ask(request(1, i));
    at_once = is_told(next);
    desk_.work();
    EXPECT_TRUE(next.get());
  }
  EXPECT_TRUE(at_once);
}

TEST_F(RowDeskTest, OfManyThreadsEachIsAnsweredOnceAndRight) {
  desk_.open(*model_);
  std::vector<Result<InferAnswer>> expected;
  for (int i = 0; i < 8; ++i) {
    auto answer = ask(request(1, i));
    desk_.work();
    expected.push_back(answer.get());
  }
  std::atomic<bool> over = false;
  std::jthread worker([&] {
    while (!over) {
      if (called_.exchange(0) == 0 && !desk_.work()) std::this_thread::yield();
      while (desk_.work()) {
      }
    }
  });
  {
    std::vector<std::jthread> askers;
    for (int asker = 0; asker < 8; ++asker)
      askers.emplace_back([&, asker] {
        for (int i = 0; i < 300; ++i) {
          const auto told = ask(request(1, asker)).get();
          ASSERT_TRUE(told);
          EXPECT_EQ(told->outputs[1].data, expected[asker]->outputs[1].data);
        }
      });
  }
  over = true;
}

TEST_F(RowDeskTest, ThoseThatWaitAreToldWhenTheModelGoes) {
  desk_.open(*model_);
  auto waits = ask_meanwhile(request(1, 0));
  desk_.close();
  ASSERT_TRUE(is_told(waits));
  EXPECT_EQ(waits.get().error().code, ErrorCode::unavailable);
  EXPECT_TRUE(desk_.is_idle());
  EXPECT_FALSE(desk_.work());
}

TEST_F(RowDeskTest, RowsThatAreNoneAreRefused) {
  desk_.open(*model_);
  InferRequest other = request(1, 0);
  other.inputs[0].name = "feature";
  EXPECT_EQ(ask(other).get().error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(ask(request(1, 0), -1s).get().error().code, ErrorCode::timeout);
}

}  // namespace
}  // namespace gpunode::inference
