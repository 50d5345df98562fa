#include "actors/node/job_line.hpp"

#include <gtest/gtest.h>

namespace gpunode::node {
namespace {

TEST(JobPlace, is_equal_for_processes_of_one_machine) {
  EXPECT_EQ(place_of("machine", {}, "one"), place_of("machine", {"rack=1"}, "one"));
  EXPECT_NE(place_of("machine", {}, "one"), place_of("machine", {}, "another"));
  EXPECT_EQ(place_of("machine", {}, ""), 0u) << "unknown is like no other";
}

TEST(JobPlace, is_equal_for_equal_values_of_the_label) {
  EXPECT_EQ(place_of("rack", {"gpu", "rack=1"}, "one"), place_of("rack", {"rack=1"}, "another"));
  EXPECT_NE(place_of("rack", {"rack=1"}, "one"), place_of("rack", {"rack=2"}, "one"));
  EXPECT_NE(place_of("rack", {"rack=1"}, "one"), 0u);
  EXPECT_EQ(place_of("rack", {"racks=1", "rack"}, "one"), 0u);
}

}  // namespace
}  // namespace gpunode::node
