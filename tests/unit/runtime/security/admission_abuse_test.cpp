// What one with rights may try before it is put out: none of it keeps others from putting it out, from
// starting again, from knowing alike, or costs them more than a bounded room.
#include "runtime/base/rng.hpp"
#include "tests/support/memory_file_system.hpp"
#include "tests/unit/runtime/security/seniority_fixture.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <memory>

namespace gpunode::security {
namespace {

using namespace std::chrono_literals;
using testing::MemoryFileSystem;

// An order over a node that is not there, which names as many records as may be.
Revocation large_order(const Cluster& c, const Identity& by, std::uint64_t number) {
  Revocation order = c.order(by, c.plain);
  Rng rng(number);
  for (auto& byte : order.node.value) byte = static_cast<std::byte>(rng.below(256));
  for (std::size_t i = 0; i < Revocation::kMaxKept; ++i) {
    order.kept.emplace_back();
    for (auto& byte : order.kept.back()) byte = static_cast<std::byte>(rng.below(256));
  }
  std::ranges::sort(order.kept);
  order.sign(by);
  return order;
}

std::unique_ptr<Admissions> list_of(const Cluster& c, const Credentials& more = {}) {
  auto list = std::make_unique<Admissions>(c.id);
  EXPECT_TRUE(list->merge(c.members()));
  EXPECT_TRUE(list->merge(more));
  return list;
}

// Those that the first has let in, all of whom may operate.
struct Sybils {
  Sybils(const Cluster& c, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const Identity& one = nodes.emplace_back(Identity::create());
      records.admissions.push_back(c.admission(c.first, one, kAllRights, 9s));
      records.link_keys.push_back(one.link_key());
    }
  }
  std::deque<Identity> nodes;
  Credentials records;
};

TEST(Abuse, large_orders_take_more_of_the_room_and_the_issuer_is_put_out_nevertheless) {
  Cluster c;
  MemoryFileSystem disk;
  ASSERT_TRUE(disk.create_folder("/state"));
  auto list = Admissions::open(disk, "/state", c.id);
  ASSERT_TRUE(list);
  ASSERT_TRUE((*list)->merge(c.members()));
  std::size_t taken = 0;
  for (std::uint64_t number = 1; number <= 6; ++number)
    taken += (*list)->merge({{}, {}, {large_order(c, c.second, number)}})->added.size();
  EXPECT_EQ(taken, 3u) << "1025 each, of 4096";
  ASSERT_TRUE((*list)->revoke(c.founder, {c.second.id()}, kNow + 2h));
  EXPECT_EQ((*list)->all().revocations.size(), 1u) << "its own are void";
  EXPECT_EQ(c.out(**list), "2");
}

TEST(Abuse, what_is_told_goes_in_messages_that_a_link_takes) {
  Cluster c;
  Credentials all = c.members();
  for (std::uint64_t number = 1; number <= 9; ++number)
    all.revocations.push_back(large_order(c, c.second, number));
  Credentials again;
  for (const Credentials& part : all.parts(512 << 10)) {
    EXPECT_LT(encode_credentials(part).size(), std::size_t{1} << 20);
    again.add(part);
  }
  EXPECT_EQ(again, all);
  EXPECT_EQ(Credentials{}.parts(1000).size(), 1u);
}

TEST(Abuse, who_restarts_while_void_orders_are_on_its_disk_starts) {
  Cluster c;
  const Sybils sybils(c, Admissions::kLimitPerNode);
  MemoryFileSystem disk;
  ASSERT_TRUE(disk.create_folder("/state"));
  auto list = Admissions::open(disk, "/state", c.id);
  ASSERT_TRUE(list);
  ASSERT_TRUE((*list)->merge(c.members()));
  ASSERT_TRUE((*list)->merge(sybils.records));
  for (const Identity& one : sybils.nodes)
    ASSERT_EQ((*list)->merge({{}, {}, {c.order(one, c.plain)}})->added.size(), 1u);
  ASSERT_TRUE((*list)->forget_the_unseen(c.founder.id(), kNow + 1h));  // all is written anew
  ASSERT_TRUE((*list)->revoke(c.founder, {c.first.id(), "sold", true}, kNow + 2h));
  ASSERT_TRUE((*list)->revoke(c.founder, {c.plain.id(), "sold"}, kNow + 3h));
  disk.crash();
  list = Admissions::open(disk, "/state", c.id);
  ASSERT_TRUE(list) << list.error().message();
  EXPECT_EQ(c.out(**list), "13p");
}

TEST(Abuse, of_one_issuers_orders_over_a_node_the_newest_counts_whichever_is_heard_first) {
  Cluster c;
  Revocation newer = c.order(c.second, c.first);
  newer.issued += 1s;
  newer.sign(c.second);
  const Revocation older = c.order(c.second, c.first, {c.of_third});
  EXPECT_EQ(c.out_by({older, newer}), "13");
  const auto list = list_of(c, {{}, {}, {newer, older}});
  EXPECT_EQ(list->all().revocations, std::vector{newer});
}

TEST(Abuse, of_too_many_orders_over_a_node_those_of_the_most_senior_stay) {
  Cluster c;
  const Sybils sybils(c, Admissions::kLimitPerNode);
  Credentials of_sybils;
  for (const Identity& one : sybils.nodes) of_sybils.revocations.push_back(c.order(one, c.plain));
  const Revocation senior = c.order(c.second, c.plain);
  std::vector<Revocation> all = of_sybils.revocations;
  all.push_back(senior);
  std::vector<Revocation> alike;
  for (const bool first : {false, true}) {
    const auto list = list_of(c, sybils.records);
    std::ranges::rotate(all, first ? all.end() - 1 : all.begin());
    for (const Revocation& one : all) ASSERT_TRUE(list->merge({{}, {}, {one}}));
    auto kept = list->all().revocations;
    std::ranges::sort(kept, {}, &Revocation::signature);
    EXPECT_EQ(kept.size(), Admissions::kLimitPerNode);
    EXPECT_NE(std::ranges::find(kept, senior), kept.end());
    EXPECT_TRUE(alike.empty() || alike == kept);
    alike = kept;
  }
}

TEST(Abuse, records_that_lead_nowhere_make_room_for_those_that_were_named) {
  Cluster c;
  Credentials sets[2];
  for (int number = 0; number < 16; ++number) {
    Admission record =
        c.admission(c.first, c.third, kRightsDefault, std::chrono::seconds(10 + number));
    record.expires = kNow + 10h - std::chrono::minutes(number);  // none gives what another does
    record.sign(c.first);
    sets[number % 2].admissions.push_back(record);
  }
  Credentials members = c.members();
  std::erase(members.admissions, c.of_third);
  const auto other = std::make_unique<Admissions>(c.id), here = std::make_unique<Admissions>(c.id);
  ASSERT_TRUE(here->merge(members));
  ASSERT_TRUE(here->merge(sets[0]));
  ASSERT_TRUE(other->merge(members));
  ASSERT_TRUE(other->merge(sets[1]));
  ASSERT_EQ(other->merge(sets[0])->added.size(), 0u);
  auto done = here->revoke(c.founder, {c.first.id()}, kNow + 2h);
  ASSERT_TRUE(done);
  ASSERT_TRUE(other->merge({{}, {}, done->orders}));
  ASSERT_TRUE(other->merge(here->all()));
  EXPECT_EQ(c.out(*here), "1");
  EXPECT_EQ(c.out(*other), "1");
}

TEST(Abuse, whom_a_hostile_order_names_in_secret_nobody_vouches_for) {
  Cluster c;
  const Identity secret = Identity::create();
  const Admission of_secret = c.admission(c.first, secret, kRightsDefault, 9s);
  const auto list = list_of(c, {{}, {}, {c.order(c.second, c.first, {c.of_third, of_secret})}});
  ASSERT_EQ(c.out(*list), "1");
  const auto done = list->revoke(c.founder, {c.second.id(), "turned"}, kNow + 2h);
  ASSERT_TRUE(done);
  ASSERT_EQ(done->orders.size(), 2u);
  EXPECT_NE(done->orders[1].reason.find(c.second.id().short_text()), std::string::npos);
  EXPECT_EQ(c.out(*list), "12") << "the third was known, and stays";
  ASSERT_TRUE(list->merge({{of_secret}, {secret.link_key()}, {}}));
  EXPECT_FALSE(list->snapshot()->is_member(secret.id(), kNow + 2h));
}

TEST(Abuse, an_order_that_a_later_one_in_the_same_message_makes_valid_counts) {
  Cluster c;
  const auto list = list_of(c, {{}, {}, {c.order(c.first, c.third)}});
  ASSERT_EQ(c.out(*list), "3");
  auto merged =
      list->merge({{}, {}, {c.order(c.third, c.plain), c.order(c.founder, c.first, {c.of_third})}});
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->restored, std::vector{c.third.id()});
  EXPECT_EQ(c.out(*list), "1p");
}

TEST(Abuse, what_waits_for_proof_is_bounded_by_its_size) {
  Cluster c;
  const Identity late = Identity::create(), teller = Identity::create();
  const auto list = list_of(c);
  Credentials unproven;
  for (std::uint64_t number = 1; number <= 8; ++number)
    unproven.revocations.push_back(large_order(c, late, number));
  ASSERT_TRUE(list->merge(unproven, teller.id()));
  ASSERT_TRUE(list->merge({{c.admission(c.founder, late, kAllRights, 9s)}, {late.link_key()}, {}}));
  EXPECT_EQ(list->all().revocations.size(), 1u) << "of 2048";
}

}  // namespace
}  // namespace gpunode::security
