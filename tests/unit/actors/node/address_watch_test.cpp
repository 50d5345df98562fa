#include "actors/node/address_watch.hpp"

#include <gtest/gtest.h>

namespace gpunode::node {
namespace {

using Texts = std::vector<std::string>;

TEST(AddressWatch, an_address_that_appears_is_told_once_it_is_there_for_two_looks) {
  AddressWatch watch("127.0.0.1");
  EXPECT_FALSE(watch.on_look({}));
  EXPECT_FALSE(watch.on_look({"10.0.0.5"}));
  EXPECT_EQ(watch.on_look({"10.0.0.5"}), "10.0.0.5");
  EXPECT_FALSE(watch.on_look({"10.0.0.5"}));
}

TEST(AddressWatch, one_that_flickers_is_not_told) {
  AddressWatch watch("127.0.0.1");
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(watch.on_look({"10.0.0.5"}));
    EXPECT_FALSE(watch.on_look({}));
    EXPECT_FALSE(watch.on_look({"10.0.0.5"}));
    EXPECT_FALSE(watch.on_look({"10.0.0.6"}));
  }
}

TEST(AddressWatch, the_one_that_is_told_stays_whatever_others_come_before_it) {
  AddressWatch watch("10.0.0.5");
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(watch.on_look({"172.17.0.1", "10.0.0.5"}));
}

TEST(AddressWatch, one_that_is_replaced_makes_way_for_the_best) {
  AddressWatch watch("10.0.0.5");
  EXPECT_FALSE(watch.on_look({"10.0.0.9", "172.17.0.1"}));
  EXPECT_EQ(watch.on_look({"10.0.0.9", "172.17.0.1"}), "10.0.0.9");
}

TEST(AddressWatch, with_none_left_the_last_is_kept_and_may_come_back) {
  AddressWatch watch("10.0.0.5");
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(watch.on_look({}));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(watch.on_look({"10.0.0.5"}));
}

}  // namespace
}  // namespace gpunode::node
