#include "runtime/collective/sum_route.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/runtime/collective/exchange_group.hpp"

namespace gpunode::collective {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

using Sites = std::vector<std::uint64_t>;
using RoutePtr = std::shared_ptr<const SumRoute>;

// Bytes of gradient, by sender and receiver.
using Counted = std::map<std::pair<std::uint16_t, std::uint16_t>, std::uint64_t>;

Counted run_and_count(Group& group) {
  Counted traffic;
  group.compute_all();
  while (!group.wire.empty()) {
    const Group::Flying flying = group.wire.front();
    group.wire.erase(group.wire.begin());
    std::uint64_t bytes = 0;
    if (auto* partial = std::get_if<PartialChunk>(&flying.send.message))
      bytes = partial->payload.size();
    if (auto* result = std::get_if<ResultChunk>(&flying.send.message))
      bytes = result->payload.size();
    if (bytes > 0) traffic[{flying.from, flying.send.rank}] += bytes;
    group.deliver(flying.from, flying.send.rank, flying.send.message);
  }
  return traffic;
}

std::uint64_t sent_by(const Counted& traffic, std::uint16_t rank) {
  std::uint64_t bytes = 0;
  for (const auto& [way, count] : traffic)
    if (way.first == rank) bytes += count;
  return bytes;
}

std::uint64_t between(const Counted& traffic, const Sites& sites) {
  std::uint64_t bytes = 0;
  for (const auto& [way, count] : traffic)
    if (sites[way.first] != sites[way.second]) bytes += count;
  return bytes;
}

Group group_of(const Tree& tree, const SlicePlan& plan, std::uint16_t members, ChunkLayout layout,
               const RoutePtr& route, std::uint64_t seed = 1, std::uint32_t rotation = 0) {
  Rng rng(seed);
  return Group(tree, plan, members, layout,
               random_slices(rng, tree.slice_count(), layout.element_count, true), rotation, {},
               route);
}

// Lost messages are asked for again; done when all have committed.
void run_until_committed(Group& group, Rng& rng, const Faults& faults) {
  group.compute_all();
  for (int round = 0; round < 400 && !group.all_committed(); ++round) {
    group.run(rng, faults);
    group.tick(milliseconds(500));
  }
  ASSERT_TRUE(group.all_committed());
  for (std::size_t rank = 0; rank < group.size(); ++rank)
    EXPECT_EQ(group[rank].dropped_messages(), 0u);
}

Sites random_sites(Rng& rng, std::uint16_t members) {
  Sites sites(members);
  for (std::uint64_t& site : sites) site = rng.below(4);  // 0: alone
  return sites;
}

TEST(SumRoute, of_a_ring_leads_from_neighbour_to_neighbour) {
  const SumRoute ring = SumRoute::ring(4);
  EXPECT_EQ(ring.next(1, 1), 1);
  EXPECT_EQ(ring.next(1, 2), 3);
  EXPECT_EQ(ring.next(1, 3), 0);
  EXPECT_EQ(ring.next(1, 0), 1);
  EXPECT_THAT(ring.before(1, 1), ElementsAre(0));
  EXPECT_THAT(ring.before(1, 2), ElementsAre());
}

TEST(SumRoute, of_sites_leads_by_one_member_of_each) {
  const SumRoute route = SumRoute::grouped(Sites{7, 9, 7, 9, 0});
  EXPECT_EQ(route.next(0, 2), 0);  // the owner's own site
  EXPECT_EQ(route.next(0, 1), 0);  // the gate of the other
  EXPECT_EQ(route.next(0, 3), 1);
  EXPECT_EQ(route.next(2, 1), 3);  // another owner in that site, another gate
  EXPECT_EQ(route.next(2, 3), 2);
  EXPECT_EQ(route.next(2, 4), 2);  // who is in no site is alone
  EXPECT_THAT(route.before(2, 3), ElementsAre(1));
}

TEST(SumRoute, of_sites_is_none_where_nothing_can_be_saved) {
  EXPECT_EQ(grouped_route(Sites{3, 3, 3}), nullptr);
  EXPECT_EQ(grouped_route(Sites{1, 2, 3}), nullptr);
  EXPECT_EQ(grouped_route(Sites{0, 0, 0}), nullptr);
  EXPECT_NE(grouped_route(Sites{1, 1, 3}), nullptr);
}

TEST(SumRoute, that_differs_has_another_digest) {
  std::set<Digest> digests{SumRoute::ring(3).digest(), SumRoute::ring(4).digest(),
                           SumRoute::grouped(Sites{1, 1, 2, 2}).digest(),
                           SumRoute::grouped(Sites{1, 2, 1, 2}).digest()};
  EXPECT_EQ(digests.size(), 4u);
}

TEST(RingExchange, costs_each_member_what_a_ring_costs_whatever_the_shares_are) {
  const Tree tree = Tree::of_slices(8);
  const ChunkLayout layout{24, 2};  // twelve chunks: as many for each
  for (const std::uint16_t members : {2, 3, 4, 6}) {
    std::vector<std::uint32_t> shares(members, 1);
    shares[0] += 8 - members;
    for (const SlicePlan& plan : {plan_of_shares(tree, shares), balanced_plan(tree, members)}) {
      Group group = group_of(tree, plan, members, layout, ring_route(Sites(members)));
      const Counted traffic = run_and_count(group);
      ASSERT_TRUE(group.all_committed());
      for (std::uint16_t rank = 0; rank < members; ++rank) {
        EXPECT_EQ(sent_by(traffic, rank), 2 * (members - 1) * 24 * sizeof(float) / members);
        for (const auto& [way, count] : traffic) {
          const int apart = (way.second - way.first + members) % members;
          EXPECT_TRUE(apart == 1 || apart == members - 1) << way.first << " to " << way.second;
        }
      }
    }
  }
}

TEST(RingExchange, gives_all_the_same_bits_in_whatever_order_messages_come) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    const auto members = static_cast<std::uint16_t>(2 + rng.below(5));
    const std::uint32_t slices = 2 + static_cast<std::uint32_t>(rng.below(9));
    const Tree tree = Tree::of_slices(slices);
    const SlicePlan plan = scattered_plan(rng, slices, members);  // some have none
    const auto rotation = static_cast<std::uint32_t>(rng.below(5));
    const RoutePtr route = ring_route(Sites(members));
    Group calm = group_of(tree, plan, members, kLayout, route, seed, rotation);
    run_and_count(calm);
    ASSERT_TRUE(calm.all_committed()) << seed;
    Group group = group_of(tree, plan, members, kLayout, route, seed, rotation);
    run_until_committed(group, rng, {0.1, 0.1, true, true});
    for (std::uint16_t rank = 0; rank < members; ++rank) {
      ASSERT_TRUE(same_bits(*group[rank].result(), *calm[0].result())) << seed;
      ASSERT_EQ(group[rank].result_digest(), calm[rank].result_digest());
      ASSERT_EQ(group[rank].data_fingerprint(), fed_of(tree, tree.root()));
    }
  }
}

