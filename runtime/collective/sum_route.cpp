#include "runtime/collective/sum_route.hpp"

#include <algorithm>

#include "runtime/base/check.hpp"

namespace gpunode::collective {

namespace {

using Ranks = std::vector<std::uint16_t>;

// Groups in order of their first rank, ranks ascending.
std::vector<Ranks> groups_of(std::span<const std::uint64_t> sites) {
  std::vector<Ranks> groups;
  for (std::size_t rank = 0; rank < sites.size(); ++rank) {
    const auto same = std::ranges::find_if(groups, [&](const Ranks& group) {
      return sites[rank] != 0 && sites[group.front()] == sites[rank];
    });
    Ranks& group = same == groups.end() ? groups.emplace_back() : *same;
    group.push_back(static_cast<std::uint16_t>(rank));
  }
  return groups;
}

// Whether a sum of a group saves anything.
bool is_grouped(const std::vector<Ranks>& groups, std::size_t member_count) {
  return groups.size() > 1 && groups.size() < member_count;
}

std::size_t node_count(const Tree& tree, const SlicePlan& plan, const Ranks& group) {
  std::vector<std::uint32_t> slices;
  for (std::uint32_t slice = 0; slice < plan.owner.size(); ++slice)
    if (std::ranges::find(group, plan.owner[slice]) != group.end()) slices.push_back(slice);
  return tree.cover(slices).size();
}

}  // namespace

SumRoute SumRoute::ring(std::uint16_t member_count) {
  SumRoute route(member_count, true);
  for (std::uint16_t owner = 0; owner < member_count; ++owner)
    for (std::uint16_t rank = 0; rank < member_count; ++rank)
      route.next_[owner][rank] =
          rank == owner ? owner : static_cast<std::uint16_t>((rank + 1) % member_count);
  return route;
}

SumRoute SumRoute::grouped(std::span<const std::uint64_t> sites) {
  const auto member_count = static_cast<std::uint16_t>(sites.size());
  const std::vector<Ranks> groups = groups_of(sites);
  SumRoute route(member_count, false);
  for (const Ranks& home : groups)
    for (std::size_t index = 0; index < home.size(); ++index)
      for (const Ranks& group : groups) {
        const std::uint16_t owner = home[index];
        // Of several owners in one site not all sums of a group go by the same member.
        const std::uint16_t gate = &group == &home ? owner : group[index % group.size()];
        for (const std::uint16_t rank : group)
          route.next_[owner][rank] = rank == gate ? owner : gate;
      }
  return route;
}

Ranks SumRoute::before(std::uint16_t owner, std::uint16_t rank) const {
  Ranks ranks;
  for (std::uint16_t step = 1; step < member_count(); ++step) {
    const auto other = static_cast<std::uint16_t>((rank + step) % member_count());
    if (other != owner && next(owner, other) == rank) ranks.push_back(other);
  }
  return ranks;
}

Digest SumRoute::digest() const {
  DigestStream stream;
  const std::byte first{static_cast<unsigned char>(merges_)};
  stream.add({&first, 1});
  for (const Ranks& ranks : next_) stream.add(bytes_of(std::span<const std::uint16_t>(ranks)));
  return stream.value();
}

SlicePlan plan_by_sites(const Tree& tree, const SlicePlan& plan,
                        std::span<const std::uint64_t> sites) {
  const std::vector<Ranks> groups = groups_of(sites);
  if (!is_grouped(groups, sites.size())) return plan;
  GPUNODE_CHECK(plan.fits(tree, static_cast<std::uint16_t>(sites.size())), "plan of another view");
  std::vector<std::uint32_t> shares(sites.size(), 0), group_shares;
  for (const std::uint16_t rank : plan.owner) ++shares[rank];
  std::size_t nodes = 0, fewest = 0;
  for (const Ranks& group : groups) {
    std::uint32_t share = 0;
    for (const std::uint16_t rank : group) share += shares[rank];
    group_shares.push_back(share);
    nodes += node_count(tree, plan, group);
    fewest += tree.digit_count(share);
  }
  if (nodes <= fewest) return plan;

  // Groups as members would be; then each group's slices, widest node first, among its members:
  // what is placed largest first falls on a multiple of its own width there too.
  const SlicePlan by_group = plan_of_shares(tree, group_shares);
  SlicePlan better = plan;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    std::vector<std::uint32_t> own;
    for (const std::uint16_t rank : groups[group]) own.push_back(shares[rank]);
    const SlicePlan within = plan_of_shares(tree, own);
    std::size_t index = 0;
    for (std::size_t slice = 0; slice < by_group.owner.size(); ++slice)
      if (by_group.owner[slice] == group)
        better.owner[slice] = groups[group][within.owner[index++]];
  }
  return better;
}

std::shared_ptr<const SumRoute> ring_route(std::span<const std::uint64_t> sites) {
  return std::make_shared<const SumRoute>(SumRoute::ring(static_cast<std::uint16_t>(sites.size())));
}

std::shared_ptr<const SumRoute> grouped_route(std::span<const std::uint64_t> sites) {
  if (!is_grouped(groups_of(sites), sites.size())) return nullptr;
  return std::make_shared<const SumRoute>(SumRoute::grouped(sites));
}

}  // namespace gpunode::collective
