#include "runtime/job/proposed_plan.hpp"

#include <algorithm>

#include "runtime/base/broken_rule.hpp"
#include "runtime/collective/paced_plan.hpp"

namespace gpunode::job {

namespace {

using Promisers = std::vector<view::ViewAgreement::Promiser>;
using view::Standing;
using view::View;

// The plan and the paces that the survivors go on from: those of one that has applied the base. If
// nobody has, nobody has begun the next step either, and the plan of the base's own step serves.
Standing pacing_at(const Promisers& survivors, const View& current) {
  const Standing* found = nullptr;
  for (const auto& one : survivors)
    if (!one.standing.plan.empty() && (!found || one.standing.applied > found->applied))
      found = &one.standing;
  if (found) return *found;
  Standing where;
  where.plan = current.plan;
  where.paces = current.paces;
  return where;
}

}  // namespace

collective::SlicePlan first_plan(const collective::Tree& tree, const View& view) {
  const auto count = static_cast<std::uint16_t>(view.members.size());
  collective::SlicePlan plan{view.plan};
  return plan.fits(tree, count) ? plan : collective::balanced_plan(tree, count);
}

void choose_plan(const collective::Tree& tree, const View& current, const Promisers& survivors,
                 View& next) {
  const auto before_count = static_cast<std::uint16_t>(current.members.size());
  const auto count = static_cast<std::uint16_t>(next.members.size());
  const Standing pacing = pacing_at(survivors, current);
  const auto old_paces = collective::Paces::from_words(pacing.paces, before_count);
  auto paces = collective::Paces::of_members(count);
  std::vector<std::int32_t> new_rank;
  bool anyone = false;
  for (std::size_t old = 0; old < current.members.size(); ++old) {
    const auto at = std::find(next.members.begin(), next.members.end(), current.members[old]);
    new_rank.push_back(
        at == next.members.end() ? -1 : static_cast<std::int32_t>(at - next.members.begin()));
    if (new_rank.back() < 0) continue;
    anyone = true;
    paces.members[static_cast<std::size_t>(new_rank.back())] = old_paces.members[old];
  }
  if (anyone) {
    paces.gradient_us = old_paces.gradient_us;
    paces.gradient_samples = old_paces.gradient_samples;
  }
  next.paces.clear();
  if (!broken("paces_not_in_view")) next.paces = paces.to_words();
  collective::SlicePlan before{pacing.plan};
  if (!anyone || !before.fits(tree, before_count)) {
    next.plan = collective::balanced_plan(tree, count).owner;
    return;
  }
  next.plan = collective::plan_after_loss(tree, before, new_rank, count).owner;
}

}  // namespace gpunode::job
