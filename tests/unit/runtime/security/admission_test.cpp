// The allow-list: whom it lets in, whose word it takes, and that it stays.
#include "runtime/security/admission.hpp"

#include "runtime/base/rng.hpp"
#include "runtime/security/crypto.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/memory_file_system.hpp"
#include "tests/support/revocations.hpp"
#include "tests/unit/runtime/security/now.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace gpunode::security {
namespace {

using namespace std::chrono_literals;
using testing::FaultFileSystem;
using testing::MemoryFileSystem;

Admission record_of(const Identity& node, Rights rights = kAllRights) {
  Admission record;
  record.node = node.id();
  record.sign_key = node.sign_key();
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

struct AdmittedCluster {
  Identity founder = Identity::create(), second = Identity::create(), third = Identity::create(),
           fourth = Identity::create();
  ClusterIdentity id{{random_array<16>()}, founder.id()};
  Admission first_record = signed_by(founder, id.id, record_of(founder));
  Admission second_record = signed_by(founder, id.id, record_of(second));
  Admission third_record = signed_by(second, id.id, record_of(third));
  Admissions list{id};

  Admissions::Merge merge(std::vector<Admission> admissions,
                          std::vector<Revocation> revocations = {}) {
    auto merged =
        list.merge({std::move(admissions),
                    {founder.link_key(), second.link_key(), third.link_key(), fourth.link_key()},
                    std::move(revocations)});
    EXPECT_TRUE(merged);
    return *merged;
  }
  // `kept`: those of its admissions that stand.
  Revocation revocation(const Identity& issuer, const Identity& node,
                        const std::vector<Admission>& kept = {}) {
    return testing::revocation_by(issuer, node, id.id, kNow, kept);
  }
  bool allows(const Identity& node, WallTime now = kNow) const {
    const auto snapshot = list.snapshot();
    const NodeId* owner = snapshot->owner_of(node.curve_key());
    return owner && *owner == node.id() && snapshot->is_member(*owner, now);
  }
};

TEST(Admissions, let_nobody_in_at_first) {
  AdmittedCluster cluster;
  EXPECT_FALSE(cluster.allows(cluster.founder));
  EXPECT_EQ(cluster.list.snapshot()->size(), 0u);
}

TEST(Admissions, follow_the_chain_of_issuers_in_any_order) {
  AdmittedCluster cluster;
  EXPECT_TRUE(cluster.merge({cluster.third_record}).added.empty());
  EXPECT_FALSE(cluster.allows(cluster.third));
  EXPECT_TRUE(cluster.merge({cluster.second_record}).added.empty());
  auto merged = cluster.merge({cluster.first_record});
  EXPECT_EQ(merged.added.admissions.size(), 3u);
  EXPECT_TRUE(cluster.allows(cluster.founder));
  EXPECT_TRUE(cluster.allows(cluster.second));
  EXPECT_TRUE(cluster.allows(cluster.third));
  EXPECT_TRUE(cluster.merge({cluster.third_record}).added.empty());
  EXPECT_EQ(cluster.list.snapshot()->find(cluster.third.id())->admissions.front().issuer,
            cluster.second.id());
}

TEST(Admissions, refuse_whoever_admits_itself_but_the_founder) {
  AdmittedCluster cluster;
  auto merged =
      cluster.merge({signed_by(cluster.second, cluster.id.id, record_of(cluster.second))});
  EXPECT_EQ(merged.refused.size(), 1u);
  EXPECT_FALSE(cluster.allows(cluster.second));
}

TEST(Admissions, refuse_each_changed_field) {
  AdmittedCluster cluster;
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
  EXPECT_TRUE(refused([](auto& r) { r.name = "other"; }));
  EXPECT_TRUE(refused([](auto& r) { r.rights = kRightCompute; }));
  EXPECT_TRUE(refused([](auto& r) { r.issued += 1s; }));
  EXPECT_TRUE(refused([](auto& r) { r.expires = kNow + 1h; }));
  EXPECT_TRUE(refused([](auto& r) { r.issuer.value[0] ^= std::byte{1}; }));
  EXPECT_TRUE(refused([](auto& r) { r.signature[0] ^= std::byte{1}; }));
  EXPECT_TRUE(refused([](auto& r) { r.name = std::string(65, 'x'); }));
  EXPECT_FALSE(refused([](auto&) {}));
}

TEST(Admissions, take_no_word_of_a_node_without_the_right) {
  AdmittedCluster cluster;
  cluster.merge({cluster.first_record, signed_by(cluster.founder, cluster.id.id,
                                                 record_of(cluster.second, kRightsDefault))});
  EXPECT_TRUE(cluster.allows(cluster.second));
  EXPECT_TRUE(cluster.merge({cluster.third_record}).added.empty());
  EXPECT_FALSE(cluster.allows(cluster.third));
  auto own = cluster.list.admit(cluster.second, record_of(cluster.third), cluster.third.link_key());
  ASSERT_FALSE(own);
  EXPECT_EQ(own.error().code, ErrorCode::permission_denied);
  EXPECT_EQ(cluster.merge({cluster.second_record}).added.admissions.size(), 2u)
      << "the right arrives later";
  EXPECT_TRUE(cluster.allows(cluster.third));
}

TEST(Admissions, grant_no_right_that_the_issuer_lacks) {
  AdmittedCluster cluster;
  cluster.merge(
      {cluster.first_record, signed_by(cluster.founder, cluster.id.id,
                                       record_of(cluster.second, kRightAdmit | kRightCompute))});
  EXPECT_TRUE(cluster.list.admit(cluster.second, record_of(cluster.third, kRightCompute),
                                 cluster.third.link_key()));
  for (const Rights more : {kRightsDefault, kRightOperate, kAllRights})
    EXPECT_FALSE(cluster.list.admit(cluster.second, record_of(cluster.fourth, more),
                                    cluster.fourth.link_key()))
        << more;
}

// Finding 1 of the review: who could act as another node.
TEST(Admissions, give_no_issuer_a_way_to_name_another_nodes_connection_key) {
  AdmittedCluster cluster;
  cluster.merge({cluster.first_record, cluster.second_record});
  ASSERT_TRUE(cluster.allows(cluster.second));
  // The issuer admits the victim again, and says that its own key is the victim's.
  LinkKey forged = cluster.founder.link_key();
  forged.node = cluster.second.id();
  forged.epoch = 99;
  forged.by_node = cluster.founder.sign(kLinkKeyPurpose, forged.signed_bytes());
  Admission again = record_of(cluster.second);
  again.issued += 1s;
  EXPECT_FALSE(cluster.list.admit(cluster.founder, again, forged));
  auto merged = cluster.list.merge({{}, {forged}, {}});
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->refused.size(), 1u);
  EXPECT_TRUE(cluster.allows(cluster.second));
  EXPECT_TRUE(cluster.allows(cluster.founder));
}

TEST(Admissions, take_a_nodes_own_word_for_a_newer_key_and_none_for_an_older) {
  AdmittedCluster cluster;
  cluster.merge({cluster.first_record, cluster.second_record});
  const LinkKey own = cluster.second.link_key();
  auto again = cluster.list.merge({{}, {own}, {}});
  ASSERT_TRUE(again);
  EXPECT_EQ(again->known, 1u);
  EXPECT_TRUE(again->added.empty());
}

TEST(Admissions, put_out_for_good_whoever_is_revoked) {
  AdmittedCluster cluster;
  cluster.merge({cluster.first_record, cluster.second_record, cluster.third_record});
  auto done = cluster.list.revoke(cluster.founder, {cluster.second.id(), "sold", false}, kNow);
  ASSERT_TRUE(done);
  EXPECT_FALSE(cluster.allows(cluster.second));
  EXPECT_EQ(cluster.list.snapshot()->find(cluster.second.id())->rights(kNow), 0u);
  EXPECT_TRUE(cluster.allows(cluster.third)) << "whom it let in stays";
  // Neither a new admission nor one of its own brings it or others back.
  Admission again = record_of(cluster.second);
  again.issued += 1h;
  (void)cluster.list.admit(cluster.founder, again, cluster.second.link_key());
  EXPECT_FALSE(cluster.allows(cluster.second));
  cluster.merge({signed_by(cluster.second, cluster.id.id, record_of(cluster.fourth))});
  EXPECT_FALSE(cluster.allows(cluster.fourth));
}

TEST(Admissions, put_out_with_a_node_whom_it_let_in_where_that_is_asked) {
  AdmittedCluster cluster;
  cluster.merge({cluster.first_record, cluster.second_record, cluster.third_record});
  ASSERT_TRUE(cluster.list.revoke(cluster.founder, {cluster.second.id(), "", true}, kNow));
  EXPECT_FALSE(cluster.allows(cluster.third));
  EXPECT_TRUE(cluster.allows(cluster.founder));
}

TEST(Admissions, take_no_later_word_of_who_was_put_out_for_those_that_stay) {
  AdmittedCluster cluster;
  const auto modest =
      signed_by(cluster.second, cluster.id.id, record_of(cluster.third, kRightsDefault));
  auto more = record_of(cluster.third);
  more.issued += 1h;
  const auto later = signed_by(cluster.second, cluster.id.id, more);
  for (const bool early : {false, true}) {  // `later` comes before or after the revocation
    Admissions list(cluster.id);
    ASSERT_TRUE(list.merge(
        {{cluster.first_record, cluster.second_record, modest}, {cluster.third.link_key()}, {}}));
    if (early) {
      ASSERT_TRUE(list.merge({{later}, {}, {}}));
    }
    ASSERT_TRUE(
        list.merge({{}, {}, {cluster.revocation(cluster.founder, cluster.second, {modest})}}));
    ASSERT_TRUE(list.merge({{modest, later}, {}, {}}));
    EXPECT_EQ(list.snapshot()->find(cluster.third.id())->rights(kNow), kRightsDefault) << early;
  }
}

TEST(Admissions, judge_alike_whatever_comes_first) {
  AdmittedCluster one;
  const auto admission =
      signed_by(one.second, one.id.id, record_of(one.fourth));  // not known to who revokes
  const Revocation revocation = one.revocation(one.founder, one.second, {one.third_record});
  one.merge({one.first_record, one.second_record, one.third_record, admission});
  one.merge({}, {revocation});
  Admissions other(one.id);
  ASSERT_TRUE(other.merge({{}, {}, {revocation}}));
  ASSERT_TRUE(other.merge({{one.first_record, one.second_record, one.third_record, admission},
                           {one.third.link_key(), one.fourth.link_key()},
                           {}}));
  for (const Admissions* list : {&one.list, &other}) {
    EXPECT_TRUE(list->snapshot()->is_member(one.third.id(), kNow));
    EXPECT_FALSE(list->snapshot()->is_member(one.fourth.id(), kNow));
    EXPECT_FALSE(list->snapshot()->is_member(one.second.id(), kNow));
  }
}

TEST(Admissions, let_both_stand_of_two_that_put_each_other_out) {
  AdmittedCluster cluster;
  cluster.merge({cluster.first_record, cluster.second_record, cluster.third_record});
  const auto by_second = cluster.revocation(cluster.second, cluster.third);
  const auto by_third = cluster.revocation(cluster.third, cluster.second, {cluster.third_record});
  for (const bool first : {true, false}) {
    Admissions list(cluster.id);
    ASSERT_TRUE(list.merge(cluster.list.all()));
    ASSERT_TRUE(list.merge({{}, {}, {first ? by_second : by_third}}));
    ASSERT_TRUE(list.merge({{}, {}, {first ? by_third : by_second}}));
    EXPECT_FALSE(list.snapshot()->is_member(cluster.second.id(), kNow)) << first;
    EXPECT_FALSE(list.snapshot()->is_member(cluster.third.id(), kNow)) << first;
  }
}

TEST(Admissions, refuse_a_revocation_of_whoever_may_not_operate) {
  AdmittedCluster cluster;
  cluster.merge({cluster.first_record, cluster.second_record,
                 signed_by(cluster.founder, cluster.id.id,
                           record_of(cluster.third, kAllRights & ~kRightOperate))});
  auto own = cluster.list.revoke(cluster.third, {cluster.second.id(), "", false}, kNow);
  ASSERT_FALSE(own);
  EXPECT_EQ(own.error().code, ErrorCode::permission_denied);
  EXPECT_TRUE(cluster.merge({}, {cluster.revocation(cluster.third, cluster.second)})
                  .added.revocations.empty());
  EXPECT_TRUE(cluster.allows(cluster.second));
  Revocation forged = cluster.revocation(cluster.founder, cluster.second);
  forged.kept.push_back(cluster.third_record.digest());
  EXPECT_EQ(cluster.merge({}, {forged}).refused.size(), 1u);
  auto itself = cluster.list.revoke(cluster.founder, {cluster.founder.id(), "", false}, kNow);
  ASSERT_FALSE(itself);
  EXPECT_EQ(itself.error().code, ErrorCode::invalid_argument);
}

TEST(Admissions, end_when_they_expire) {
  AdmittedCluster cluster;
  cluster.merge({cluster.first_record});
  Admission record = record_of(cluster.second);
  record.expires = kNow + 1h;
  ASSERT_TRUE(cluster.list.admit(cluster.founder, record, cluster.second.link_key()));
  EXPECT_TRUE(cluster.allows(cluster.second, kNow + 1h - 1s));
  EXPECT_FALSE(cluster.allows(cluster.second, kNow + 1h));
}

TEST(Admissions, bound_the_records_of_one_node) {
  AdmittedCluster cluster;
  cluster.merge({cluster.first_record});
  int added = 0;
  for (int number = 0; number < 20; ++number) {
    Admission record = record_of(cluster.second);
    record.issued += std::chrono::seconds(number);
    record.expires = kNow + 1h - std::chrono::minutes(number);  // none gives what another does
    added += cluster.list.admit(cluster.founder, record, cluster.second.link_key()).has_value();
  }
  EXPECT_EQ(added, static_cast<int>(Admissions::kLimitPerNode));
}

TEST(Admissions, keep_one_record_of_those_that_one_issuer_made_again) {
  AdmittedCluster cluster;
  cluster.merge({cluster.first_record});
  for (int number = 0; number < 20; ++number) {
    Admission record = record_of(cluster.second);
    record.issued += std::chrono::seconds(number);
    record.name = "name" + std::to_string(number);
    ASSERT_TRUE(cluster.list.admit(cluster.founder, record, cluster.second.link_key())) << number;
  }
  const auto list = cluster.list.snapshot();
  EXPECT_EQ(list->find(cluster.second.id())->admissions.size(), 1u);
  EXPECT_EQ(list->find(cluster.second.id())->name(), "name19");
  EXPECT_EQ(cluster.merge({cluster.second_record}).added.admissions.size(), 0u) << "an older one";
  Admission less = record_of(cluster.second, kRightCompute);
  less.issued += 1h;
  ASSERT_TRUE(cluster.list.admit(cluster.founder, less, cluster.second.link_key()));
  EXPECT_TRUE(cluster.list.snapshot()->may(cluster.second.id(), kAllRights, kNow))
      << "a later one that gives less takes nothing away";
}

TEST(Admissions, leave_an_older_snapshot_as_it_was) {
  AdmittedCluster cluster;
  cluster.merge({cluster.first_record});
  auto before = cluster.list.snapshot();
  cluster.merge({cluster.second_record});
  EXPECT_FALSE(before->is_member(cluster.second.id(), kNow));
  EXPECT_TRUE(cluster.allows(cluster.second));
}

TEST(Admissions, come_back_after_a_power_loss) {
  AdmittedCluster cluster;
  MemoryFileSystem files;
  ASSERT_TRUE(files.create_folder("/state"));
  {
    auto list = Admissions::open(files, "/state", cluster.id);
    ASSERT_TRUE(list);
    ASSERT_TRUE((*list)->found(cluster.founder, "first", kNow));
    ASSERT_TRUE(
        (*list)->admit(cluster.founder, record_of(cluster.second), cluster.second.link_key()));
    ASSERT_TRUE(
        (*list)->admit(cluster.founder, record_of(cluster.third), cluster.third.link_key()));
    ASSERT_TRUE((*list)->revoke(cluster.founder, {cluster.third.id(), "sold", false}, kNow));
  }
  files.crash();
  auto list = Admissions::open(files, "/state", cluster.id);
  ASSERT_TRUE(list);
  EXPECT_TRUE((*list)->snapshot()->is_member(cluster.second.id(), kNow));
  EXPECT_EQ(*(*list)->snapshot()->owner_of(cluster.second.curve_key()), cluster.second.id());
  EXPECT_FALSE((*list)->snapshot()->is_member(cluster.third.id(), kNow));
  EXPECT_EQ((*list)->snapshot()->find(cluster.founder.id())->name(), "first");
  auto wrong = (*list)->found(cluster.second, "second", kNow);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::wrong_state);
  ClusterIdentity other{{random_array<16>()}, cluster.founder.id()};
  auto foreign = Admissions::open(files, "/state", other);
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().code, ErrorCode::corrupted);
}

