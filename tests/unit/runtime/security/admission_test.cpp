// The allow-list: whom it lets in, whose word it takes, and that it stays.
#include "runtime/security/admission.hpp"

#include "runtime/base/rng.hpp"
#include "runtime/security/crypto.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/memory_file_system.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace gpunode::security {
namespace {

using namespace std::chrono_literals;
using testing::FaultFileSystem;
using testing::MemoryFileSystem;

const WallTime kNow{1'700'000'000s};

Admission record_of(const Identity& node, std::uint32_t rights = kRightsDefault) {
  Admission record;
  record.node = node.id();
  record.sign_key = node.sign_key();
  record.curve_key = node.curve_key();
  record.name = "node";
  record.rights = rights;
  record.issued = kNow;
  return record;
}

Admission signed_by(const Identity& issuer, const ClusterId& cluster, Admission record) {
  record.cluster = cluster;
  record.sign(issuer);
  return record;
}

struct Cluster {
  Identity founder = Identity::create(), second = Identity::create(), third = Identity::create();
  ClusterIdentity id{{random_array<16>()}, founder.id()};
  Admission first_record = signed_by(founder, id.id, record_of(founder));
  Admission second_record = signed_by(founder, id.id, record_of(second));
  Admission third_record = signed_by(second, id.id, record_of(third));
  Admissions list{id};

  Admissions::Merge merge(const std::vector<Admission>& admissions) {
    auto merged = list.merge(admissions);
    EXPECT_TRUE(merged);
    return *merged;
  }
  bool allows(const Identity& node, WallTime now = kNow) const {
    return list.snapshot()->allows(node.curve_key(), now);
  }
};

TEST(Admissions, let_nobody_in_at_first) {
  Cluster cluster;
  EXPECT_FALSE(cluster.allows(cluster.founder));
  EXPECT_EQ(cluster.list.snapshot()->size(), 0u);
}

TEST(Admissions, follow_the_chain_of_issuers_in_any_order) {
  Cluster cluster;
  EXPECT_EQ(cluster.merge({cluster.third_record}).waiting, 1u);
  EXPECT_FALSE(cluster.allows(cluster.third));
  EXPECT_EQ(cluster.merge({cluster.second_record}).waiting, 2u);
  auto merged = cluster.merge({cluster.first_record});
  EXPECT_EQ(merged.added.size(), 3u);
  EXPECT_TRUE(cluster.allows(cluster.founder));
  EXPECT_TRUE(cluster.allows(cluster.second));
  EXPECT_TRUE(cluster.allows(cluster.third));
  EXPECT_EQ(cluster.merge({cluster.third_record}).known, 1u);
  EXPECT_EQ(cluster.list.snapshot()->find(cluster.third.id())->issuer, cluster.second.id());
}

TEST(Admissions, refuse_whoever_admits_itself_but_the_founder) {
  Cluster cluster;
  auto merged =
      cluster.merge({signed_by(cluster.second, cluster.id.id, record_of(cluster.second))});
  EXPECT_EQ(merged.refused.size(), 1u);
  EXPECT_FALSE(cluster.allows(cluster.second));
}

TEST(Admissions, refuse_each_changed_field) {
  Cluster cluster;
  cluster.merge({cluster.first_record});
  auto refused = [&](auto change) {
    Admission record = cluster.second_record;
    change(record);
    auto merged = cluster.merge({record});
    return merged.added.empty() && !cluster.allows(cluster.second);
  };
  EXPECT_TRUE(refused([](auto& r) { r.cluster.value[0] ^= std::byte{1}; }));
  EXPECT_TRUE(refused([](auto& r) { r.node.value[0] ^= std::byte{1}; }));
  EXPECT_TRUE(refused([](auto& r) { r.sign_key.value[0] ^= std::byte{1}; }));
  EXPECT_TRUE(refused([](auto& r) { r.curve_key.value[0] ^= std::byte{1}; }));
  EXPECT_TRUE(refused([](auto& r) { r.name = "other"; }));
  EXPECT_TRUE(refused([](auto& r) { r.rights = kRightMember; }));
  EXPECT_TRUE(refused([](auto& r) { r.issued += 1s; }));
  EXPECT_TRUE(refused([](auto& r) { r.expires = kNow + 1h; }));
  EXPECT_TRUE(refused([](auto& r) { r.issuer.value[0] ^= std::byte{1}; }));
  EXPECT_TRUE(refused([](auto& r) { r.signature[0] ^= std::byte{1}; }));
  EXPECT_TRUE(refused([](auto& r) { r.name = std::string(65, 'x'); }));
  EXPECT_FALSE(refused([](auto&) {}));
}

TEST(Admissions, take_no_word_of_a_node_without_the_right) {
  Cluster cluster;
  cluster.merge({cluster.first_record, signed_by(cluster.founder, cluster.id.id,
                                                 record_of(cluster.second, kRightMember))});
  EXPECT_TRUE(cluster.allows(cluster.second));
  EXPECT_FALSE(cluster.list.may_admit(cluster.second.id(), kNow));
  EXPECT_EQ(cluster.merge({cluster.third_record}).waiting, 1u);
  EXPECT_FALSE(cluster.allows(cluster.third));
  auto own = cluster.list.admit(cluster.second, record_of(cluster.third));
  ASSERT_FALSE(own);
  EXPECT_EQ(own.error().code, ErrorCode::permission_denied);
  EXPECT_EQ(cluster.merge({cluster.second_record}).added.size(), 2u) << "the right arrives later";
  EXPECT_TRUE(cluster.allows(cluster.third));
}

TEST(Admissions, grant_no_right_that_the_issuer_lacks) {
  Cluster cluster;
  cluster.merge({cluster.first_record});
  auto more = cluster.list.admit(cluster.founder, record_of(cluster.second, kRightsDefault | 8));
  EXPECT_FALSE(more);
}

TEST(Admissions, refuse_another_nodes_connection_key) {
  Cluster cluster;
  cluster.merge({cluster.first_record, cluster.second_record});
  Admission thief = record_of(cluster.third);
  thief.curve_key = cluster.second.curve_key();
  auto admitted = cluster.list.admit(cluster.founder, thief);
  ASSERT_FALSE(admitted);
  EXPECT_EQ(cluster.list.snapshot()->find(cluster.second.curve_key())->node, cluster.second.id());
}

TEST(Admissions, end_when_they_expire) {
  Cluster cluster;
  cluster.merge({cluster.first_record});
  Admission record = record_of(cluster.second);
  record.expires = kNow + 1h;
  ASSERT_TRUE(cluster.list.admit(cluster.founder, record));
  EXPECT_TRUE(cluster.allows(cluster.second, kNow + 1h - 1s));
  EXPECT_FALSE(cluster.allows(cluster.second, kNow + 1h));
}

TEST(Admissions, bound_the_records_of_one_node) {
  Cluster cluster;
  cluster.merge({cluster.first_record});
  int added = 0;
  for (int number = 0; number < 20; ++number) {
    Admission record = record_of(cluster.second);
    record.issued += std::chrono::seconds(number);
    added += cluster.list.admit(cluster.founder, record).has_value();
  }
  EXPECT_EQ(added, static_cast<int>(Admissions::kLimitPerNode));
}

TEST(Admissions, leave_an_older_snapshot_as_it_was) {
  Cluster cluster;
  cluster.merge({cluster.first_record});
  auto before = cluster.list.snapshot();
  cluster.merge({cluster.second_record});
  EXPECT_FALSE(before->allows(cluster.second.curve_key(), kNow));
  EXPECT_TRUE(cluster.allows(cluster.second));
}

TEST(Admissions, come_back_after_a_power_loss) {
  Cluster cluster;
  MemoryFileSystem files;
  ASSERT_TRUE(files.create_folder("/state"));
  {
    auto list = Admissions::open(files, "/state", cluster.id);
    ASSERT_TRUE(list);
    ASSERT_TRUE((*list)->found(cluster.founder, "first", kNow));
    ASSERT_TRUE((*list)->admit(cluster.founder, record_of(cluster.second)));
  }
  files.crash();
  auto list = Admissions::open(files, "/state", cluster.id);
  ASSERT_TRUE(list);
  EXPECT_TRUE((*list)->snapshot()->allows(cluster.second.curve_key(), kNow));
  EXPECT_EQ((*list)->snapshot()->find(cluster.founder.id())->name, "first");
  auto wrong = (*list)->found(cluster.second, "second", kNow);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::wrong_state);
  ClusterIdentity other{{random_array<16>()}, cluster.founder.id()};
  auto foreign = Admissions::open(files, "/state", other);
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().code, ErrorCode::corrupted);
}

