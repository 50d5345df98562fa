#include "actors/node/http_access.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpunode::node {
namespace {

using ::testing::HasSubstr;

NodeConfig at(const std::string& http, HttpAccess access = {}) {
  NodeConfig config;
  config.http = http;
  config.http_access = std::move(access);
  return config;
}

TEST(HttpAccess, OnLoopbackNothingIsWanted) {
  for (const char* place : {"127.0.0.1:8000", "localhost:0", "[::1]:8000", "127.3.4.5:1"}) {
    const auto parsed = http_place(at(place));
    ASSERT_TRUE(parsed) << parsed.error().message();
    EXPECT_FALSE(needs_keys(at(place), *parsed)) << place;
  }
}

TEST(HttpAccess, BeyondLoopbackKeysAndTlsAreWantedUnlessItIsSaid) {
  for (const char* place : {"0.0.0.0:8000", "192.168.3.4:8000", "[::]:8000"}) {
    EXPECT_THAT(http_place(at(place)).error().detail, HasSubstr("--insecure-http no-tls")) << place;
    const NodeConfig sealed = at(place, {.certificate = "c", .key = "k"});
    const auto parsed = http_place(sealed);
    ASSERT_TRUE(parsed) << parsed.error().message();
    EXPECT_TRUE(needs_keys(sealed, *parsed));
    EXPECT_THAT(no_keys(sealed).detail, HasSubstr("gpunode http-key create"));
    const NodeConfig open = at(place, {.without_keys = true, .without_tls = true});
    ASSERT_TRUE(http_place(open));
    EXPECT_FALSE(needs_keys(open, *http_place(open)));
  }
}

TEST(HttpAccess, HalfOfWhatTlsNeedsIsNamed) {
  EXPECT_THAT(http_place(at("127.0.0.1:0", {.certificate = "c"})).error().detail,
              HasSubstr("only the certificate"));
  EXPECT_THAT(http_place(at("127.0.0.1:0", {.key = "k"})).error().detail,
              HasSubstr("only the key"));
  EXPECT_FALSE(http_place(at("8000")));
}

}  // namespace
}  // namespace gpunode::node
