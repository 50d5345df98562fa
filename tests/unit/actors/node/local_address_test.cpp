#include "actors/node/local_address.hpp"

#include <gtest/gtest.h>

namespace gpunode::node {
namespace {

TEST(LocalAddress, is_of_loopback) {
  for (const char* text : {"127.0.0.1:9464", "127.8.0.1:9464", "localhost:9464"}) {
    const auto place = parse_local_address("--metrics", text);
    ASSERT_TRUE(place) << text;
    EXPECT_TRUE(place->host.starts_with("127.")) << place->host;
    EXPECT_EQ(place->port, 9464);
  }
  EXPECT_TRUE(parse_local_address("--metrics", "[::1]:0"));
}

TEST(LocalAddress, that_others_reach_is_refused_with_a_remedy) {
  for (const char* text : {"0.0.0.0:9464", "10.0.0.1:9464", "[::]:1", "1270.0.0.1:1",
                           "127.0.0.1.example:1", "a.example:9464"}) {
    const auto place = parse_local_address("--metrics", text);
    ASSERT_FALSE(place) << text;
    EXPECT_NE(place.error().detail.find("proxy that authenticates"), std::string::npos);
  }
}

TEST(LocalAddress, that_is_a_port_alone_is_told_the_whole_form) {
  const auto place = parse_local_address("--metrics", "31699");
  ASSERT_FALSE(place);
  EXPECT_NE(place.error().detail.find("HOST:PORT, as 127.0.0.1:31699"), std::string::npos);
}

}  // namespace
}  // namespace gpunode::node
