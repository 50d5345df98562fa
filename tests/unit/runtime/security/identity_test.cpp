// A node's keys: kept, private, refused when they leaked; and the cluster record beside them.
#include "runtime/security/identity.hpp"

#include "runtime/security/cluster_identity.hpp"
#include "runtime/security/crypto.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "tests/support/memory_file_system.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <type_traits>

namespace gpunode::security {
namespace {

using testing::MemoryFileSystem;
using testing::TemporaryFolder;

struct State {
  MemoryFileSystem files;
  storage::Path path = "/state";
  State() { EXPECT_TRUE(files.create_folder(path)); }
};

template <class T>
concept Printable = requires(std::ostream& out, const T& value) {
  out << value;
};

TEST(Secret, cannot_be_printed_or_copied_by_accident) {
  EXPECT_FALSE(Printable<Secret<32>>);
  EXPECT_FALSE(Printable<Identity>);
  EXPECT_FALSE(std::is_copy_constructible_v<Secret<32>>);
  EXPECT_FALSE(std::is_copy_constructible_v<Identity>);
}

TEST(Secret, is_wiped_when_moved_from) {
  auto one = random_secret<32>();
  auto two = std::move(one);
  EXPECT_EQ(to_hex(one.view()), std::string(64, '0'));
  EXPECT_NE(to_hex(two.view()), std::string(64, '0'));
}

TEST(Identity, is_the_same_after_a_restart) {
  State state;
  auto first = Identity::load_or_create(state.files, state.path);
  ASSERT_TRUE(first);
  state.files.crash();
  auto second = Identity::load_or_create(state.files, state.path);
  ASSERT_TRUE(second);
  EXPECT_EQ(first->id(), second->id());
  EXPECT_EQ(first->link_key(), second->link_key());
  EXPECT_EQ(first->curve_key(), second->curve_key());
  EXPECT_EQ(first->id(), node_id_of(first->sign_key()));
  Signature signature = second->sign("test", as_bytes("message"));
  EXPECT_TRUE(verify(first->sign_key(), "test", as_bytes("message"), signature));
}

TEST(Identity, takes_a_new_link_key_and_keeps_the_one_before_through_a_restart) {
  State state;
  auto node = Identity::load_or_create(state.files, state.path);
  ASSERT_TRUE(node);
  EXPECT_FALSE(node->curve_before());
  for (std::uint64_t epoch = 2; epoch < 4; ++epoch) {
    const NodeId id = node->id();
    const CurveKey before = node->curve_key();
    const std::string secret = to_hex(node->curve_secret().view());
    ASSERT_TRUE(node->rotate(state.files, state.path));
    state.files.crash();
    auto loaded = Identity::load_or_create(state.files, state.path);
    ASSERT_TRUE(loaded);
    for (const Identity* one : {&*node, &*loaded}) {
      EXPECT_EQ(one->id(), id);
      EXPECT_EQ(one->link_key().epoch, epoch);
      EXPECT_TRUE(one->link_key().is_genuine(one->sign_key()));
      EXPECT_EQ(one->curve_key(), one->link_key().curve_key());
      EXPECT_NE(one->curve_key(), before);
      ASSERT_TRUE(one->curve_before());
      EXPECT_EQ(one->curve_before()->open, before);
      EXPECT_EQ(to_hex(one->curve_before()->secret.view()), secret);
      auto opened = one->open_sealed(seal_to(node->curve_key(), as_bytes("sealed")));
      ASSERT_TRUE(opened);
    }
    EXPECT_EQ(loaded->link_key(), node->link_key());
    node = std::move(loaded);
  }
}

TEST(Identity, keeps_its_link_key_where_a_new_one_cannot_be_stored) {
  State state;
  auto node = Identity::load_or_create(state.files, state.path);
  ASSERT_TRUE(node);
  const LinkKey before = node->link_key();
  EXPECT_FALSE(node->rotate(state.files, "/nowhere"));
  EXPECT_EQ(node->link_key(), before);
  EXPECT_FALSE(node->curve_before());
}

TEST(Identity, makes_a_file_that_only_its_owner_can_read) {
  TemporaryFolder folder;
  storage::PosixFileSystem files;
  ASSERT_TRUE(Identity::load_or_create(files, folder.path()));
  auto mode = std::filesystem::status(folder.path() / "identity.key").permissions();
  EXPECT_EQ(static_cast<unsigned>(mode), 0600u);
}

TEST(Identity, refuses_a_key_file_that_others_can_read) {
  using std::filesystem::perms;
  TemporaryFolder folder;
  storage::PosixFileSystem files;
  ASSERT_TRUE(Identity::load_or_create(files, folder.path()));
  for (perms extra : {perms::group_read, perms::others_read, perms::group_write}) {
    auto path = folder.path() / "identity.key";
    std::filesystem::permissions(path, perms::owner_read | perms::owner_write | extra);
    auto loaded = Identity::load_or_create(files, folder.path());
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, ErrorCode::permission_denied);
    EXPECT_NE(loaded.error().detail.find("chmod 600 " + path.string()), std::string::npos);
  }
}

TEST(Identity, names_a_missing_key_file_instead_of_becoming_another_node) {
  for (const char* other : {"cluster", "admissions"}) {
    TemporaryFolder folder;
    storage::PosixFileSystem files;
    ASSERT_TRUE(Identity::load_or_create(files, folder.path()));
    std::ofstream(folder.path() / other) << "of a node that has been here";
    std::filesystem::remove(folder.path() / "identity.key");
    const auto loaded = Identity::load_or_create(files, folder.path());
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, ErrorCode::not_found);
    EXPECT_NE(loaded.error().detail.find("restore"), std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "identity.key"));
  }
}