TEST(Admissions, store_later_what_a_full_disk_refused) {
  Cluster cluster;
  MemoryFileSystem disk;
  FaultFileSystem files(disk);
  ASSERT_TRUE(disk.create_folder("/state"));
  auto list = Admissions::open(files, "/state", cluster.id);
  ASSERT_TRUE(list);
  files.disk_full_after(0);
  auto merged = (*list)->merge({cluster.first_record, cluster.second_record});
  ASSERT_FALSE(merged);
  EXPECT_EQ(merged.error().code, ErrorCode::disk_full);
  files.heal();
  ASSERT_TRUE((*list)->merge({}));
  disk.crash();
  auto again = Admissions::open(files, "/state", cluster.id);
  ASSERT_TRUE(again);
  EXPECT_TRUE((*again)->snapshot()->allows(cluster.second.curve_key(), kNow));
}

TEST(AdmissionCodec, carries_records_and_survives_damage) {
  Cluster cluster;
  std::vector<Admission> all{cluster.first_record, cluster.second_record, cluster.third_record};
  Bytes bytes = encode_admissions(all);
  auto decoded = decode_admissions(bytes);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, all);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    auto result = decode_admissions(cut);
    if (result) {
      EXPECT_LE(result->size(), all.size());
    }
  }
  Rng rng(3);
  for (int round = 0; round < 5000; ++round) {
    Bytes bad = bytes;
    for (std::uint64_t flips = 1 + rng.below(4); flips > 0; --flips) {
      bad[rng.below(bad.size())] ^= static_cast<std::byte>(1 << rng.below(8));
    }
    auto result = decode_admissions(bad);
    if (!result) continue;
    Admissions list(cluster.id);
    auto merged = list.merge(*result);
    ASSERT_TRUE(merged);
    for (const Admission& added : merged->added) {
      EXPECT_NE(std::find(all.begin(), all.end(), added), all.end());
    }
  }
}

}  // namespace
}  // namespace gpunode::security
