// What an owner may write of the data that its node offers.
#include "actors/node/data_offers.hpp"

#include <gtest/gtest.h>

namespace gpunode::node {
namespace {

std::string refusal(const std::string& name, const DataOffer& offer) {
  const auto parsed = parse_offers({{name, offer}});
  EXPECT_FALSE(parsed) << name;
  return parsed ? "" : parsed.error().message();
}

TEST(DataOffers, AreForAnyNodeOrForThoseNamedByTheirIds) {
  const std::string id(64, 'a');
  const auto parsed =
      parse_offers({{"any", {"/x", {"any"}}}, {"one", {"/y", {id}}}, {"own", {"/z", {}}}});
  ASSERT_TRUE(parsed) << parsed.error().message();
  EXPECT_FALSE(parsed->at("any").users);
  ASSERT_TRUE(parsed->at("one").users);
  EXPECT_EQ(parsed->at("one").users->at(0).text(), id);
  EXPECT_TRUE(parsed->at("own").users->empty());
  EXPECT_EQ(parsed->at("own").path, "/z");
}

TEST(DataOffers, ThatNoJobCouldNameOrThatAreForNobodyKnownAreRefused) {
  for (const std::string& name : {std::string(), std::string("a/b"), std::string("a b"),
                                  std::string("a\n"), std::string(65, 'x')})
    EXPECT_NE(refusal(name, {"/x"}).find("name"), std::string::npos);
  EXPECT_NE(refusal("x", {""}).find("path"), std::string::npos);
  EXPECT_NE(refusal("x", {"/x", {"alice"}}).find("64 digits"), std::string::npos);
  EXPECT_NE(refusal("x", {"/x", {"any", "alice"}}).find("alone"), std::string::npos);
}

}  // namespace
}  // namespace gpunode::node
