#include "actors/inference/key_ring.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "runtime/storage/posix_file_system.hpp"
#include "tests/support/temporary_folder.hpp"

namespace gpunode::inference {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class Ring : public ::testing::Test {
 protected:
  storage::Path path() const { return folder_.path() / KeyRing::kFile; }
  std::string add(const std::string& name, std::int64_t expires = 0) {
    ApiKey key{.id = {}, .name = name};
    key.expires = expires;
    const std::string secret = *keys_.add(key);
    write(keys_.text());
    return secret;
  }
  void write(const std::string& text) {
    ASSERT_TRUE(files_.write_atomic(path(), {as_bytes(text)}));
    clock_.advance(1s);
  }

  gpunode::testing::TemporaryFolder folder_;
  storage::PosixFileSystem files_;
  FakeClock clock_;
  ApiKeys keys_;
  KeyRing ring_{files_, path(), clock_, false};
};

TEST_F(Ring, WantsAKeyOnceThereIsOneAndEverAfter) {
  EXPECT_FALSE(ring_.is_wanted());
  EXPECT_EQ(*ring_.count(), 0u);
  const std::string alice = add("alice");
  EXPECT_TRUE(ring_.is_wanted());
  EXPECT_EQ(ring_.find(alice)->name, "alice");
  ASSERT_TRUE(files_.remove(path()));
  clock_.advance(1s);
  EXPECT_TRUE(ring_.is_wanted());
  EXPECT_EQ(ring_.find(alice).error().code, ErrorCode::unauthenticated);
  EXPECT_TRUE(KeyRing(files_, path(), clock_, true).is_wanted());
}

TEST_F(Ring, KnowsSoonWhatIsRevoked) {
  const std::string alice = add("alice"), bob = add("bob");
  const ApiKey found = *ring_.find(alice);
  EXPECT_TRUE(ring_.has(found));
  ASSERT_TRUE(keys_.remove("alice"));
  write(keys_.text());
  EXPECT_FALSE(ring_.has(found));
  EXPECT_FALSE(ring_.find(alice));
  EXPECT_TRUE(ring_.find(bob));
}

TEST_F(Ring, AKeyEndsWithItsTime) {
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(clock_.wall().time_since_epoch()).count();
  const std::string alice = add("alice", now + 60);
  const ApiKey found = *ring_.find(alice);
  EXPECT_EQ(*ring_.count(), 1u);
  clock_.advance(60s);
  EXPECT_THAT(ring_.find(alice).error().detail, HasSubstr("expired"));
  EXPECT_FALSE(ring_.has(found));
  EXPECT_EQ(*ring_.count(), 0u);
}

TEST_F(Ring, ABadFileLetsNobodyInUntilItIsMended) {
  const std::string alice = add("alice");
  ASSERT_TRUE(ring_.find(alice));
  write("nonsense");
  EXPECT_EQ(ring_.find(alice).error().code, ErrorCode::unavailable);
  EXPECT_EQ(ring_.find(alice).error().detail.find("nonsense"), std::string::npos);
  write(keys_.text());
  EXPECT_TRUE(ring_.find(alice));
}

TEST_F(Ring, AFileThatOthersMayReadIsRefused) {
  (void)add("alice");
  ::chmod(path().c_str(), 0640);
  const auto count = ring_.count();
  ASSERT_FALSE(count);
  EXPECT_EQ(count.error().code, ErrorCode::permission_denied);
  EXPECT_THAT(count.error().detail, HasSubstr("chmod 600"));
}

}  // namespace
}  // namespace gpunode::inference
