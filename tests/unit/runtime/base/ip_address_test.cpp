// Addresses and ranges of them: what is in, what is public, and what is no range.
#include "runtime/base/ip_address.hpp"

#include <gtest/gtest.h>

namespace gpunode {
namespace {

IpAddress at(const char* text) {
  const auto address = IpAddress::parse(text);
  EXPECT_TRUE(address) << text;
  return address.value_or(IpAddress{});
}

IpRanges ranges(const std::vector<std::string>& texts) {
  auto parsed = IpRanges::parse(texts);
  EXPECT_TRUE(parsed) << parsed.error().message();
  return *parsed;
}

TEST(IpAddress, reads_both_families_and_takes_a_mapped_one_for_what_it_is) {
  EXPECT_EQ(at("::ffff:10.0.0.5"), at("10.0.0.5"));
  EXPECT_EQ(at("::ffff:10.0.0.5").text(), "10.0.0.5");
  EXPECT_EQ(at("fe80::1%eth0").text(), "fe80::1");
  for (const char* text : {"", "10.0.0", "10.0.0.256", "host", "1::2::3"})
    EXPECT_FALSE(IpAddress::parse(text)) << text;
}

TEST(IpAddress, knows_its_network) {
  EXPECT_EQ(at("10.1.2.3").network().text(), "10.1.2.0");
  EXPECT_EQ(at("2001:db8:1:2:3:4:5:6").network().text(), "2001:db8:1:2::");
}

TEST(IpAddress, tells_public_ones_from_those_of_a_site) {
  for (const char* text : {"8.8.8.8", "172.32.0.1", "2001:db8::1", "100.128.0.1"})
    EXPECT_TRUE(at(text).is_public()) << text;
  for (const char* text : {"10.0.0.1", "172.31.255.255", "192.168.0.1", "169.254.1.1", "127.0.0.1",
                           "100.64.0.1", "::1", "::", "0.0.0.0", "fd00::1", "fe80::1"})
    EXPECT_FALSE(at(text).is_public()) << text;
}

TEST(IpRanges, allow_what_is_in_one_of_them) {
  const IpRanges some = ranges({"10.0.0.0/8", "192.0.2.7", "fd00::/8", "198.51.100.64/26"});
  for (const char* text : {"10.255.0.1", "192.0.2.7", "fdff::1", "198.51.100.127"})
    EXPECT_TRUE(some.allow(at(text))) << text;
  for (const char* text : {"11.0.0.1", "192.0.2.8", "fe00::1", "198.51.100.128", "::a00:1"})
    EXPECT_FALSE(some.allow(at(text))) << text;
  EXPECT_TRUE(ranges({}).allow(at("1.2.3.4")));
  EXPECT_TRUE(ranges({"0.0.0.0/0"}).allow(at("1.2.3.4")));
  EXPECT_FALSE(ranges({"0.0.0.0/0"}).allow(at("2001:db8::1")));
}

TEST(IpRanges, that_are_none_are_named) {
  for (const char* text :
       {"", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/8x", "fd00::/129", "a/8", "10.0.0.0/-1", "/8"}) {
    const auto parsed = IpRanges::parse({"10.0.0.0/8", text});
    ASSERT_FALSE(parsed) << text;
    EXPECT_NE(parsed.error().detail.find(std::string("'") + text + "'"), std::string::npos);
  }
}

}  // namespace
}  // namespace gpunode
