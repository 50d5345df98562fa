#include "kernels/model/registry.hpp"

#include <gtest/gtest.h>

namespace gpunode::model {
namespace {

TEST(Registry, MakesAModelWhoseConfigurationMakesTheSameModel) {
  auto made = make_model("gpt", {{"layers", "3"}, {"channels", "96"}});
  ASSERT_TRUE(made);
  auto again = make_model((*made)->kind(), (*made)->config());
  ASSERT_TRUE(again);
  EXPECT_EQ((*again)->config(), (*made)->config());
  EXPECT_EQ((*again)->parameter_count(), (*made)->parameter_count());
  EXPECT_EQ((*made)->config().at("layers"), "3");
  EXPECT_EQ((*made)->config().at("vocabulary"), "256");
}

TEST(Registry, NamesTheNearestKeyForAnUnknownOne) {
  auto made = make_model("gpt", {{"chanels", "64"}});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(made.error().detail.find("did you mean 'channels'"), std::string::npos)
      << made.error().detail;
}

TEST(Registry, NamesTheNearestKindForAnUnknownOne) {
  auto made = make_model("gtp", {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::not_found);
  EXPECT_NE(made.error().detail.find("'gpt'"), std::string::npos) << made.error().detail;
}

TEST(Registry, RefusesNumbersThatAreNoneOrOutOfRange) {
  for (const char* text : {"", "4x", "-1", "0", "99999999999999999999", "1001"}) {
    auto made = make_model("gpt", {{"layers", text}});
    ASSERT_FALSE(made) << text;
    EXPECT_NE(made.error().detail.find("layers"), std::string::npos) << made.error().detail;
  }
  auto uneven = make_model("gpt", {{"heads", "3"}});
  ASSERT_FALSE(uneven);
  EXPECT_NE(uneven.error().detail.find("does not divide"), std::string::npos);
}

TEST(Registry, RefusesExtentsWhoseProductIsMoreThanCanBeHeld) {
  // 2^32 + 4 numbers of an image, which would wrap to 4.
  auto image = make_model("resnet", {{"height", "2642"},
                                     {"width", "3965"},
                                     {"channels", "410"},
                                     {"classes", "2"},
                                     {"groups", "1"},
                                     {"blocks", "1"},
                                     {"filters", "1"},
                                     {"stem", "7"}});
  ASSERT_FALSE(image);
  EXPECT_NE(image.error().detail.find("2642 x 3965"), std::string::npos) << image.error().detail;
  auto angles = make_model(
      "llama", {{"heads", "1"}, {"kv_heads", "1"}, {"channels", "65536"}, {"context", "65536"}});
  ASSERT_FALSE(angles);
  EXPECT_NE(angles.error().detail.find("rotary"), std::string::npos) << angles.error().detail;
}

TEST(Registry, TakesAKindOfTheEmbeddersOnce) {
  const Factory factory = [](const Settings&) { return make_model("gpt", {{"layers", "1"}}); };
  ASSERT_TRUE(register_model("registry-test", factory));
  auto made = make_model("registry-test", {});
  ASSERT_TRUE(made);
  auto twice = register_model("registry-test", factory);
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, ErrorCode::already_exists);
  EXPECT_EQ(register_model("", factory).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(register_model("registry-none", nullptr).error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace gpunode::model