TEST(RingExchange, is_near_the_exact_sum_and_not_always_equal) {
  Rng rng(5);
  const Tree tree = Tree::of_slices(8);
  const ChunkLayout layout{256, 16};
  const SlicePlan plan = scattered_plan(rng, 8, 3);
  Group group(tree, plan, 3, layout, random_slices(rng, 8, 256, false), 0, {},
              ring_route(Sites(3)));
  run_and_count(group);
  const Values expected = group.expected();
  for (std::size_t site = 0; site < expected.size(); ++site)
    EXPECT_NEAR((*group[0].result())[site], expected[site], 1e-5);
  EXPECT_FALSE(same_bits(*group[0].result(), expected));
}

TEST(RingExchange, takes_nothing_from_who_is_not_its_neighbour) {
  const Tree tree = Tree::of_slices(4);
  Group group = group_of(tree, balanced_plan(tree, 4), 4, {16, 4}, ring_route(Sites(4)));
  const TreeNode root = tree.root();
  // Chunk 0 belongs to rank 0, whose sums come by way of rank 3.
  for (const std::uint16_t from : {1, 2})
    group.deliver(from, 0, PartialChunk{0, root, {}, floats({1, 2, 3, 4})});
  group.deliver(3, 0, PartialChunk{0, {0, 3}, {}, floats({1, 2, 3, 4})});
  EXPECT_EQ(group[0].dropped_messages(), 3u);
  // And its result comes to rank 2 by way of rank 3.
  group.deliver(0, 2, ResultChunk{0, {}, floats({1, 2, 3, 4})});
  group.deliver(0, 2, Need{{0}, {}, false});
  group.deliver(3, 2, Need{{}, {0}, false});
  EXPECT_EQ(group[2].dropped_messages(), 3u);
}

TEST(SitedExchange, is_equal_to_exact_bit_for_bit_whoever_is_where) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Rng rng(seed);
    const auto members = static_cast<std::uint16_t>(3 + rng.below(6));
    const std::uint32_t slices = 2 + static_cast<std::uint32_t>(rng.below(11));
    const Tree tree = Tree::of_slices(slices);
    const Sites sites = random_sites(rng, members);
    SlicePlan plan = scattered_plan(rng, slices, members);
    if (rng.chance(0.5)) plan = plan_by_sites(tree, plan, sites);
    Group group = group_of(tree, plan, members, kLayout, grouped_route(sites), seed,
                           static_cast<std::uint32_t>(rng.below(5)));
    run_until_committed(group, rng, {0.1, 0.1, true, true});
    for (std::uint16_t rank = 0; rank < members; ++rank) {
      ASSERT_TRUE(same_bits(*group[rank].result(), group.expected())) << seed;
      ASSERT_EQ(group[rank].data_fingerprint(), fed_of(tree, tree.root()));
    }
  }
}

