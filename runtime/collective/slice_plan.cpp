#include "runtime/collective/slice_plan.hpp"

#include <algorithm>
#include <bit>
#include <tuple>

namespace gpunode::collective {

namespace {

// Cost of a set of shares: partial sums first, then how uneven they are.
struct Cost {
  std::uint64_t nodes = ~0ull / 2;
  std::uint64_t squares = 0;
  auto operator<=>(const Cost&) const = default;
};

// `members` shares of 1 to `cap` slices, `slices` in all, with the fewest nodes; descending.
// Dynamic programme over what each member is below the cap: together that is less than `members`.
std::vector<std::uint32_t> cheapest_shares(const Tree& tree, std::uint32_t members,
                                           std::uint32_t cap) {
  std::uint32_t missing = members * cap - tree.slice_count();
  std::uint32_t most = std::min(missing, cap - 1);
  std::vector<Cost> of_lack(most + 1);
  for (std::uint32_t lack = 0; lack <= most; ++lack)
    of_lack[lack] = {tree.digit_count(cap - lack), std::uint64_t{cap - lack} * (cap - lack)};

  std::vector<Cost> best(missing + 1), next(missing + 1);
  best[0] = {0, 0};
  std::vector<std::vector<std::uint16_t>> taken(members, std::vector<std::uint16_t>(missing + 1));
  for (std::uint32_t member = 0; member < members; ++member) {
    for (std::uint32_t sum = 0; sum <= missing; ++sum) {
      next[sum] = Cost{};
      for (std::uint32_t lack = 0; lack <= std::min(sum, most); ++lack) {
        Cost cost = best[sum - lack];
        cost.nodes += of_lack[lack].nodes;
        cost.squares += of_lack[lack].squares;
        if (cost < next[sum]) {
          next[sum] = cost;
          taken[member][sum] = static_cast<std::uint16_t>(lack);
        }
      }
    }
    std::swap(best, next);
  }
  std::vector<std::uint32_t> shares;
  for (std::uint32_t member = members, sum = missing; member-- > 0;) {
    shares.push_back(cap - taken[member][sum]);
    sum -= taken[member][sum];
  }
  std::sort(shares.rbegin(), shares.rend());
  return shares;
}

}  // namespace

std::vector<std::uint32_t> SlicePlan::slices_of(std::uint16_t rank) const {
  std::vector<std::uint32_t> slices;
  for (std::uint32_t slice = 0; slice < owner.size(); ++slice)
    if (owner[slice] == rank) slices.push_back(slice);
  return slices;
}

bool SlicePlan::fits(const Tree& tree, std::uint16_t member_count) const {
  return owner.size() == tree.slice_count() &&
         std::all_of(owner.begin(), owner.end(), [&](auto rank) { return rank < member_count; });
}

Digest SlicePlan::digest() const {
  static_assert(std::endian::native == std::endian::little);
  return digest_of(bytes_of(std::span<const std::uint16_t>(owner)));
}

SlicePlan balanced_plan(const Tree& tree, std::uint16_t member_count) {
  GPUNODE_CHECK(member_count > 0, "a plan for no member");
  std::uint32_t slices = tree.slice_count();
  std::uint32_t working = std::min<std::uint32_t>(member_count, slices);
  std::uint32_t cap = (slices + working - 1) / working;
  return plan_of_shares(tree, cheapest_shares(tree, working, cap));
}

SlicePlan plan_of_shares(const Tree& tree, std::vector<std::uint32_t> shares) {
  // Widths of the levels divide one another, so what is placed largest first lies on a multiple of
  // its own width, which is a node.
  SlicePlan plan;
  plan.owner.reserve(tree.slice_count());
  for (std::size_t level = tree.radices().size() + 1; level-- > 0;) {
    std::uint32_t width = tree.width(static_cast<std::uint8_t>(level));
    for (std::size_t rank = 0; rank < shares.size(); ++rank) {
      std::uint32_t placed = shares[rank] / width * width;
      plan.owner.insert(plan.owner.end(), placed, static_cast<std::uint16_t>(rank));
      shares[rank] -= placed;
    }
  }
  return plan;
}

SlicePlan plan_after_loss(const Tree& tree, const SlicePlan& old_plan,
                          std::span<const std::int32_t> new_rank, std::uint16_t new_member_count) {
  auto survivor = [&](std::size_t old) {
    return old < new_rank.size() && new_rank[old] >= 0 && new_rank[old] < new_member_count;
  };
  std::uint32_t slices = tree.slice_count();
  std::vector<std::uint32_t> load(new_member_count, 0);
  std::vector<bool> survives(new_member_count, false);
  for (std::size_t old = 0; old < new_rank.size(); ++old)
    if (survivor(old)) survives[new_rank[old]] = true;
  const auto survivor_count = static_cast<std::uint32_t>(std::ranges::count(survives, true));
  if (survivor_count == 0) return balanced_plan(tree, new_member_count);

  SlicePlan plan;
  plan.owner.resize(slices);
  std::vector<std::uint32_t> lost;
  for (std::uint32_t slice = 0; slice < slices; ++slice) {
    if (slice < old_plan.owner.size() && survivor(old_plan.owner[slice])) {
      plan.owner[slice] = static_cast<std::uint16_t>(new_rank[old_plan.owner[slice]]);
      ++load[plan.owner[slice]];
    } else {
      lost.push_back(slice);
    }
  }
  // No share above the smallest possible largest one, unless a survivor has more already.
  std::uint32_t cap = std::max((slices + survivor_count - 1) / survivor_count,
                               *std::max_element(load.begin(), load.end()));
  std::vector<TreeNode> blocks = tree.cover(lost);
  auto later = [](TreeNode a, TreeNode b) {  // widest on top of the heap, then the leftmost
    return std::tuple(a.level, b.index) < std::tuple(b.level, a.index);
  };
  std::make_heap(blocks.begin(), blocks.end(), later);
  while (!blocks.empty()) {
    std::pop_heap(blocks.begin(), blocks.end(), later);
    TreeNode block = blocks.back();
    blocks.pop_back();
    std::uint32_t width = tree.width(block.level), first = tree.first_slice(block);
    std::uint16_t least = 0;
    while (!survives[least]) ++least;
    for (std::uint16_t rank = least; rank < new_member_count; ++rank)
      if (survives[rank] && load[rank] < load[least]) least = rank;
    if (load[least] + width > cap && block.level > 0) {
      for (TreeNode child : tree.children(block)) {
        blocks.push_back(child);
        std::push_heap(blocks.begin(), blocks.end(), later);
      }
      continue;
    }
    std::fill_n(plan.owner.begin() + first, width, least);
    load[least] += width;
  }
  return plan;
}

}  // namespace gpunode::collective
