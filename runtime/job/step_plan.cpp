#include "runtime/job/step_plan.hpp"

#include "runtime/base/broken_rule.hpp"
#include "runtime/job/proposed_plan.hpp"

namespace gpunode::job {

void StepPlan::begin(const view::View& view) {
  slices_ = first_plan(tree_, view);
  const auto count = static_cast<std::uint16_t>(view.members.size());
  if (broken("paces_not_in_view"))
    paces_.members.resize(count);
  else
    paces_ = collective::Paces::from_words(view.paces, count);
  follow(std::vector<std::uint64_t>(count, 0));
}

void StepPlan::next(const view::View& view, std::uint64_t step,
                    const std::vector<collective::StepTimes>& told) {
  const bool one_sum = routing_.one_sum;
  paces_ = collective::paces_after(paces_, tree_, slices_, told, one_sum);
  const bool first_free = step == view.base_step + 2;
  slices_ = collective::paced_plan(tree_, slices_, paces_, {step, first_free, one_sum});
  std::vector<std::uint64_t> found;
  for (const collective::StepTimes& times : told) found.push_back(times.site);
  follow(std::move(found));
  if (routing_.plan) slices_ = routing_.plan(tree_, slices_, sites_);
}

void StepPlan::follow(std::vector<std::uint64_t> sites) {
  if (!routing_.route || sites == sites_) return;
  sites_ = std::move(sites);
  route_ = routing_.route(sites_);
}

Digest StepPlan::digest() const {
  if (!route_) return slices_.digest();
  const Digest both[] = {slices_.digest(), route_->digest()};
  return digest_of(std::as_bytes(std::span(both)));
}

std::vector<NodeId> StepPlan::computing(const view::View& view) const {
  std::vector<NodeId> nodes;
  for (const std::uint16_t rank : slices_.owner)
    if (rank < view.members.size()) nodes.push_back(view.members[rank].node);
  return nodes;
}

}  // namespace gpunode::job
