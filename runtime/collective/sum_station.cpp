#include "runtime/collective/sum_station.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "runtime/base/check.hpp"

namespace gpunode::collective {

namespace {

std::pair<std::uint16_t, TreeNode> key_of(const SumStation::Input& input) {
  return {input.rank, input.node};
}

class Builder {
 public:
  Builder(const SumRoute* route, const Tree& tree, const SlicePlan& plan,
          std::uint16_t member_count, std::uint16_t rank)
      : route_(route), tree_(tree), slices_(member_count), rank_(rank) {
    for (std::uint32_t slice = 0; slice < plan.owner.size(); ++slice)
      slices_[plan.owner[slice]].push_back(slice);
    own_ = tree.cover(slices_[rank]);
  }

  SumStation build(std::uint16_t owner) const {
    SumStation station;
    station.next = next(owner, rank_);
    station.before = before(owner, rank_);
    if (!route_ && owner != rank_) return station;
    for (const TreeNode node : own_) station.inputs.push_back({rank_, node, {}});
    for (const std::uint16_t rank : station.before)
      for (const TreeNode node : sent_by(owner, rank)) station.inputs.push_back({rank, node, {}});
    const bool takes_in = station.inputs.size() > own_.size();
    std::ranges::sort(station.inputs, {}, key_of);
    if (merges())
      add_merged(station);
    else if (owner == rank_ || takes_in)
      add_whole_nodes(station, owner);
    return station;
  }

 private:
  bool merges() const { return route_ && route_->merges(); }
  std::uint16_t next(std::uint16_t owner, std::uint16_t rank) const {
    return route_ ? route_->next(owner, rank) : owner;
  }
  std::vector<std::uint16_t> before(std::uint16_t owner, std::uint16_t rank) const {
    if (route_) return route_->before(owner, rank);
    std::vector<std::uint16_t> all;
    for (std::size_t step = 1; owner == rank && step < slices_.size(); ++step)
      all.push_back(static_cast<std::uint16_t>((rank + step) % slices_.size()));
    return all;
  }
  // The slices whose sums come to the owner by way of `rank`, its own included.
  std::vector<std::uint32_t> slices_by(std::uint16_t owner, std::uint16_t rank) const {
    std::vector<std::uint32_t> slices = slices_[rank];
    for (const std::uint16_t other : before(owner, rank)) {
      const std::vector<std::uint32_t> more = slices_by(owner, other);
      slices.insert(slices.end(), more.begin(), more.end());
    }
    std::ranges::sort(slices);
    return slices;
  }
  bool has_slices_by(std::uint16_t owner, std::uint16_t rank) const {
    if (!slices_[rank].empty()) return true;
    return std::ranges::any_of(before(owner, rank),
                               [&](std::uint16_t other) { return has_slices_by(owner, other); });
  }
  std::vector<TreeNode> sent_by(std::uint16_t owner, std::uint16_t rank) const {
    if (!merges()) return tree_.cover(slices_by(owner, rank));
    return has_slices_by(owner, rank) ? std::vector{tree_.root()} : std::vector<TreeNode>{};
  }

  // All inputs in one sum, left to right.
  void add_merged(SumStation& station) const {
    const auto count = static_cast<std::uint32_t>(station.inputs.size());
    if (count == 0) return;
    const Tree flat = *Tree::of_radices(count == 1 ? std::vector<std::uint32_t>{}
                                                   : std::vector<std::uint32_t>{count});
    SumStation::Output output{tree_.root(), {}, {}};
    std::vector<TreeNode> leaves;
    for (std::uint32_t index = 0; index < count; ++index) {
      output.inputs.push_back(index);
      leaves.push_back({0, index});
    }
    output.program = SumProgram::of(flat, flat.root(), leaves).value();
    station.outputs.push_back(std::move(output));
  }

  // What all inputs together are the cover of.
  void add_whole_nodes(SumStation& station, std::uint16_t owner) const {
    const auto below = [this](TreeNode node, TreeNode above) {
      return node.level <= above.level && tree_.first_slice(node) >= tree_.first_slice(above) &&
             tree_.first_slice(node) < tree_.first_slice(above) + tree_.width(above.level);
    };
    std::vector<TreeNode> made = tree_.cover(slices_by(owner, rank_));
    std::ranges::sort(made, std::greater{});  // the widest is waited for longest by those after
    for (const TreeNode node : made) {
      SumStation::Output output{node, {}, {}};
      std::vector<TreeNode> given;
      for (std::uint32_t index = 0; index < station.inputs.size(); ++index) {
        if (!below(station.inputs[index].node, node)) continue;
        output.inputs.push_back(index);
        given.push_back(station.inputs[index].node);
      }
      output.program = SumProgram::of(tree_, node, given).value();
      station.outputs.push_back(std::move(output));
    }
  }

  const SumRoute* route_;
  const Tree& tree_;
  std::vector<std::vector<std::uint32_t>> slices_;  // by rank
  std::uint16_t rank_;
  std::vector<TreeNode> own_;
};

}  // namespace

std::optional<std::uint32_t> SumStation::input_of(std::uint16_t rank, TreeNode node) const {
  const std::pair key(rank, node);
  const auto at = std::ranges::lower_bound(inputs, key, {}, key_of);
  if (at == inputs.end() || key_of(*at) != key) return std::nullopt;
  return static_cast<std::uint32_t>(at - inputs.begin());
}

std::vector<SumStation> SumStation::of(const SumRoute* route, const Tree& tree,
                                       const SlicePlan& plan, std::uint16_t member_count,
                                       std::uint16_t rank) {
  GPUNODE_CHECK(!route || route->member_count() == member_count, "route of another view");
  const Builder builder(route, tree, plan, member_count, rank);
  std::vector<SumStation> stations;
  for (std::uint16_t owner = 0; owner < member_count; ++owner)
    stations.push_back(builder.build(owner));
  return stations;
}

Traffic traffic_of(const SumRoute* route, const Tree& tree, const SlicePlan& plan,
                   std::uint16_t member_count, std::uint16_t rank) {
  Traffic traffic;
  const std::size_t own = tree.cover(plan.slices_of(rank)).size();
  for (const SumStation& station : SumStation::of(route, tree, plan, member_count, rank)) {
    const bool owns = station.next == rank;
    const std::size_t sums = station.passes() ? own : station.outputs.size();
    const auto taken_in = std::ranges::count_if(
        station.inputs, [rank](const SumStation::Input& input) { return input.rank != rank; });
    traffic.sent += static_cast<double>((owns ? 0 : sums) + station.before.size());
    traffic.received += static_cast<double>(taken_in + (owns ? 0 : 1));
  }
  return {traffic.sent / member_count, traffic.received / member_count};
}

}  // namespace gpunode::collective
