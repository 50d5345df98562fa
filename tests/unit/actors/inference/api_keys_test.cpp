#include "actors/inference/api_keys.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpunode::inference {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ApiKey named(const std::string& name) {
  return {.id = {}, .name = name};
}

TEST(ApiKeys, AreFoundByTheirSecretAloneAndKeepNoneOfIt) {
  ApiKeys keys;
  const auto alice = keys.add(named("alice")), bob = keys.add(named("bob"));
  ASSERT_TRUE(alice && bob);
  EXPECT_EQ(keys.find(*alice)->name, "alice");
  EXPECT_EQ(keys.find(*bob)->name, "bob");
  EXPECT_EQ(keys.find(alice->substr(0, alice->size() - 1)), nullptr);
  EXPECT_EQ(keys.find(keys.all().front().id), nullptr);
  EXPECT_EQ(keys.find(""), nullptr);
  EXPECT_THAT(keys.text(), Not(HasSubstr(alice->substr(20))));
}

TEST(ApiKeys, AreWrittenAndReadAsTheyAre) {
  ApiKeys keys;
  ApiKey key = named("alice");
  key.may = kMayMetrics | kMayInfer;
  key.models = {"a", "b"};
  key.requests_per_minute = 3;
  key.tokens_per_minute = 4;
  key.at_once = 5;
  key.created = 6;
  key.expires = 7;
  const auto secret = keys.add(key);
  const auto read = ApiKeys::parse(keys.text());
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->text(), keys.text());
  const ApiKey* found = read->find(*secret);
  ASSERT_NE(found, nullptr);
  EXPECT_TRUE(found->may_use("b"));
  EXPECT_FALSE(found->may_use("c"));
  EXPECT_TRUE(found->is_over(7));
  EXPECT_FALSE(found->is_over(6));
  EXPECT_EQ(found->may, kMayMetrics | kMayInfer);
}

TEST(ApiKeys, AFileThatIsNoneIsRefusedByWhatIsWrong) {
  ApiKeys keys;
  ASSERT_TRUE(keys.add(named("alice")));
  const std::string good = keys.text();
  const auto refusal = [](const std::string& text) {
    const auto read = ApiKeys::parse(text);
    return read ? "" : read.error().message();
  };
  EXPECT_THAT(refusal("nonsense"), HasSubstr("no list of keys"));
  EXPECT_THAT(refusal("{\"keys\": [3]}"), HasSubstr("corrupted"));
  for (const auto& [from, to] : {std::pair("\"infer,list\"", "\"infer,fly\""),
                                 {"\"hash\":\"", "\"hash\":\"x"},
                                 {"\"at_once\":0", "\"at_once\":\"many\""},
                                 {"\"expires\":0,", ""}}) {
    std::string bad = good;
    bad.replace(bad.find(from), std::string(from).size(), to);
    EXPECT_THAT(refusal(bad), HasSubstr("key 'alice'")) << bad;
  }
  const std::string one = good.substr(9, good.rfind(']') - 9);
  EXPECT_THAT(refusal("{\"keys\":[" + one + "," + one + "]}"), HasSubstr("twice"));
}

TEST(ApiKeys, HaveNamesOfTheirOwn) {
  ApiKeys keys;
  ASSERT_TRUE(keys.add(named("alice")));
  EXPECT_EQ(keys.add(named("alice")).error().code, ErrorCode::already_exists);
  for (const std::string& name :
       {std::string(), std::string("a b"), std::string("a\n"), std::string(65, 'a')})
    EXPECT_EQ(keys.add(named(name)).error().code, ErrorCode::invalid_argument) << name;
}

TEST(ApiKeys, AreRevokedByNameOrId) {
  ApiKeys keys;
  const auto alice = keys.add(named("alice")), bob = keys.add(named("bob"));
  EXPECT_EQ(keys.remove("carol").error().code, ErrorCode::not_found);
  EXPECT_EQ(keys.remove("alice")->name, "alice");
  EXPECT_EQ(keys.find(*alice), nullptr);
  EXPECT_TRUE(keys.remove(keys.all().front().id));
  EXPECT_EQ(keys.find(*bob), nullptr);
}

TEST(ApiKeys, RightsAreNamed) {
  EXPECT_EQ(*parse_api_rights("metrics, infer"), kMayMetrics | kMayInfer);
  EXPECT_EQ(api_rights_text(*parse_api_rights("all")), "infer,list,metrics,priority");
  EXPECT_THAT(parse_api_rights("infr").error().detail, HasSubstr("infer"));
  EXPECT_FALSE(parse_api_rights(""));
}

}  // namespace
}  // namespace gpunode::inference