TEST(Identity, names_a_damaged_key_file_instead_of_becoming_another_node) {
  State state;
  ASSERT_TRUE(Identity::load_or_create(state.files, state.path));
  state.files.damage(state.path / "identity.key", 40);
  auto loaded = Identity::load_or_create(state.files, state.path);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::corrupted);
  EXPECT_NE(loaded.error().detail.find("identity.key"), std::string::npos);
}

TEST(Identity, signs_for_one_purpose_only) {
  Identity one = Identity::create(), two = Identity::create();
  Signature signature = one.sign("purpose", as_bytes("message"));
  EXPECT_TRUE(verify(one.sign_key(), "purpose", as_bytes("message"), signature));
  EXPECT_FALSE(verify(one.sign_key(), "other", as_bytes("message"), signature));
  EXPECT_FALSE(verify(one.sign_key(), "purposem", as_bytes("essage"), signature));
  EXPECT_FALSE(verify(one.sign_key(), "purpose", as_bytes("messag"), signature));
  EXPECT_FALSE(verify(two.sign_key(), "purpose", as_bytes("message"), signature));
}

TEST(LinkKey, is_signed_by_the_node_and_by_itself) {
  const Identity one = Identity::create(), two = Identity::create();
  const LinkKey& own = one.link_key();
  EXPECT_TRUE(own.is_genuine(one.sign_key()));
  EXPECT_EQ(own.curve_key(), one.curve_key());
  EXPECT_FALSE(own.is_genuine(two.sign_key()));
  const auto refused = [&](auto change) {
    LinkKey changed = own;
    change(changed);
    return !changed.is_genuine(one.sign_key());
  };
  EXPECT_TRUE(refused([&](LinkKey& key) { key.node = two.id(); }));
  EXPECT_TRUE(refused([](LinkKey& key) { ++key.epoch; }));
  EXPECT_TRUE(refused([](LinkKey& key) { key.by_node[0] ^= std::byte{1}; }));
  EXPECT_TRUE(refused([](LinkKey& key) { key.by_key[0] ^= std::byte{1}; }));
  EXPECT_TRUE(refused([&](LinkKey& key) { key.key = two.link_key().key; }));
  // Another node's key under one's own signature lacks the word of that key.
  LinkKey stolen = two.link_key();
  stolen.node = one.id();
  stolen.by_node = one.sign(kLinkKeyPurpose, stolen.signed_bytes());
  EXPECT_FALSE(stolen.is_genuine(one.sign_key()));
  LinkKey no_point = own;
  no_point.key.value.fill(std::byte{0});
  EXPECT_FALSE(no_point.curve_key());
}

TEST(Identity, opens_only_what_is_sealed_to_it) {
  Identity one = Identity::create(), two = Identity::create();
  Bytes sealed = seal_to(one.curve_key(), as_bytes("secret"));
  EXPECT_EQ(sealed.size(), 6 + kSealedBoxBytes);
  auto opened = one.open_sealed(sealed);
  ASSERT_TRUE(opened);
  EXPECT_EQ(as_text(*opened), "secret");
  EXPECT_FALSE(two.open_sealed(sealed));
  sealed[10] ^= std::byte{1};
  EXPECT_FALSE(one.open_sealed(sealed));
  EXPECT_FALSE(one.open_sealed({}));
}

TEST(ClusterIdentity, is_made_once_and_kept) {
  State state;
  Identity founder = Identity::create();
  auto none = ClusterIdentity::load(state.files, state.path);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::not_found);
  auto made = ClusterIdentity::init(state.files, state.path, founder);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->founder, founder.id());
  state.files.crash();
  auto loaded = ClusterIdentity::load(state.files, state.path);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(*loaded, *made);
  auto again = ClusterIdentity::init(state.files, state.path, founder);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::already_exists);
  EXPECT_TRUE(made->save(state.files, state.path)) << "the same cluster may be saved again";
}

TEST(ClusterIdentity, shows_a_hash_that_tells_clusters_apart) {
  State one, two;
  Identity founder = Identity::create();
  auto first = ClusterIdentity::init(one.files, one.path, founder);
  auto second = ClusterIdentity::init(two.files, two.path, founder);
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->public_hash(), second->public_hash());
  EXPECT_EQ(first->public_hash(), first->public_hash());
  EXPECT_NE(first->public_hash(), first->id.value);
}

}  // namespace
}  // namespace gpunode::security