TEST(Admissions, store_later_what_a_full_disk_refused) {
  AdmittedCluster cluster;
  MemoryFileSystem disk;
  FaultFileSystem files(disk);
  ASSERT_TRUE(disk.create_folder("/state"));
  auto list = Admissions::open(files, "/state", cluster.id);
  ASSERT_TRUE(list);
  files.disk_full_after(0);
  auto merged = (*list)->merge({{cluster.first_record, cluster.second_record}, {}, {}});
  ASSERT_FALSE(merged);
  EXPECT_EQ(merged.error().code, ErrorCode::disk_full);
  files.heal();
  ASSERT_TRUE((*list)->merge(Credentials()));
  disk.crash();
  auto again = Admissions::open(files, "/state", cluster.id);
  ASSERT_TRUE(again);
  EXPECT_TRUE((*again)->snapshot()->is_member(cluster.second.id(), kNow));
}

TEST(CredentialsCodec, carries_records_and_survives_damage) {
  AdmittedCluster cluster;
  const Credentials all{
      {cluster.first_record, cluster.second_record, cluster.third_record},
      {cluster.founder.link_key(), cluster.second.link_key()},
      {cluster.revocation(cluster.founder, cluster.third, {cluster.second_record})}};
  Bytes bytes = encode_credentials(all);
  auto decoded = decode_credentials(bytes);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, all);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    auto result = decode_credentials(cut);
    if (result) {
      EXPECT_LE(result->size(), all.size());
    }
  }
  const auto among = [](const auto& record, const auto& records) {
    return std::ranges::find(records, record) != records.end();
  };
  Rng rng(3);
  for (int round = 0; round < 5000; ++round) {
    Bytes bad = bytes;
    for (std::uint64_t flips = 1 + rng.below(4); flips > 0; --flips) {
      bad[rng.below(bad.size())] ^= static_cast<std::byte>(1 << rng.below(8));
    }
    auto result = decode_credentials(bad);
    if (!result) continue;
    Admissions list(cluster.id);
    auto merged = list.merge(*result);
    ASSERT_TRUE(merged);
    for (const auto& one : merged->added.admissions) EXPECT_TRUE(among(one, all.admissions));
    for (const auto& one : merged->added.link_keys) EXPECT_TRUE(among(one, all.link_keys));
    for (const auto& one : merged->added.revocations) EXPECT_TRUE(among(one, all.revocations));
  }
}

TEST(Rights, have_names_that_are_read_back) {
  for (Rights rights = 1; rights <= kAllRights; ++rights) {
    const auto parsed = parse_rights(to_text(rights));
    ASSERT_TRUE(parsed) << rights;
    EXPECT_EQ(*parsed, rights);
  }
  EXPECT_EQ(*parse_rights("all"), kAllRights);
  const auto wrong = parse_rights("compute,sumbit");
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().detail.find("submit"), std::string::npos);
  EXPECT_FALSE(parse_rights(""));
}

}  // namespace
}  // namespace gpunode::security
