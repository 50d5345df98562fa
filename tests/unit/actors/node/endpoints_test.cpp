#include "actors/node/endpoints.hpp"

#include <gtest/gtest.h>

namespace gpunode::node {
namespace {

TEST(Endpoints, are_read_with_and_without_scheme_and_port) {
  for (const char* text : {"10.0.0.5:7601", "tcp://10.0.0.5:7601", "10.0.0.5"}) {
    auto place = parse_host_port(text, 7601);
    ASSERT_TRUE(place) << text;
    EXPECT_EQ(place->host, "10.0.0.5");
    EXPECT_EQ(place->port, 7601);
    EXPECT_EQ(tcp_endpoint(*place), "tcp://10.0.0.5:7601");
  }
  auto six = parse_host_port("[::1]:9", 1);
  ASSERT_TRUE(six);
  EXPECT_EQ(six->host, "[::1]");
  EXPECT_EQ(six->port, 9);
}

TEST(Endpoints, that_make_no_sense_are_refused_with_the_form_that_would_do) {
  for (const char* text : {"", ":7", "host:", "host:x", "host:65536", "::1", "[::1", "tcp://"}) {
    auto place = parse_host_port(text, 1);
    ASSERT_FALSE(place) << text;
    EXPECT_NE(place.error().detail.find("host:port"), std::string::npos);
  }
}

TEST(Endpoints, that_are_public_are_warned_of_unless_it_is_said_who_may_come) {
  const std::vector<std::string> own = {"10.0.0.5", "203.0.113.7"};
  EXPECT_NE(open_to_all("0.0.0.0:7601", {}, own).find("203.0.113.7"), std::string::npos);
  EXPECT_NE(open_to_all("203.0.113.7:7601", {}, {}).find("--allow"), std::string::npos);
  EXPECT_NE(open_to_all("[2001:db8::7]:7601", {}, {}), "");
  EXPECT_EQ(open_to_all("0.0.0.0:7601", {"198.51.100.0/24"}, own), "");
  EXPECT_EQ(open_to_all("0.0.0.0:7601", {}, {"10.0.0.5"}), "");
  for (const char* listen : {"", "127.0.0.1:0", "192.168.1.2:7601", "[fd00::1]:7601", "[::1]:1"})
    EXPECT_EQ(open_to_all(listen, {}, own), "") << listen;
}

}  // namespace
}  // namespace gpunode::node
