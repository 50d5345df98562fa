// A new start from the recovery key, where the founder is lost or has turned against the others.
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/security/admission.hpp"
#include "runtime/security/crypto.hpp"
#include "runtime/security/recovery_key.hpp"
#include "tests/support/memory_file_system.hpp"
#include "tests/unit/runtime/security/now.hpp"

namespace gpunode::security {
namespace {

using namespace std::chrono_literals;
using testing::MemoryFileSystem;

struct RefoundCluster {
  RecoveryKey key = RecoveryKey::create();
  Identity founder = Identity::create(), second = Identity::create(), third = Identity::create(),
           accomplice = Identity::create();
  ClusterIdentity id{{random_array<16>()}, founder.id(), key.public_key()};
  MemoryFileSystem disk;
  std::unique_ptr<Admissions> list;

  RefoundCluster() {
    EXPECT_TRUE(disk.create_folder("/state"));
    open();
    EXPECT_TRUE(list->found(founder, "founder", kNow));
    admit(founder, second, kAllRights);
    admit(second, third, kRightsDefault);
  }
  void open() {
    auto opened = Admissions::open(disk, "/state", id);
    ASSERT_TRUE(opened) << opened.error().message();
    list = std::move(*opened);
  }
  Admission record(const Identity& issuer, const Identity& node, Rights rights,
                   WallTime issued = kNow) {
    Admission record{id.id, node.id(), node.sign_key(), "node", rights, issued, {}, {}, {}};
    record.sign(issuer);
    return record;
  }
  void admit(const Identity& issuer, const Identity& node, Rights rights) {
    EXPECT_TRUE(list->admit(issuer, record(issuer, node, rights), node.link_key()));
  }
  Admissions::RefoundOrder order(std::vector<NodeId> without) {
    return {second.id(), second.sign_key(), "second", std::move(without)};
  }
  Admissions::Refounding refound(const Admissions::RefoundOrder& order, WallTime now = kNow + 1h) {
    auto done = list->refound(key, order, now);
    EXPECT_TRUE(done) << done.error().message();
    return done ? *done : Admissions::Refounding{};
  }
  bool member(const Identity& node) const { return member(*list, node); }
  static bool member(const Admissions& list, const Identity& node) {
    return list.snapshot()->is_member(node.id(), kNow + 1h);
  }
};

TEST(Refound, puts_out_the_founder_and_lets_those_stay_whom_it_let_in) {
  RefoundCluster cluster;
  const auto done = cluster.refound(cluster.order({cluster.founder.id()}));
  EXPECT_EQ(done.put_out, std::vector{cluster.founder.id()});
  EXPECT_TRUE(done.dropped.empty());
  EXPECT_EQ(done.members.size(), 2u);
  EXPECT_FALSE(cluster.member(cluster.founder));
  EXPECT_TRUE(cluster.member(cluster.second));
  EXPECT_TRUE(cluster.member(cluster.third));
  EXPECT_TRUE(cluster.list->snapshot()->may(cluster.second.id(), kAllRights, kNow + 1h));
  // What the founder signs now is worth nothing, for whomever.
  auto merged = cluster.list->merge(
      {{cluster.record(cluster.founder, cluster.accomplice, kAllRights, kNow - 1h),
        cluster.record(cluster.founder, cluster.third, kAllRights)},
       {cluster.accomplice.link_key()},
       {}});
  ASSERT_TRUE(merged);
  EXPECT_TRUE(merged->added.admissions.empty());
  EXPECT_FALSE(cluster.member(cluster.accomplice));
  EXPECT_EQ(cluster.list->snapshot()->find(cluster.third.id())->rights(kNow), kRightsDefault);
  EXPECT_FALSE(cluster.list->revoke(cluster.founder, {cluster.second.id(), "", true}, kNow + 2h));
  cluster.admit(cluster.second, cluster.accomplice, kAllRights);
  EXPECT_TRUE(cluster.member(cluster.accomplice)) << "whom the new root lets in is in";
}

TEST(Refound, brings_back_whom_the_founder_had_put_out_and_undoes_the_work_of_those_it_let_in) {
  RefoundCluster cluster;
  cluster.admit(cluster.founder, cluster.accomplice, kAllRights);
  ASSERT_TRUE(cluster.list->revoke(cluster.accomplice, {cluster.third.id(), "", true}, kNow));
  ASSERT_TRUE(cluster.list->revoke(cluster.founder, {cluster.second.id(), "", true}, kNow));
  EXPECT_FALSE(cluster.member(cluster.second));
  const auto done = cluster.refound(cluster.order({cluster.founder.id(), cluster.accomplice.id()}));
  EXPECT_EQ(done.restored.size(), 2u);
  EXPECT_TRUE(cluster.member(cluster.second));
  EXPECT_TRUE(cluster.member(cluster.third));
  EXPECT_FALSE(cluster.member(cluster.accomplice));
}

TEST(Refound, drops_with_a_node_whom_it_let_in_where_that_is_asked_and_what_those_had_ordered) {
  RefoundCluster cluster;
  cluster.admit(cluster.founder, cluster.accomplice, kAllRights);
  ASSERT_TRUE(cluster.list->revoke(cluster.accomplice, {cluster.third.id(), "", true}, kNow));
  auto order = cluster.order({cluster.founder.id()});
  order.with_admitted = true;
  const auto done = cluster.refound(order);
  EXPECT_EQ(done.dropped, std::vector{cluster.accomplice.id()});
  EXPECT_TRUE(cluster.member(cluster.second)) << "it has the recovery key's word";
  EXPECT_TRUE(cluster.member(cluster.third)) << "the second has let it in";
}

TEST(Refound, comes_to_the_same_whatever_is_heard_first) {
  RefoundCluster cluster;
  cluster.admit(cluster.founder, cluster.accomplice, kAllRights);
  ASSERT_TRUE(cluster.list->revoke(cluster.accomplice, {cluster.third.id(), "", true}, kNow));
  ASSERT_TRUE(cluster.list->revoke(cluster.founder, {cluster.second.id(), "", true}, kNow));
  const Credentials before = cluster.list->all();
  auto order = cluster.order({cluster.founder.id()});
  order.with_admitted = true;
  const Credentials news = cluster.refound(order).added;
  for (const bool first : {true, false}) {
    Admissions other(cluster.id);
    ASSERT_TRUE(other.merge(first ? news : before));
    ASSERT_TRUE(other.merge(first ? before : news));
    ASSERT_TRUE(other.merge(cluster.list->all()));  // what was put out when it was told
    EXPECT_TRUE(RefoundCluster::member(other, cluster.second)) << first;
    EXPECT_TRUE(RefoundCluster::member(other, cluster.third)) << first;
    EXPECT_FALSE(RefoundCluster::member(other, cluster.founder)) << first;
    EXPECT_FALSE(RefoundCluster::member(other, cluster.accomplice)) << first;
  }
}

TEST(Refound, counts_as_it_was_ordered_last) {
  RefoundCluster cluster;
  Admissions elsewhere(cluster.id);
  ASSERT_TRUE(elsewhere.merge(cluster.list->all()));
  auto order = cluster.order({cluster.founder.id()});
  order.self = cluster.third.id();
  order.sign_key = cluster.third.sign_key();
  order.with_admitted = true;
  const Credentials first = cluster.refound(order, kNow + 1h).added;
  EXPECT_FALSE(cluster.member(cluster.second));
  order.with_admitted = false;
  const auto again = elsewhere.refound(cluster.key, order, kNow + 2h);
  ASSERT_TRUE(again);
  ASSERT_TRUE(elsewhere.merge(first));
  ASSERT_TRUE(cluster.list->merge(again->added));
  ASSERT_TRUE(cluster.list->merge(first)) << "the older word comes again";
  EXPECT_TRUE(RefoundCluster::member(elsewhere, cluster.second));
  EXPECT_TRUE(cluster.member(cluster.second));
}

TEST(Refound, stays_through_a_restart) {
  RefoundCluster cluster;
  cluster.admit(cluster.founder, cluster.accomplice, kAllRights);
  ASSERT_TRUE(cluster.list->revoke(cluster.founder, {cluster.second.id(), "", true}, kNow));
  auto order = cluster.order({cluster.founder.id()});
  order.with_admitted = true;
  cluster.refound(order);
  for (int round = 0; round < 2; ++round) {
    cluster.open();
    EXPECT_TRUE(cluster.member(cluster.second));
    EXPECT_TRUE(cluster.member(cluster.third));
    EXPECT_FALSE(cluster.member(cluster.founder));
    EXPECT_FALSE(cluster.member(cluster.accomplice));
    ASSERT_TRUE(cluster.list->forget_the_unseen(cluster.second.id(), kNow + 1h));  // writes all
  }
}

TEST(Refound, only_tells_when_it_is_asked_to) {
  RefoundCluster cluster;
  auto order = cluster.order({cluster.founder.id()});
  order.check = true;
  const Credentials before = cluster.list->all();
  const auto told = cluster.refound(order);
  EXPECT_EQ(told.put_out.size(), 1u);
  EXPECT_EQ(told.members.size(), 2u);
  EXPECT_EQ(cluster.list->all(), before);
}

TEST(Refound, needs_the_key_of_this_cluster_and_a_node_that_is_to_stay) {
  RefoundCluster cluster;
  const auto refused = [&](const RecoveryKey& key, Admissions::RefoundOrder order) {
    auto done = cluster.list->refound(key, order, kNow);
    return done ? ErrorCode::internal : done.error().code;
  };
  EXPECT_EQ(refused(RecoveryKey::create(), cluster.order({cluster.founder.id()})),
            ErrorCode::permission_denied);
  EXPECT_EQ(refused(cluster.key, cluster.order({cluster.second.id()})),
            ErrorCode::invalid_argument);
  EXPECT_EQ(refused(cluster.key, cluster.order({cluster.accomplice.id()})), ErrorCode::not_found);
  ASSERT_TRUE(cluster.list->revoke(cluster.founder, {cluster.second.id(), "", false}, kNow));
  EXPECT_EQ(refused(cluster.key, cluster.order({})), ErrorCode::permission_denied)
      << "the founder, who put it out, is to stay";
  EXPECT_TRUE(cluster.member(cluster.founder));
}

TEST(Refound, lets_nobody_put_out_the_recovery_key_or_make_a_node_of_it) {
  RefoundCluster cluster;
  Revocation revocation{cluster.id.id, cluster.id.recovery_id(), "", {}, kNow, {}, {}};
  revocation.sign(cluster.founder);
  auto merged = cluster.list->merge(
      {{cluster.record(cluster.founder, cluster.key.signer(), kAllRights)}, {}, {revocation}});
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->refused.size(), 2u);
  // Without a recovery key in its record a cluster takes the word of none, not even of an empty one.
  Admissions old({cluster.id.id, cluster.founder.id()});
  auto none = old.refound(cluster.key, cluster.order({}), kNow);
  EXPECT_FALSE(none);
  ASSERT_TRUE(
      old.merge({{cluster.record(cluster.key.signer(), cluster.third, kAllRights)}, {}, {}}));
  EXPECT_FALSE(RefoundCluster::member(old, cluster.third));
}

TEST(RecoveryKey, is_made_once_and_kept_private) {
  MemoryFileSystem disk;
  ASSERT_TRUE(disk.create_folder("/state"));
  auto made = RecoveryKey::load_or_create(disk, "/state/recovery.key");
  ASSERT_TRUE(made);
  auto again = RecoveryKey::load_or_create(disk, "/state/recovery.key");
  ASSERT_TRUE(again);
  EXPECT_EQ(again->public_key(), made->public_key());
  EXPECT_FALSE(disk.inspect("/state/recovery.key")->open_to_others);
  EXPECT_EQ(as_text(*disk.read("/state/recovery.key", 4096)), made->text() + "\n");
}

TEST(RecoveryKey, is_read_back_from_its_text_alone) {
  const RecoveryKey key = RecoveryKey::create();
  auto read = RecoveryKey::parse("  " + key.text() + "\r\n");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->public_key(), key.public_key());
  const std::string text = key.text();
  std::string changed = text;
  changed[20] = changed[20] == 'A' ? 'B' : 'A';
  for (const std::string& wrong : {std::string(), text.substr(1), text.substr(0, text.size() - 1),
                                   changed, text + "A", std::string("gpn1_abc")}) {
    auto refused = RecoveryKey::parse(wrong);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    if (wrong.size() > 8) {
      EXPECT_EQ(refused.error().message().find(wrong), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace gpunode::security
