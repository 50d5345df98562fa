#include "runtime/base/precision.hpp"

#include <gtest/gtest.h>

namespace gpunode {
namespace {

TEST(Precision, is_read_as_it_is_written) {
  for (const Precision one : {Precision::fp32, Precision::bf16, Precision::tf32}) {
    const auto read = parse_precision(to_string(one));
    ASSERT_TRUE(read);
    EXPECT_EQ(*read, one);
  }
}

TEST(Precision, says_what_to_use_instead_of_those_it_does_not_have) {
  const auto refused = parse_precision("fp16");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_NE(refused.error().detail.find("bf16"), std::string::npos);
  const auto unknown = parse_precision("float");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace gpunode
