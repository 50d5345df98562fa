// Which files of a node jobs may read, and whose jobs.
#include "runtime/dataset/offers.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temporary_folder.hpp"

namespace gpunode::dataset {
namespace {

const NodeId kHere{{std::byte{1}}}, kFriend{{std::byte{2}}}, kOther{{std::byte{3}}};

class OffersTest : public ::testing::Test {
 protected:
  OffersTest() {
    for (const char* name : {"open", "closed", "state"}) {
      std::filesystem::create_directory(folder_.path() / name);
      std::ofstream(folder_.path() / name / "text") << name;
    }
    offers_.emplace(Offers::Options{folder_.path() / "state",
                                    {{"open", {folder_.path() / "open", std::nullopt}},
                                     {"closed", {folder_.path() / "closed", {{kFriend}}}},
                                     {"mine", {folder_.path() / "state/text", std::nullopt}}}});
  }
  static NamedFiles set(const std::string& name) { return {"data.path", "", "data.set", name}; }
  NamedFiles path(const std::string& name) const {
    return {"data.path", (folder_.path() / name).string(), "data.set", ""};
  }
  static std::string told(const Result<void>& result) {
    return result ? "offered" : result.error().message();
  }

  gpunode::testing::TemporaryFolder folder_;
  std::optional<Offers> offers_;
};

TEST_F(OffersTest, ASetIsForThoseThatItsOwnerNames) {
  EXPECT_TRUE(offers_->check(set("open"), {kOther, false}));
  EXPECT_TRUE(offers_->check(set("closed"), {kFriend, false}));
  EXPECT_TRUE(offers_->check(set("closed"), {kHere, true})) << "and for the owner";
  const auto refused = offers_->check(set("closed"), {kOther, false});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::not_found);
  const auto opened = offers_->open(set("open"), {kOther, false});
  ASSERT_TRUE(opened) << opened.error().message();
  EXPECT_TRUE(opened->files->open(opened->path / "text"));
  EXPECT_FALSE(offers_->open(set("closed"), {kOther, false}));
}

TEST_F(OffersTest, WhoMayNotUseOneHearsWhatIsSaidOfOneThatDoesNotExist) {
  std::string closed = told(offers_->check(set("closed"), {kOther, false}));
  const std::string none = told(offers_->check(set("nosuch"), {kOther, false}));
  for (std::size_t at = 0; (at = closed.find("closed", at)) != std::string::npos;)
    closed.replace(at, 6, "nosuch");
  EXPECT_EQ(closed, none);
  EXPECT_NE(none.find("but mine, open"), std::string::npos) << none;
}

TEST_F(OffersTest, APathIsReadWhereTheJobWasSubmittedAndNowhereElse) {
  const auto opened = offers_->open(path("closed"), {kHere, true});
  ASSERT_TRUE(opened) << opened.error().message();
  EXPECT_TRUE(opened->files->open(opened->path / "text"));
  const std::string there = told(offers_->check(path("closed"), {kOther, false}));
  EXPECT_EQ(there, told(offers_->check(path("nowhere"), {kOther, false})));
  EXPECT_NE(there.find("--data NAME=PATH"), std::string::npos) << there;
}

TEST_F(OffersTest, NothingOfTheStateDirectoryIsEverGiven) {
  EXPECT_EQ(offers_->open(set("mine"), {kOther, false}).error().code, ErrorCode::permission_denied);
  for (const char* place : {"state", "state/text", "."})
    EXPECT_EQ(offers_->open(path(place), {kHere, true}).error().code, ErrorCode::permission_denied)
        << place;
}

}  // namespace
}  // namespace gpunode::dataset
