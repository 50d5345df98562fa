#include "runtime/membership/member_names.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/runtime/membership/records.hpp"

namespace gpunode::membership {
namespace {

TEST(MemberNames, OfTwoWithOneNameTheLaterIsShownWithItsId) {
  MemberRecord first = test_record(1), second = test_record(2), third = test_record(3);
  first.name = second.name = "box";
  const auto names = display_names({second, third, first});
  EXPECT_EQ(names.at(first.id), "box");
  EXPECT_EQ(names.at(second.id), "box~" + second.id.short_text());
  EXPECT_EQ(names.at(third.id), "node3");
  EXPECT_EQ(names, display_names({first, second, third}));
}

TEST(MemberNames, WhereShortIdsAgreeTheWholeIdIsShown) {
  MemberRecord first = test_record(1), second = test_record(1), third = test_record(1);
  first.name = second.name = third.name = "box";
  second.id.value[20] = std::byte{1};
  third.id.value[20] = std::byte{2};
  const auto names = display_names({first, second, third});
  EXPECT_EQ(names.at(second.id), "box~" + second.id.text());
  EXPECT_NE(names.at(second.id), names.at(third.id));
}

TEST(MemberNames, AMemberWithoutANameIsShownByItsId) {
  MemberRecord record = test_record(4);
  record.name.clear();
  EXPECT_EQ(display_names({record}).at(record.id), record.id.short_text());
}

}  // namespace
}  // namespace gpunode::membership
