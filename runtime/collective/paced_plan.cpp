#include "runtime/collective/paced_plan.hpp"

#include <algorithm>
#include <bitset>
#include <optional>
#include <tuple>
#include <utility>

namespace gpunode::collective {

namespace {

constexpr std::uint16_t kSlowest = 8;       // a new sample weighs at least 1/8
constexpr std::int64_t kMostGrowth = 4;     // of one sample over the smoothed time
constexpr std::uint64_t kHysteresis = 32;   // a plan must be cheaper by more than 1/32
constexpr std::uint32_t kManySlices = 256;  // from here on the search is bounded
constexpr std::uint32_t kShareWindow = 24;  // shares this near the ideal are tried then
constexpr std::uint64_t kSearchEvery = 16;  // steps, then
constexpr std::uint64_t kLongestSlice = 1u << 31;

std::uint32_t smoothed(std::int64_t before, std::uint16_t samples, std::uint64_t told) {
  const auto sample = static_cast<std::int64_t>(std::min(told, kLongestSlice));
  if (samples == 0) return static_cast<std::uint32_t>(sample);
  const std::int64_t weight = std::min<std::int64_t>(samples + 1, kSlowest);
  const std::int64_t bounded = std::min(sample, kMostGrowth * before + 1);
  return static_cast<std::uint32_t>(before + (bounded - before) / weight);
}

// More than counts is nobody's measure: a liar's word must not grow over the type's end.
std::uint16_t samples_of(std::uint64_t word) {
  return std::min(static_cast<std::uint16_t>(word >> 48), kSlowest);
}

std::uint32_t waves(std::uint32_t share, std::uint16_t workers) {
  return (share + workers - 1) / std::max<std::uint16_t>(workers, 1);
}

std::vector<std::uint32_t> shares_of(const SlicePlan& plan, std::size_t members) {
  std::vector<std::uint32_t> shares(members, 0);
  for (std::uint16_t rank : plan.owner) ++shares[rank];
  return shares;
}

// Partial sums of the member that has most: of the real cover, not of the ideal packing.
std::uint32_t most_nodes(const Tree& tree, const SlicePlan& plan, std::size_t members) {
  std::size_t most = 0;
  for (std::size_t rank = 0; rank < members; ++rank)
    most = std::max(most, tree.cover(plan.slices_of(static_cast<std::uint16_t>(rank))).size());
  return static_cast<std::uint32_t>(most);
}

// One search for the best shares; see the header for the cost.
class Search {
 public:
  Search(const Tree& tree, const Paces& paces, const SlicePlan& present, bool one_sum)
      : tree_(tree), paces_(known(paces)), present_(shares_of(present, paces.members.size())) {
    for (std::uint32_t share = 0; share <= tree.slice_count(); ++share)
      nodes_.push_back(one_sum ? 1 : tree.digit_count(share));
    bound_windows();
  }

  // No shares at all take less time than this.
  bool can_beat(std::uint64_t limit) const { return fastest_us_ + exchange_us(1) < limit; }

  std::uint64_t exchange_us(std::uint32_t nodes) const {
    const std::uint64_t members = paces_.members.size();
    return std::uint64_t{paces_.gradient_us} * (nodes + 1) * (members - 1) / members;
  }
  std::uint64_t compute_us(const std::vector<std::uint32_t>& shares) const {
    std::uint64_t longest = 0;
    for (std::size_t rank = 0; rank < shares.size(); ++rank)
      longest = std::max(longest, time_of(rank, shares[rank]));
    return longest;
  }
  bool someone_idles() const { return std::ranges::count(present_, 0u) > 0; }

  // The cheapest shares below `limit`, or nothing.
  std::vector<std::uint32_t> best(std::uint64_t limit) const {
    std::vector<std::uint32_t> best_shares;
    std::tuple<std::uint64_t, std::uint32_t, std::uint32_t> best_cost{limit, 0, 0};
    const std::uint32_t most = *std::max_element(nodes_.begin(), nodes_.end());
    for (std::uint32_t nodes = 1; nodes <= most; ++nodes) {
      if (fastest_us_ + exchange_us(nodes) >= std::get<0>(best_cost)) break;
      const auto longest = shortest_time(nodes, std::get<0>(best_cost) - exchange_us(nodes));
      if (!longest) continue;
      const Chosen chosen = choose(nodes, *longest);
      const std::tuple cost{compute_us(chosen.shares) + exchange_us(nodes), chosen.nodes,
                            chosen.moved};
      if (cost >= best_cost) continue;
      best_cost = cost;
      best_shares = chosen.shares;
    }
    return best_shares;
  }

 private:
  struct Chosen {
    std::vector<std::uint32_t> shares;
    std::uint32_t nodes = 0, moved = 0;
  };
  struct Window {
    std::uint32_t low = 1, high = 1;
  };

