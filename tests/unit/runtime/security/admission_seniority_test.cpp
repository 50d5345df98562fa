// Whose word counts among those that put each other out, and what a full disk leaves undone.
#include "runtime/base/rng.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/memory_file_system.hpp"
#include "tests/unit/runtime/security/seniority_fixture.hpp"

#include <gtest/gtest.h>

namespace gpunode::security {
namespace {

using namespace std::chrono_literals;
using testing::FaultFileSystem;
using testing::MemoryFileSystem;

TEST(Seniority, leaves_no_word_to_whom_a_senior_put_out) {
  Cluster c;
  const Revocation out = c.order(c.founder, c.first, {c.of_third});
  EXPECT_EQ(c.out_by({c.order(c.first, c.plain)}), "p");
  EXPECT_EQ(c.out_by({out, c.order(c.first, c.plain), c.order(c.first, c.second)}), "1");
  EXPECT_EQ(c.out_by({out, c.order(c.third, c.plain)}), "1p") << "who stays keeps its word";
}

TEST(Seniority, leaves_no_word_to_those_that_go_with_it) {
  Cluster c;
  const Identity made_up = Identity::create();
  const Admission of_made_up = c.admission(c.first, made_up, kAllRights, 2s);
  const Revocation by_made_up = c.order(made_up, c.plain), out = c.order(c.founder, c.first);
  for (const bool early : {false, true}) {  // at a node that had not heard of the order
    Admissions list(c.id);
    ASSERT_TRUE(list.merge(c.members()));
    if (!early) ASSERT_TRUE(list.merge({{}, {}, {out}}));
    ASSERT_TRUE(list.merge({{of_made_up}, {made_up.link_key()}, {by_made_up}}));
    EXPECT_EQ(c.out(list), early ? "p" : "13");
    auto merged = list.merge({{}, {}, {out}});
    ASSERT_TRUE(merged);
    EXPECT_EQ(c.out(list), "13") << "the third was not named";
    if (early) EXPECT_EQ(merged->restored, std::vector{c.plain.id()});
  }
}

TEST(Seniority, lets_both_stand_of_two_that_put_each_other_out_and_the_seniors_other_orders) {
  Cluster c;
  const std::vector both{c.order(c.first, c.second), c.order(c.second, c.first, {c.of_third})};
  EXPECT_EQ(c.out_by(both), "12");
  auto more = both;
  more.push_back(c.order(c.first, c.plain));
  EXPECT_EQ(c.out_by(more), "12p") << "the first was admitted earlier";
  more.back() = c.order(c.second, c.plain);
  EXPECT_EQ(c.out_by(more), "12");
}

TEST(Seniority, gives_nobody_back_whom_a_senior_put_out_by_putting_out_the_senior) {
  Cluster c;
  EXPECT_EQ(c.out_by({c.order(c.founder, c.first, {c.of_third}), c.order(c.founder, c.second),
                      c.order(c.second, c.founder, {c.of_first, c.of_plain})}),
            "f12");
}

TEST(Seniority, decides_a_ring_of_orders) {
  Cluster c;
  EXPECT_EQ(c.out_by({c.order(c.founder, c.first, {c.of_third}), c.order(c.first, c.second),
                      c.order(c.second, c.founder, {c.of_first, c.of_second, c.of_plain})}),
            "f1")
      << "the first has no word, so the second has";
}

TEST(Seniority, gives_back_its_word_to_whom_the_recovery_key_wants_back) {
  Cluster c;
  EXPECT_EQ(c.out_by({c.order(c.founder, c.first, {c.of_third}), c.order(c.first, c.plain),
                      c.order(c.key.signer(), c.founder, {c.of_first, c.of_second, c.of_plain})}),
            "fp");
}

TEST(Seniority, comes_to_the_same_whatever_is_told_when) {
  Cluster c;
  const Identity* nodes[] = {&c.founder, &c.first, &c.second, &c.third, &c.plain};
  const Admission* records[] = {&c.root, &c.of_first, &c.of_second, &c.of_third, &c.of_plain};
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    std::vector<Revocation> orders;
    while (orders.size() < 5) {
      const Identity &by = *nodes[rng.below(4)], &of = *nodes[rng.below(5)];
      if (by.id() == of.id()) continue;
      std::vector<Admission> kept;
      for (const Admission* one : records)
        if (rng.below(2) == 0) kept.push_back(*one);
      orders.push_back(c.order(by, of, kept));
    }
    for (int round = 0; round < 6; ++round) {
      Admissions list(c.id), other(c.id);
      ASSERT_TRUE(list.merge(c.members()));
      ASSERT_TRUE(other.merge(c.members()));
      for (std::size_t left = orders.size(); left > 1; --left)
        std::swap(orders[left - 1], orders[rng.below(left)]);
      for (std::size_t at = 0; at < orders.size(); ++at)
        ASSERT_TRUE((at % 2 == 0 ? list : other).merge({{}, {}, {orders[at]}}));
      for (int meeting = 0; meeting < 3; ++meeting) {
        ASSERT_TRUE(list.merge(other.all()));
        ASSERT_TRUE(other.merge(list.all()));
      }
      EXPECT_EQ(list.summary(), other.summary()) << seed;
      EXPECT_EQ(c.out(list), c.out(other)) << seed;
    }
  }
}

TEST(Seniority, puts_out_anew_whom_one_had_put_out_that_goes_itself) {
  Cluster c;
  Admissions list(c.id);
  ASSERT_TRUE(list.merge(c.members()));
  ASSERT_TRUE(list.merge({{}, {}, {c.order(c.first, c.plain)}}));
  auto done = list.revoke(c.founder, {c.first.id(), "sold", false}, kNow + 2h);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->orders.size(), 2u);
  EXPECT_TRUE(done->silenced);
  EXPECT_EQ(c.out(list), "1p");
  Admissions undone(c.id);
  ASSERT_TRUE(undone.merge(c.members()));
  ASSERT_TRUE(undone.merge({{}, {}, {c.order(c.first, c.plain)}}));
  auto undo = undone.revoke(c.founder, {c.first.id(), "", false, true}, kNow + 2h);
  ASSERT_TRUE(undo);
  EXPECT_EQ(undo->back, 1u);
  EXPECT_EQ(c.out(undone), "1");
  Admissions other(c.id);
  ASSERT_TRUE(other.merge(c.members()));
  ASSERT_TRUE(other.merge({{}, {}, done->orders}));
  ASSERT_TRUE(other.merge(list.all()));
  EXPECT_EQ(c.out(other), "1p");
  // By one whose word is worth less it is told that the other's still counts.
  Admissions third(c.id);
  ASSERT_TRUE(third.merge(c.members()));
  auto junior = third.revoke(c.second, {c.first.id(), "", false}, kNow + 2h);
  ASSERT_TRUE(junior);
  EXPECT_FALSE(junior->silenced);
  auto plain = third.revoke(c.second, {c.plain.id(), "", false}, kNow + 2h);
  ASSERT_TRUE(plain);
  EXPECT_TRUE(plain->silenced) << "it may not operate";
}