TEST(SitedExchange, sends_half_the_bytes_between_two_pairs_and_a_quarter_between_two_fours) {
  for (const std::uint16_t members : {4, 8}) {
    const Tree tree = Tree::of_slices(16);
    const ChunkLayout layout{64, 4};
    for (const bool mixed : {false, true}) {
      Sites sites(members);
      for (std::uint16_t rank = 0; rank < members; ++rank)
        sites[rank] = 1 + (mixed ? rank % 2 : rank * 2 / members);
      const SlicePlan plan = plan_by_sites(tree, balanced_plan(tree, members), sites);
      Group exact = group_of(tree, plan, members, layout, nullptr);
      Group placed = group_of(tree, plan, members, layout, grouped_route(sites));
      const std::uint64_t all = between(run_and_count(exact), sites);
      const std::uint64_t fewer = between(run_and_count(placed), sites);
      ASSERT_TRUE(placed.all_committed());
      EXPECT_EQ(all, 64 * sizeof(float) * members);
      EXPECT_EQ(fewer, 64 * sizeof(float) * 2) << members << (mixed ? " mixed" : "");
      EXPECT_TRUE(same_bits(*placed[0].result(), *exact[0].result()));
    }
  }
}

TEST(PlanBySites, keeps_the_shares_and_gives_each_site_as_few_nodes_as_its_share_has) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Rng rng(seed);
    const auto members = static_cast<std::uint16_t>(2 + rng.below(7));
    const std::uint32_t slices = members + static_cast<std::uint32_t>(rng.below(30));
    const Tree tree = Tree::of_slices(slices);
    const Sites sites = random_sites(rng, members);
    const SlicePlan plan = scattered_plan(rng, slices, members);
    const SlicePlan better = plan_by_sites(tree, plan, sites);
    ASSERT_TRUE(better.fits(tree, members));
    for (std::uint16_t rank = 0; rank < members; ++rank)
      ASSERT_EQ(better.slices_of(rank).size(), plan.slices_of(rank).size());
    EXPECT_EQ(plan_by_sites(tree, better, sites), better);
    if (!grouped_route(sites)) {
      EXPECT_EQ(better, plan);
      continue;
    }
    std::size_t nodes = 0, fewest = 0;
    std::set<std::uint16_t> seen;
    for (std::uint16_t rank = 0; rank < members; ++rank) {
      if (seen.contains(rank)) continue;
      std::vector<std::uint32_t> slices_here;
      for (std::uint16_t other = rank; other < members; ++other) {
        if (other != rank && (sites[rank] == 0 || sites[other] != sites[rank])) continue;
        seen.insert(other);
        for (const std::uint32_t slice : better.slices_of(other)) slices_here.push_back(slice);
      }
      std::ranges::sort(slices_here);
      nodes += tree.cover(slices_here).size();
      fewest += tree.digit_count(static_cast<std::uint32_t>(slices_here.size()));
    }
    EXPECT_LE(nodes, fewest) << seed;
  }
}

TEST(SumRoute, tells_the_traffic_of_a_step_before_it_is_made) {
  Rng rng(11);
  for (int trial = 0; trial < 60; ++trial) {
    const auto members = static_cast<std::uint16_t>(2 + rng.below(5));
    const Tree tree = Tree::of_slices(2 + static_cast<std::uint32_t>(rng.below(9)));
    const SlicePlan plan = balanced_plan(tree, members);
    const Sites sites = random_sites(rng, members);
    const ChunkLayout layout{60, 1};  // as many chunks for each
    for (const RoutePtr& route : {RoutePtr(), ring_route(sites), grouped_route(sites)}) {
      Group group = group_of(tree, plan, members, layout, route);
      const auto traffic = run_and_count(group);
      for (std::uint16_t rank = 0; rank < members; ++rank) {
        double received = 0;
        for (const auto& [way, count] : traffic)
          if (way.second == rank) received += static_cast<double>(count);
        const Traffic told = traffic_of(route.get(), tree, plan, members, rank);
        EXPECT_DOUBLE_EQ(told.sent * 60 * sizeof(float),
                         static_cast<double>(sent_by(traffic, rank)));
        EXPECT_DOUBLE_EQ(told.received * 60 * sizeof(float), received);
      }
    }
  }
}

}  // namespace
}  // namespace gpunode::collective