  // Members without a pace get that of the median member.
  static Paces known(Paces paces) {
    std::vector<Pace> measured;
    for (const Pace& pace : paces.members)
      if (pace.samples > 0) measured.push_back(pace);
    Pace median{1000, 1, 1};
    if (!measured.empty()) {
      const auto middle = measured.begin() + static_cast<std::ptrdiff_t>((measured.size() - 1) / 2);
      std::nth_element(measured.begin(), middle, measured.end(), [](const Pace& a, const Pace& b) {
        return std::tuple(a.slice_us, a.workers) < std::tuple(b.slice_us, b.workers);
      });
      median = *middle;
    }
    for (Pace& pace : paces.members) {
      if (pace.samples == 0) pace = median;
      pace.slice_us = std::max(pace.slice_us, 1u);
      pace.workers = std::max<std::uint16_t>(pace.workers, 1);
    }
    return paces;
  }

  std::uint64_t time_of(std::size_t rank, std::uint32_t share) const {
    const Pace& pace = paces_.members[rank];
    return std::uint64_t{waves(share, pace.workers)} * pace.slice_us;
  }

  // All shares for small jobs; else those near each member's ideal one.
  void bound_windows() {
    const std::uint32_t slices = tree_.slice_count();
    const auto members = static_cast<std::uint32_t>(paces_.members.size());
    windows_.assign(members, {1, slices - members + 1});
    std::uint64_t total = 0;  // slices in 2^32 us
    const auto speed = [](const Pace& pace) {
      return (std::uint64_t{pace.workers} << 32) / pace.slice_us + 1;
    };
    for (const Pace& pace : paces_.members) total += speed(pace);
    fastest_us_ = (std::uint64_t{slices} << 32) / total;
    if (slices <= kManySlices) return;
    for (std::uint32_t rank = 0; rank < members; ++rank) {
      const std::uint64_t per_slice = total / slices + 1;
      const auto ideal = static_cast<std::uint32_t>(speed(paces_.members[rank]) / per_slice);
      const auto [least, most] = windows_[rank];
      const std::uint32_t below = ideal > kShareWindow ? ideal - kShareWindow : 0;
      windows_[rank] = {std::clamp(below, least, most),
                        std::clamp(ideal + kShareWindow, least, most)};
    }
  }

  bool allowed(std::size_t rank, std::uint32_t share, std::uint32_t nodes,
               std::uint64_t longest) const {
    return nodes_[share] <= nodes && time_of(rank, share) <= longest;
  }

  // Whether shares that keep to both bounds can sum up to all slices. kBits > slice count.
  template <std::size_t kBits>
  bool sums_up(std::uint32_t nodes, std::uint64_t longest) const {
    std::bitset<kBits> reached, next;
    reached[0] = true;
    for (std::size_t rank = 0; rank < windows_.size(); ++rank, reached = next) {
      next.reset();
      for (std::uint32_t share = windows_[rank].low; share <= windows_[rank].high; ++share)
        if (allowed(rank, share, nodes, longest)) next |= reached << share;
    }
    return reached[tree_.slice_count()];
  }
  bool feasible(std::uint32_t nodes, std::uint64_t longest) const {
    return tree_.slice_count() <= kManySlices ? sums_up<kManySlices + 1>(nodes, longest)
                                              : sums_up<4097>(nodes, longest);
  }

  // The shortest compute time below `limit` that some shares of at most so many nodes reach.
  std::optional<std::uint64_t> shortest_time(std::uint32_t nodes, std::uint64_t limit) const {
    std::vector<std::uint64_t> times;
    for (std::size_t rank = 0; rank < windows_.size(); ++rank)
      for (std::uint32_t share = windows_[rank].low; share <= windows_[rank].high; ++share)
        if (const std::uint64_t time = time_of(rank, share); time <= limit) times.push_back(time);
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    const auto found = std::partition_point(
        times.begin(), times.end(), [&](std::uint64_t time) { return !feasible(nodes, time); });
    if (found == times.end()) return std::nullopt;
    return *found;
  }

  // Among the shares that keep to both bounds those with the fewest nodes, then the fewest moves.
  Chosen choose(std::uint32_t nodes, std::uint64_t longest) const {
    using Cost = std::pair<std::uint32_t, std::uint32_t>;
    constexpr Cost kNever{~0u / 2, 0};
    const std::uint32_t slices = tree_.slice_count();
    std::vector<Cost> best(slices + 1, kNever), next(slices + 1);
    best[0] = {0, 0};
    std::vector<std::vector<std::uint16_t>> taken(windows_.size(),
                                                  std::vector<std::uint16_t>(slices + 1, 0));
    for (std::size_t rank = 0; rank < windows_.size(); ++rank) {
      std::fill(next.begin(), next.end(), kNever);
      for (std::uint32_t share = windows_[rank].low; share <= windows_[rank].high; ++share) {
        if (!allowed(rank, share, nodes, longest)) continue;
        const std::uint32_t moved =
            share > present_[rank] ? share - present_[rank] : present_[rank] - share;
        for (std::uint32_t sum = 0; sum + share <= slices; ++sum) {
          if (best[sum] == kNever) continue;
          const Cost cost{best[sum].first + nodes_[share], best[sum].second + moved};
          if (cost >= next[sum + share]) continue;
          next[sum + share] = cost;
          taken[rank][sum + share] = static_cast<std::uint16_t>(share);
        }
      }
      std::swap(best, next);
    }
    Chosen chosen{std::vector<std::uint32_t>(windows_.size()), best[slices].first,
                  best[slices].second};
    for (std::size_t rank = windows_.size(), sum = slices; rank-- > 0;) {
      chosen.shares[rank] = taken[rank][sum];
      sum -= taken[rank][sum];
    }
    return chosen;
  }