TEST(Seniority, does_nothing_where_the_disk_is_full) {
  Cluster c;
  MemoryFileSystem disk;
  FaultFileSystem files(disk);
  ASSERT_TRUE(disk.create_folder("/state"));
  auto list = Admissions::open(files, "/state", c.id);
  ASSERT_TRUE(list);
  ASSERT_TRUE((*list)->merge(c.members()));
  const Credentials before = (*list)->all();
  files.disk_full_after(0);
  const auto failed = [&](const auto& done) {
    return !done && done.error().code == ErrorCode::disk_full && (*list)->all() == before;
  };
  EXPECT_TRUE(failed((*list)->revoke(c.founder, {c.plain.id(), "", false}, kNow)));
  EXPECT_TRUE(failed((*list)->refound(
      c.key, {c.first.id(), c.first.sign_key(), "first", {c.founder.id()}}, kNow)));
  const Identity late = Identity::create();
  EXPECT_TRUE(failed((*list)->admit(c.founder, c.admission(c.founder, late, kRightsDefault, 9s),
                                    late.link_key())));
  // What another node tells counts all the same, and is stored when there is room.
  auto heard = (*list)->merge({{}, {}, {c.order(c.founder, c.plain)}}, c.founder.id());
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->added.revocations.size(), 1u);
  EXPECT_TRUE(heard->unstored);
  EXPECT_EQ(c.out(**list), "p");
  files.heal();
  ASSERT_TRUE((*list)->store());
  disk.crash();
  list = Admissions::open(files, "/state", c.id);
  ASSERT_TRUE(list);
  EXPECT_EQ(c.out(**list), "p");
}

}  // namespace
}  // namespace gpunode::security
