// How work becomes a CUDA graph, against a driver that writes down what it is asked: captured once,
// started by one call, and whatever is refused leaves a stream that can be used and nothing behind.
#include <gtest/gtest.h>

#include "kernels/cuda/toolkit/noted_work.hpp"

namespace gpunode::cuda {
namespace {

using Calls = std::vector<std::string>;

struct EmulatedGraph : ::testing::Test {
  emulation::GraphDriver& driver = emulation::graph_driver();
  EmulatedGraph() { driver = {}; }
  std::unique_ptr<CapturedGraph> capture(bool is_queued = true) {
    return CapturedGraph::capture(nullptr, [&, is_queued] {
      EXPECT_TRUE(driver.is_capturing);
      driver.calls.push_back("work");
      return is_queued;
    });
  }
};

TEST_F(EmulatedGraph, is_captured_once_and_started_by_one_call_each_time) {
  {
    const auto graph = capture();
    ASSERT_TRUE(graph);
    EXPECT_EQ(driver.calls, (Calls{"begin", "work", "end", "instantiate"}));
    EXPECT_EQ(driver.alive, 1) << "the form that it was made from is not needed any more";
    driver.calls.clear();
    EXPECT_EQ(graph->launch(nullptr), cudaSuccess);
    EXPECT_EQ(graph->launch(nullptr), cudaSuccess);
    EXPECT_EQ(driver.calls, (Calls{"launch", "launch"}));
    driver.refused = "launch";
    EXPECT_NE(graph->launch(nullptr), cudaSuccess);
  }
  EXPECT_EQ(driver.alive, 0);
}

TEST_F(EmulatedGraph, that_is_refused_leaves_the_stream_as_it_was) {
  for (const char* refused : {"begin", "end", "instantiate"}) {
    driver = {};
    driver.refused = refused;
    EXPECT_FALSE(capture()) << refused;
    EXPECT_FALSE(driver.is_capturing) << refused;
    EXPECT_EQ(driver.alive, 0) << refused;
  }
  driver = {};
  EXPECT_FALSE(capture(false)) << "the work could not be queued";
  EXPECT_FALSE(driver.is_capturing);
  EXPECT_EQ(driver.calls, (Calls{"begin", "work", "end"}));
  EXPECT_EQ(driver.alive, 0);
}

}  // namespace
}  // namespace gpunode::cuda
