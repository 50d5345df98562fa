#include "actors/node/detail/devices.hpp"

#include <gtest/gtest.h>

namespace gpunode::node {
namespace {

TEST(Devices, takes_what_there_is_unless_told) {
  for (const char* text : {"", "auto"}) {
    const auto choice = parse_devices(text);
    ASSERT_TRUE(choice) << text;
    EXPECT_TRUE(choice->uses_gpus);
    EXPECT_FALSE(choice->is_must) << "a node without a GPU computes on its CPU";
    EXPECT_TRUE(choice->ordinals.empty());
  }
  const auto cpu = parse_devices("cpu");
  ASSERT_TRUE(cpu);
  EXPECT_FALSE(cpu->uses_gpus);
}

TEST(Devices, wants_the_gpus_that_are_named) {
  const auto all = parse_devices("cuda");
  ASSERT_TRUE(all);
  EXPECT_TRUE(all->is_must);
  EXPECT_TRUE(all->ordinals.empty());
  const auto two = parse_devices("cuda:2,0");
  ASSERT_TRUE(two);
  EXPECT_TRUE(two->is_must);
  EXPECT_EQ(two->ordinals, (std::set<int>{0, 2}));
}

TEST(Devices, refuses_what_names_none) {
  for (const char* text : {"gpu", "CUDA", "cuda:", "cuda:x", "cuda:0,", "cuda:0,,1", "cuda:-1",
                           "cuda:0,0", "cuda:0 1", "cuda:99999999999", "cpu,cuda"}) {
    const auto choice = parse_devices(text);
    ASSERT_FALSE(choice) << text;
    EXPECT_EQ(choice.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(choice.error().detail.find(text), std::string::npos);
  }
}

}  // namespace
}  // namespace gpunode::node
