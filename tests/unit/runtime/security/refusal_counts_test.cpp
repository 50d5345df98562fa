// Refusals of members are counted, a line a member however much it asks.
#include "runtime/security/refusal_counts.hpp"

#include <gtest/gtest.h>

namespace gpunode::security {
namespace {

TEST(RefusalCounts, counts_each_member_and_begins_anew_when_taken) {
  RefusalCounts counts;
  NodeId one, other;
  other.value[0] = std::byte{1};
  for (int i = 0; i < 1000; ++i) counts.add(one, "job." + std::to_string(i));
  counts.add(other, "queue.keep");
  const auto taken = counts.take();
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken.at(one).count, 1000u);
  EXPECT_EQ(taken.at(one).newest, "job.999");
  EXPECT_EQ(taken.at(other).count, 1u);
  EXPECT_TRUE(counts.take().empty());
}

}  // namespace
}  // namespace gpunode::security
