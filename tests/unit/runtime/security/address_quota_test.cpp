// Who stays where too many strangers come: floods drive out themselves.
#include "runtime/security/address_quota.hpp"

#include <gtest/gtest.h>

#include <set>

namespace gpunode::security {
namespace {

IpAddress at(const std::string& text) {
  return *IpAddress::parse(text);
}

struct Door {
  AddressQuota quota;
  std::set<std::uint64_t> in;
  std::uint64_t next = 1;

  explicit Door(AddressQuota::Limits limits, std::uint64_t seed = 1) : quota(limits, seed) {}
  // Its number.
  std::uint64_t enter(const std::string& from) {
    const std::uint64_t number = next++;
    in.insert(number);
    if (const auto out = quota.enter(number, at(from))) {
      EXPECT_EQ(in.erase(*out), 1u);
      quota.leave(*out);
    }
    EXPECT_EQ(quota.size(), in.size());
    return number;
  }
};

TEST(AddressQuota, drops_nobody_while_there_is_room) {
  Door door({.all = 8, .of_address = 4, .of_network = 8});
  for (int i = 0; i < 4; ++i) door.enter("10.0.0.1"), door.enter("10.0.0.2");
  EXPECT_EQ(door.in.size(), 8u);
}

TEST(AddressQuota, a_flood_from_one_address_drives_out_itself_alone) {
  Door door({.all = 512, .of_address = 64, .of_network = 128});
  const auto honest = door.enter("10.0.0.9");
  const auto neighbour = door.enter("192.0.2.7");
  for (int i = 0; i < 100'000; ++i) door.enter("192.0.2.1");
  EXPECT_TRUE(door.in.contains(honest) && door.in.contains(neighbour));
  EXPECT_EQ(door.in.size(), 66u);
}

TEST(AddressQuota, a_flood_from_one_network_drives_out_that_network_alone) {
  Door door({.all = 512, .of_address = 64, .of_network = 128});
  const auto honest = door.enter("10.0.0.9"), six = door.enter("2001:db8:1::1");
  for (int i = 0; i < 20'000; ++i) {
    door.enter("192.0.2." + std::to_string(i % 256));
    door.enter("2001:db8:0:7::" + std::to_string(i % 9999));
  }
  EXPECT_TRUE(door.in.contains(honest) && door.in.contains(six));
  EXPECT_EQ(door.in.size(), 258u);
}

TEST(AddressQuota, a_flood_from_a_hundred_networks_leaves_who_is_alone_in_its_own) {
  Door door({.all = 512, .of_address = 64, .of_network = 128});
  const auto honest = door.enter("10.0.0.9");
  for (int i = 0; i < 20'000; ++i)
    door.enter("192.0." + std::to_string(i % 100) + "." + std::to_string(i / 100 % 256));
  EXPECT_TRUE(door.in.contains(honest));
  EXPECT_EQ(door.in.size(), 512u);
}

TEST(AddressQuota, under_a_flood_from_networks_without_number_most_get_through) {
  // 100 connections come while an honest one is on its way: 800 a second for an eighth of one.
  int stayed = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Door door({.all = 512, .of_address = 64, .of_network = 128}, seed);
    const auto flood = [&](int from, int count) {
      for (int i = from; i < from + count; ++i)
        door.enter("10." + std::to_string(i / 256) + "." + std::to_string(i % 256) + ".1");
    };
    flood(0, 600);
    const auto honest = door.enter("192.0.2.9");
    flood(600, 100);
    stayed += door.in.contains(honest);
  }
  EXPECT_GT(stayed, 140);  // (511/512)^100 is 0.82; the oldest going, it would be none of some
}

TEST(AddressQuota, who_leaves_makes_room) {
  Door door({.all = 4, .of_address = 2, .of_network = 4});
  for (int round = 0; round < 100; ++round) {
    const auto one = door.enter("10.0.0.1"), other = door.enter("10.0.0.1");
    EXPECT_TRUE(door.in.contains(one) && door.in.contains(other));
    for (const auto number : {one, other}) {
      door.in.erase(number);
      door.quota.leave(number);
      door.quota.leave(number);  // once more does no harm
    }
  }
  EXPECT_EQ(door.quota.size(), 0u);
}

}  // namespace
}  // namespace gpunode::security
