// Which URLs `bench infer --http` takes.
#include <gtest/gtest.h>

#include "tools/gpunode/http_asker.hpp"

namespace gpunode::cli {
namespace {

TEST(HttpPlace, IsAHostAndAPort) {
  const auto place = parse_http_url("http://127.0.0.1:8000/v1");
  ASSERT_TRUE(place);
  EXPECT_EQ(place->host, "127.0.0.1");
  EXPECT_EQ(place->port, "8000");
  const auto sixth = parse_http_url("http://[::1]:81");
  ASSERT_TRUE(sixth);
  EXPECT_EQ(sixth->host, "::1");
  EXPECT_EQ(sixth->port, "81");
  const auto without = parse_http_url("http://box");
  ASSERT_TRUE(without);
  EXPECT_EQ(without->port, "80");
}

TEST(HttpPlace, IsRefusedWhereItIsNone) {
  for (const char* url : {"", "box:80", "https://box", "http://", "http://box:0", "http://box:x"})
    EXPECT_EQ(parse_http_url(url).error().code, ErrorCode::invalid_argument) << url;
}

}  // namespace
}  // namespace gpunode::cli
