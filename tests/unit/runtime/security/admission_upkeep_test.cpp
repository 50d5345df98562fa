// What of the list of nodes is told and forgotten: chains, pages, time that passes, 10,000 of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>

#include "tests/unit/runtime/security/join_world.hpp"
#include "tests/unit/runtime/security/now.hpp"

namespace gpunode::security {
namespace {

using namespace std::chrono_literals;

struct UpkeepPeer {
  Identity keys = Identity::create();
  NodeId id() const { return keys.id(); }
};

Admission admission_of(const ClusterIdentity& cluster, const UpkeepPeer& issuer,
                       const UpkeepPeer& node, WallTime issued = kNow, Rights rights = kAllRights) {
  Admission record{cluster.id, node.id(), node.keys.sign_key(), "node", rights, issued, {}, {}, {}};
  record.sign(issuer.keys);
  return record;
}

struct UpkeepCluster {
  UpkeepPeer founder, second, third, fourth;
  ClusterIdentity id{{random_array<16>()}, founder.id()};
  Admissions list{id};
  UpkeepCluster() {
    EXPECT_TRUE(list.merge({{admission_of(id, founder, founder), admission_of(id, founder, second),
                             admission_of(id, second, third), admission_of(id, founder, fourth)},
                            {founder.keys.link_key(), second.keys.link_key(), third.keys.link_key(),
                             fourth.keys.link_key()},
                            {}}));
  }
  std::size_t forget(WallTime now) {
    auto forgotten = list.forget_the_unseen(founder.id(), now);
    EXPECT_TRUE(forgotten);
    return *forgotten;
  }
  // Time passes, in which the founder runs and sees `here`.
  std::size_t live(std::vector<NodeId> here, Duration time, Duration from = 0s) {
    here.push_back(founder.id());
    std::size_t forgotten = 0;
    for (Duration passed = from; passed <= time; passed += 1h) {
      forgotten += forget(kNow + passed);
      list.saw(here, kNow + passed);
    }
    return forgotten;
  }
  bool knows(const UpkeepPeer& peer) const { return list.snapshot()->find(peer.id()) != nullptr; }
};

constexpr Duration kLong = 24h * 31;

// Nobody passes on what it has not checked.
TEST(AdmissionUpkeep, a_wrong_signature_ends_a_message_and_is_blamed_on_its_teller_alone) {
  UpkeepCluster cluster;
  Admissions list(cluster.id);
  const Admission founder = admission_of(cluster.id, cluster.founder, cluster.founder);
  const Admission second = admission_of(cluster.id, cluster.founder, cluster.second);
  Admission forged = admission_of(cluster.id, cluster.second, cluster.third);
  forged.name = "another";
  EXPECT_FALSE(list.merge({{founder, forged}, {}, {}}, cluster.fourth.id())->forged)
      << "whether it is cannot be told yet";
  const auto good = list.merge({{second}, {}, {}}, cluster.third.id());
  EXPECT_FALSE(good->forged) << "what waited for it is not of who brings it";
  EXPECT_EQ(good->added.admissions.size(), 1u);
  const Admission third = admission_of(cluster.id, cluster.second, cluster.third);
  const auto bad = list.merge({{forged, third}, {}, {}}, cluster.fourth.id());
  EXPECT_TRUE(bad->forged);
  EXPECT_TRUE(bad->added.empty()) << "the rest was looked at";
  EXPECT_EQ(list.merge({{third}, {}, {}})->added.admissions.size(), 1u);
}

TEST(AdmissionUpkeep, what_one_node_tells_without_proof_takes_no_room_from_what_another_tells) {
  UpkeepCluster cluster;
  Admissions list(cluster.id);
  ASSERT_TRUE(list.merge({{admission_of(cluster.id, cluster.founder, cluster.founder)}, {}, {}})
                  ->added.size());
  Admission unknown = admission_of(cluster.id, cluster.fourth, cluster.third);
  for (int told = 0; told < 100; ++told) {
    Credentials many;
    for (int i = 0; i < 100; ++i) {
      unknown.issuer.value[0] = static_cast<std::byte>(i);
      unknown.issuer.value[1] = static_cast<std::byte>(told);
      many.admissions.push_back(unknown);
    }
    NodeId teller = cluster.fourth.id();
    teller.value[0] = static_cast<std::byte>(told % 70);
    ASSERT_TRUE(list.merge(many, teller));
  }
  ASSERT_TRUE(list.merge({{admission_of(cluster.id, cluster.second, cluster.third)}, {}, {}},
                         cluster.second.id()));
  EXPECT_EQ(list.merge({{admission_of(cluster.id, cluster.founder, cluster.second)}, {}, {}})
                ->added.admissions.size(),
            2u)
      << "what it waited for has come";
}

TEST(AdmissionUpkeep, proves_a_node_by_the_chain_of_its_issuers_alone) {
  UpkeepCluster cluster;
  const NodeId third = cluster.third.id();
  const Credentials chain = cluster.list.chain_of({&third, 1});
  EXPECT_EQ(chain.admissions.size(), 3u) << "third, second, founder";
  Admissions other(cluster.id);
  auto merged = other.merge(chain);
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->waiting, 0u);
  EXPECT_TRUE(other.snapshot()->is_member(third, kNow));
  EXPECT_EQ(other.snapshot()->find(cluster.fourth.id()), nullptr);
}

TEST(AdmissionUpkeep, tells_with_a_chain_who_of_it_was_put_out) {
  UpkeepCluster cluster;
  ASSERT_TRUE(cluster.list.revoke(cluster.fourth.keys, {cluster.second.id(), "sold", false}, kNow));
  const NodeId third = cluster.third.id();
  Admissions other(cluster.id);
  ASSERT_TRUE(other.merge(cluster.list.chain_of({&third, 1})));
  EXPECT_TRUE(other.snapshot()->is_member(third, kNow)) << "it was named to stay";
  EXPECT_FALSE(other.snapshot()->is_member(cluster.second.id(), kNow));
}

TEST(AdmissionUpkeep, shows_by_a_summary_which_pages_another_lacks) {
  UpkeepCluster cluster;
  Admissions other(cluster.id);
  ASSERT_TRUE(other.merge(cluster.list.all()));
  EXPECT_EQ(other.summary(), cluster.list.summary());
  ASSERT_TRUE(cluster.list.revoke(cluster.founder.keys, {cluster.third.id(), "", false}, kNow));
  auto theirs = decode_summary(encode_summary(other.summary()));
  ASSERT_TRUE(theirs);
  std::size_t sent = 0;
  for (std::size_t index = 0; index < theirs->size(); ++index) {
    if ((*theirs)[index] == cluster.list.summary()[index]) continue;
    ++sent;
    auto page = decode_credentials(encode_credentials(cluster.list.bucket(index)));
    ASSERT_TRUE(page);
    ASSERT_TRUE(other.merge(*page));
  }
  EXPECT_EQ(sent, 1u);
  EXPECT_EQ(other.summary(), cluster.list.summary());
  EXPECT_FALSE(other.snapshot()->is_member(cluster.third.id(), kNow));
  EXPECT_FALSE(decode_summary(Bytes(2047)));
  EXPECT_FALSE(decode_summary(Bytes(2049)));
}

TEST(AdmissionUpkeep, forgets_who_was_not_seen_for_long) {
  UpkeepCluster cluster;
  EXPECT_EQ(cluster.live({cluster.second.id(), cluster.third.id()}, 24h * 29), 0u);
  EXPECT_TRUE(cluster.knows(cluster.fourth));
  EXPECT_EQ(cluster.live({cluster.second.id(), cluster.third.id()}, kLong), 1u);
  EXPECT_FALSE(cluster.knows(cluster.fourth));
  EXPECT_EQ(cluster.list.snapshot()->owner_of(cluster.fourth.keys.curve_key()), nullptr);
  EXPECT_TRUE(cluster.knows(cluster.third));
  EXPECT_EQ(cluster.list.all().admissions.size(), 3u);
}

TEST(AdmissionUpkeep, keeps_whom_it_did_not_see_but_needs_to_prove_another) {
  UpkeepCluster cluster;
  EXPECT_EQ(cluster.live({cluster.third.id()}, kLong), 1u);
  EXPECT_TRUE(cluster.knows(cluster.second)) << "it let in the third";
  EXPECT_TRUE(cluster.list.snapshot()->is_member(cluster.third.id(), kNow));
  EXPECT_FALSE(cluster.knows(cluster.fourth));
}

TEST(AdmissionUpkeep, goes_by_what_others_have_seen_too_but_not_by_their_clocks) {
  UpkeepCluster cluster;
  const Duration day20 = 24h * 20;
  EXPECT_EQ(cluster.live({}, day20), 0u);
  ASSERT_TRUE(cluster.list.merge({{}, {}, {}, {{cluster.fourth.id(), kNow + day20}}}));
  ASSERT_TRUE(cluster.list.merge({{}, {}, {}, {{cluster.second.id(), kNow + 24h * 10'000}}}));
  EXPECT_EQ(cluster.live({}, kLong, day20), 1u) << "the third only";
  EXPECT_TRUE(cluster.knows(cluster.fourth));
  EXPECT_TRUE(cluster.knows(cluster.second));
  EXPECT_EQ(cluster.list.last_seen(cluster.second.id()), kNow + day20) << "the next hour cut it";
  EXPECT_EQ(cluster.live({}, day20 + kLong, kLong), 2u);
}

TEST(AdmissionUpkeep, counts_no_time_in_which_it_did_not_run) {
  UpkeepCluster cluster;
  MemoryFileSystem files;
  ASSERT_TRUE(files.create_folder("/state"));
  {
    auto list = Admissions::open(files, "/state", cluster.id);
    ASSERT_TRUE(list);
    ASSERT_TRUE((*list)->merge(cluster.list.all()));
    ASSERT_TRUE((*list)->forget_the_unseen(cluster.founder.id(), kNow));
  }
  auto list = Admissions::open(files, "/state", cluster.id);
  ASSERT_TRUE(list);
  const WallTime year_later = kNow + 24h * 365;
  auto forgotten = (*list)->forget_the_unseen(cluster.founder.id(), year_later);
  ASSERT_TRUE(forgotten);
  EXPECT_EQ(*forgotten, 0u);
  EXPECT_TRUE((*list)->snapshot()->find(cluster.fourth.id()));
  (*list)->saw(std::vector<NodeId>{cluster.founder.id()}, year_later + kLong);
  forgotten = (*list)->forget_the_unseen(cluster.founder.id(), year_later + kLong);
  ASSERT_TRUE(forgotten);
  EXPECT_EQ(*forgotten, 3u) << "once it runs, time passes";
}

TEST(AdmissionUpkeep, forgets_no_revocation_so_that_nobody_comes_back_by_an_old_admission) {
  UpkeepCluster cluster;
  const Credentials before = cluster.list.all();  // of a node that was away all the time
  ASSERT_TRUE(cluster.list.revoke(cluster.second.keys, {cluster.fourth.id(), "sold", false}, kNow));
  EXPECT_EQ(cluster.live({}, kLong), 2u);
  EXPECT_FALSE(cluster.knows(cluster.fourth));
  EXPECT_TRUE(cluster.knows(cluster.second)) << "its word puts the fourth out";
  ASSERT_TRUE(cluster.list.merge(before));
  EXPECT_FALSE(cluster.list.snapshot()->is_member(cluster.fourth.id(), kNow));
  // Nor at a node that came later and never knew it.
  Admissions other(cluster.id);
  UpkeepCluster& told = cluster;
  told.live({}, kLong);
  ASSERT_TRUE(other.merge(told.list.all()));
  ASSERT_TRUE(other.merge(before));
  EXPECT_FALSE(other.snapshot()->is_member(cluster.fourth.id(), kNow));
}

TEST(AdmissionUpkeep, lets_whom_it_forgot_come_back_by_a_new_admission) {
  UpkeepCluster cluster;
  cluster.live({}, kLong);
  ASSERT_FALSE(cluster.knows(cluster.fourth));
  ASSERT_TRUE(cluster.list.admit(
      cluster.founder.keys, admission_of(cluster.id, cluster.founder, cluster.fourth, kNow + kLong),
      cluster.fourth.keys.link_key()));
  EXPECT_TRUE(cluster.list.snapshot()->is_member(cluster.fourth.id(), kNow + kLong));
  EXPECT_EQ(cluster.forget(kNow + kLong + 1h), 0u);
}

TEST(AdmissionUpkeep, is_the_same_after_a_restart_between_two_times_that_it_stores_all) {
  UpkeepCluster cluster;
  MemoryFileSystem files;
  ASSERT_TRUE(files.create_folder("/state"));
  auto list = Admissions::open(files, "/state", cluster.id);
  ASSERT_TRUE(list);
  ASSERT_TRUE((*list)->merge(cluster.list.all()));
  ASSERT_TRUE((*list)->forget_the_unseen(cluster.founder.id(), kNow));
  ASSERT_TRUE((*list)->revoke(cluster.founder.keys, {cluster.second.id(), "", false}, kNow));
  const auto summary = (*list)->summary();
  files.crash();
  auto again = Admissions::open(files, "/state", cluster.id);
  ASSERT_TRUE(again);
  EXPECT_EQ((*again)->summary(), summary);
  EXPECT_FALSE((*again)->snapshot()->is_member(cluster.second.id(), kNow));
  EXPECT_TRUE((*again)->snapshot()->is_member(cluster.third.id(), kNow));
}

TEST(AdmissionUpkeep, loses_nothing_over_restarts_before_it_has_stored_all_once) {
  UpkeepCluster cluster;
  MemoryFileSystem files;
  ASSERT_TRUE(files.create_folder("/state"));
  std::set<NodeId> added;
  for (const UpkeepPeer* peer :
       {&cluster.founder, &cluster.second, &cluster.third, &cluster.fourth}) {
    auto list = Admissions::open(files, "/state", cluster.id);
    ASSERT_TRUE(list) << list.error().message();
    for (const NodeId& before : added)
      EXPECT_TRUE((*list)->snapshot()->is_member(before, kNow)) << "after the start of another";
    const NodeId node = peer->id();
    ASSERT_TRUE((*list)->merge(cluster.list.chain_of({&node, 1})));
    added.insert(node);
    files.crash();
  }
  const auto last = Admissions::open(files, "/state", cluster.id);
  ASSERT_TRUE(last);
  EXPECT_EQ((*last)->summary(), cluster.list.summary());
}

TEST(AdmissionUpkeep, bounds_what_one_node_can_put_out) {
  UpkeepCluster cluster;
  std::vector<Revocation> all;
  for (std::size_t number = 0; number < Admissions::kLimitPerIssuer + 10; ++number) {
    Revocation one{cluster.id.id, NodeId{random_array<32>()}, "", {}, kNow, {}, {}};
    one.sign(cluster.second.keys);
    all.push_back(one);
  }
  auto merged = cluster.list.merge({{}, {}, all});
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->added.revocations.size(), Admissions::kLimitPerIssuer);
  EXPECT_EQ(merged->refused.size(), 10u);
  EXPECT_TRUE(cluster.list.revoke(cluster.founder.keys, {cluster.second.id(), "", false}, kNow));
}

// Finding 7 of the review: some 4,000 past members ended joining for good.
TEST(AdmissionUpkeep, ten_thousand_past_members_are_nothing_to_who_joins) {
  World small, large;
  std::vector<Admission> records;
  std::vector<LinkKey> keys;
  for (int number = 0; number < 10'000; ++number) {
    const Identity past = Identity::create();
    Admission record{large.cluster.id,
                     past.id(),
                     past.sign_key(),
                     "past",
                     kRightsDefault,
                     large.clock.wall(),
                     {},
                     {},
                     {}};
    record.sign(large.founder.identity);
    records.push_back(std::move(record));
    keys.push_back(past.link_key());
  }
  ASSERT_TRUE(large.founder.admissions->merge({records, keys, {}}));
  ASSERT_TRUE(
      large.founder.admissions->forget_the_unseen(large.founder.identity.id(), large.clock.wall()));
  EXPECT_EQ(large.founder.admissions->snapshot()->size(), 10'002u);
  const auto joined = [](World& world) {
    auto action = world.join(world.token(), world.founder);
    EXPECT_EQ(outcome(action), "joined") << sentence(action);
    return encode_credentials(std::get<JoinClient::Joined>(action).answer.credentials).size();
  };
  const auto kept = [&](const char* file) { return *large.founder.disk.read(file, 64 << 20); };
  const Bytes before = kept("/state/admissions");
  EXPECT_EQ(joined(large), joined(small)) << "bytes that it is told";
  EXPECT_EQ(kept("/state/admissions"), before) << "not written anew for one more";
  EXPECT_LT(kept("/state/admissions.news").size(), 4'096u);
  const auto time = [&](World& world) {
    std::vector<double> each;
    for (int round = 0; round < 21; ++round) {
      world.joiner.identity = Identity::create();
      JoinToken token = world.token();
      world.clock.advance(10s);
      const auto begun = std::chrono::steady_clock::now();
      EXPECT_EQ(outcome(world.join(std::move(token), world.founder)), "joined");
      each.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
    }
    std::ranges::nth_element(each, each.begin() + 10);
    return each[10];
  };
  const double few = time(small), many = time(large);
  std::printf("a join takes %.2f ms, among 10,000 past members %.2f ms: %.2f times as long\n",
              1e3 * few, 1e3 * many, many / few);
  EXPECT_LT(many / few, 4);
  // All of them are gone once nobody has seen them for long.
  const WallTime later = large.clock.wall() + kLong;
  large.founder.admissions->saw(std::vector<NodeId>{large.founder.identity.id()}, later);
  auto forgotten = large.founder.admissions->forget_the_unseen(large.founder.identity.id(), later);
  ASSERT_TRUE(forgotten);
  EXPECT_GT(*forgotten, 9'999u);
  EXPECT_LT(large.founder.disk.read("/state/admissions", 1 << 20)->size(), 4'096u);
}

}  // namespace
}  // namespace gpunode::security
