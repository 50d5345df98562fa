#include "actors/node/advertised.hpp"

#include <gtest/gtest.h>

namespace gpunode::node {
namespace {

using Endpoints = std::vector<std::string>;

const Addresses kBound{{"tcp://0.0.0.0:7601"}, {"tcp://0.0.0.0:7602"}, {"tcp://0.0.0.0:7603"}};

TEST(Advertised, an_address_that_was_given_is_fixed_and_ports_keep_their_distances) {
  const auto told = advertise("0.0.0.0:7601", "a.example:9001", kBound);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->addresses.control, Endpoints{"tcp://a.example:9001"});
  EXPECT_EQ(told->addresses.join, Endpoints{"tcp://a.example:9003"});
  EXPECT_FALSE(told->look);
  EXPECT_FALSE(advertise("0.0.0.0:7601", "a:b:c", kBound));
}

TEST(Advertised, a_listener_of_one_address_tells_that_one) {
  const auto told = advertise("127.0.0.1:7601", "", kBound);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->addresses.bulk, Endpoints{"tcp://127.0.0.1:7602"});
  EXPECT_FALSE(told->look);
}

TEST(Advertised, a_listener_of_all_follows_the_machine) {
  const auto told = advertise("0.0.0.0:7601", "", kBound);
  ASSERT_TRUE(told);
  EXPECT_NE(told->addresses.control, kBound.control) << "nobody dials a wildcard";
  ASSERT_TRUE(told->look);
  EXPECT_FALSE(told->look()) << "nothing has changed";
}

TEST(Advertised, who_listens_nowhere_only_dials) {
  const auto told = advertise("", "", {});
  ASSERT_TRUE(told);
  EXPECT_TRUE(told->addresses.dial_only);
  EXPECT_TRUE(told->addresses.control.empty());
  EXPECT_FALSE(told->look);
}

TEST(Advertised, a_twin_keeps_its_endpoints) {
  const Addresses twin{{"memory://a"}, {"memory://a"}, {}};
  const auto told = advertise("0.0.0.0:7601", "", twin);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->addresses.control, twin.control);
  EXPECT_FALSE(told->look);
}

}  // namespace
}  // namespace gpunode::node