  const Tree& tree_;
  Paces paces_;
  std::vector<std::uint32_t> present_;
  std::vector<std::uint32_t> nodes_;  // by share
  std::vector<Window> windows_;       // by rank
  std::uint64_t fastest_us_ = 0;      // of shares that need not be whole
};

}  // namespace

Paces Paces::of_members(std::uint16_t member_count) {
  return {.members = std::vector<Pace>(member_count)};
}

std::vector<std::uint64_t> Paces::to_words() const {
  std::vector<std::uint64_t> words;
  for (const Pace& pace : members)
    words.push_back(std::uint64_t{pace.slice_us} | std::uint64_t{pace.workers} << 32 |
                    std::uint64_t{pace.samples} << 48);
  words.push_back(std::uint64_t{gradient_us} | std::uint64_t{gradient_samples} << 48);
  return words;
}

Paces Paces::from_words(std::span<const std::uint64_t> words, std::uint16_t member_count) {
  Paces paces = of_members(member_count);
  if (words.size() != paces.members.size() + 1) return paces;
  for (std::size_t rank = 0; rank < paces.members.size(); ++rank)
    paces.members[rank] = {static_cast<std::uint32_t>(words[rank]),
                           static_cast<std::uint16_t>(words[rank] >> 32), samples_of(words[rank])};
  paces.gradient_us = static_cast<std::uint32_t>(words.back());
  paces.gradient_samples = samples_of(words.back());
  return paces;
}

Paces paces_after(const Paces& before, const Tree& tree, const SlicePlan& plan,
                  std::span<const StepTimes> told, bool one_sum) {
  Paces after = before;
  std::uint64_t exposed = ~std::uint64_t{0};
  for (std::size_t rank = 0; rank < after.members.size() && rank < told.size(); ++rank) {
    const ComputeTimes& times = told[rank].compute;
    exposed = std::min<std::uint64_t>(exposed, told[rank].gather_us);
    if (times.slices == 0 || times.compute_us == 0) continue;
    Pace& pace = after.members[rank];
    if (times.workers != pace.workers) pace.samples = 0;
    pace.workers = std::max<std::uint16_t>(times.workers, 1);
    pace.slice_us =
        smoothed(pace.slice_us, pace.samples, times.compute_us / waves(times.slices, pace.workers));
    pace.samples = std::min<std::uint16_t>(pace.samples + 1, kSlowest);
  }
  const std::uint64_t members = after.members.size();
  if (members < 2 || told.size() != members) return after;
  // Who was last to compute has waited for nobody: its time is the exchange's alone.
  const std::uint64_t nodes = one_sum ? 1 : most_nodes(tree, plan, members);
  const std::uint64_t sample = exposed * members / ((nodes + 1) * (members - 1));
  after.gradient_us = smoothed(after.gradient_us, after.gradient_samples, sample);
  after.gradient_samples = std::min<std::uint16_t>(after.gradient_samples + 1, kSlowest);
  return after;
}

SlicePlan paced_plan(const Tree& tree, const SlicePlan& present, const Paces& paces,
                     PlanChange change) {
  const auto members = static_cast<std::uint16_t>(paces.members.size());
  const std::uint32_t slices = tree.slice_count();
  if (members < 2) return present;
  if (slices < members) return balanced_plan(tree, members);
  const Search search(tree, paces, present, change.one_sum);
  const bool in_need = change.from_anything || search.someone_idles();
  if (!in_need && slices > kManySlices && change.step % kSearchEvery != 0) return present;
  const std::vector<std::uint32_t> shares = shares_of(present, members);
  std::uint64_t limit = ~std::uint64_t{0} / 2;
  if (!in_need) {
    const std::uint32_t nodes = change.one_sum ? 1 : most_nodes(tree, present, members);
    const std::uint64_t cost = search.compute_us(shares) + search.exchange_us(nodes);
    limit = cost - cost / kHysteresis;
    if (!search.can_beat(limit)) return present;
  }
  const std::vector<std::uint32_t> better = search.best(limit);
  return better.empty() ? present : plan_of_shares(tree, better);
}

}  // namespace gpunode::collective
