// What can be reached from an offered root, however somebody tries.
#include "runtime/storage/confined_files.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temporary_folder.hpp"

namespace gpunode::storage {
namespace {

namespace fs = std::filesystem;

class ConfinedFilesTest : public ::testing::Test {
 protected:
  ConfinedFilesTest() {
    write("root/a", "one");
    write("root/sub/b", "two");
    write("beside", "secret");
    write("state/identity.key", "key");
    write("state/jobs/x", "job");
  }
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((at(name)).parent_path());
    std::ofstream(at(name)) << text;
  }
  fs::path at(const std::string& name) const { return folder_.path() / name; }
  Result<std::shared_ptr<const ConfinedFiles>> open(const std::string& place) {
    return ConfinedFiles::open({at(place), "data set 'x'", at("state")});
  }
  std::shared_ptr<const ConfinedFiles> root() {
    auto opened = open("root");
    EXPECT_TRUE(opened) << opened.error().message();
    return opened ? *opened : nullptr;
  }
  static Path named(const std::string& below) { return Path("data set 'x'/" + below); }
  static std::string read(const FileSystem& files, const Path& path) {
    const auto file = files.open(path);
    if (!file) return std::string(to_string(file.error().code));
    std::string text((*file)->size_bytes(), 0);
    const auto done = (*file)->read_at(0, {reinterpret_cast<std::byte*>(text.data()), text.size()});
    return done ? text : std::string(to_string(done.error().code));
  }

  gpunode::testing::TemporaryFolder folder_;
};

TEST_F(ConfinedFilesTest, GivesWhatLiesInTheRoot) {
  const auto files = root();
  EXPECT_EQ(read(*files, named("a")), "one");
  EXPECT_EQ(read(*files, named("sub/b")), "two");
  EXPECT_EQ(read(*files, named("sub/./b")), "two");
  for (int again = 0; again < 2; ++again) {
    const auto listed = files->list(Path("data set 'x'"));
    ASSERT_TRUE(listed) << listed.error().message();
    ASSERT_EQ(listed->size(), 2u);
    EXPECT_EQ((*listed)[0].name, "a");
    EXPECT_EQ((*listed)[1].kind, EntryKind::folder);
  }
  EXPECT_EQ(files->inspect(named("sub/b"))->size_bytes, 3u);
  EXPECT_EQ(read(*files, named("none")), "not_found");
  const auto file = open("root/a");
  ASSERT_TRUE(file);
  EXPECT_EQ(read(**file, Path("data set 'x'")), "one") << "a root that is a file";
}

TEST_F(ConfinedFilesTest, NothingElseExists) {
  const auto files = root();
  for (const char* outside : {"../beside", "sub/../../beside", "../state/identity.key"})
    EXPECT_EQ(read(*files, named(outside)), "permission_denied") << outside;
  for (const std::string& other : {at("beside").string(), std::string("beside"),
                                   std::string("data set 'x'y/a"), std::string("/etc/passwd")})
    EXPECT_EQ(read(*files, Path(other)), "permission_denied") << other;
}

TEST_F(ConfinedFilesTest, NoLinkIsFollowedBelowTheRoot) {
  fs::create_symlink(at("beside"), at("root/out"));
  fs::create_symlink(at(""), at("root/up"));
  fs::create_symlink("a", at("root/inside"));
  const auto files = root();
  for (const char* link : {"out", "up/beside", "up/state/identity.key", "inside"})
    EXPECT_EQ(read(*files, named(link)), "permission_denied") << link;
  const auto refused = files->open(named("out"));
  EXPECT_NE(refused.error().detail.find("over a link"), std::string::npos);
  EXPECT_EQ(refused.error().detail.find(at("").string()), std::string::npos)
      << "where it lies is not told";
  fs::create_symlink(at("root"), at("way"));
  const auto by_link = open("way");
  ASSERT_TRUE(by_link) << "its owner has chosen it";
  EXPECT_EQ(read(**by_link, named("a")), "one");
}

TEST_F(ConfinedFilesTest, WhatIsReplacedMeanwhileLeadsNowhereElse) {
  const auto files = root();
  fs::rename(at("root"), at("moved"));
  fs::create_directory_symlink(at("state"), at("root"));
  EXPECT_EQ(read(*files, named("a")), "one") << "the root itself is held";
  EXPECT_EQ(read(*files, named("identity.key")), "not_found");
  fs::remove_all(at("moved/sub"));
  fs::create_directory_symlink(at("state"), at("moved/sub"));
  EXPECT_EQ(read(*files, named("sub/identity.key")), "permission_denied");
}

TEST_F(ConfinedFilesTest, TheClosedFolderIsRefusedHoweverItIsReached) {
  for (const char* place : {"state", "state/jobs", "state/identity.key", "", "state/../state"})
    EXPECT_EQ(open(place).error().code, ErrorCode::permission_denied) << place;
  ASSERT_EQ(::link(at("state/identity.key").c_str(), at("root/hard").c_str()), 0);
  EXPECT_EQ(read(*root(), named("hard")), "permission_denied") << "a hard link";
  fs::create_symlink(at("state"), at("way"));
  EXPECT_EQ(open("way").error().code, ErrorCode::permission_denied);
  const std::string by_proc = "/proc/self/root" + at("state").string();
  const auto over = ConfinedFiles::open({by_proc, "x", at("state")});
  EXPECT_EQ(over.error().code, ErrorCode::permission_denied);
}

TEST_F(ConfinedFilesTest, APipeHoldsNobody) {
  ASSERT_EQ(::mkfifo(at("root/pipe").c_str(), 0600), 0);
  EXPECT_EQ(read(*root(), named("pipe")), "invalid_argument");
}

TEST_F(ConfinedFilesTest, NothingIsWritten) {
  auto files = std::const_pointer_cast<ConfinedFiles>(root());
  const Path a = named("a");
  EXPECT_EQ(files->write_new(named("new")).error().code, ErrorCode::permission_denied);
  EXPECT_EQ(files->rename(a, named("b")).error().code, ErrorCode::permission_denied);
  EXPECT_EQ(files->remove(a).error().code, ErrorCode::permission_denied);
  EXPECT_EQ(files->create_folder(named("c")).error().code, ErrorCode::permission_denied);
  EXPECT_EQ(files->make_private(named("sub")).error().code, ErrorCode::permission_denied);
  EXPECT_EQ(files->sync_folder(named("sub")).error().code, ErrorCode::permission_denied);
  EXPECT_EQ(files->lock(a).error().code, ErrorCode::permission_denied);
  EXPECT_EQ(files->free_bytes(a).error().code, ErrorCode::permission_denied);
  EXPECT_EQ(read(*files, a), "one");
}

}  // namespace
}  // namespace gpunode::storage
