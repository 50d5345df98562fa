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

}  // namespace
}  // namespace gpunode::node
