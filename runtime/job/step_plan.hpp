// Which member computes which slices of the next step, and by which way its sums go: derived by
// every member alike, from the view and from what all members tell in their DONEs. Pure; owned by
// a StepRunner.
#pragma once

#include <memory>
#include <vector>

#include "runtime/collective/paced_plan.hpp"
#include "runtime/collective/step_times.hpp"
#include "runtime/collective/sum_route.hpp"
#include "runtime/view/view.hpp"

namespace gpunode::job {

class StepPlan {
 public:
  StepPlan(const collective::Tree& tree, const collective::Routing& routing)
      : tree_(tree), routing_(routing) {}

  // A view begins without knowing where its members are.
  void begin(const view::View& view);
  // `step` is to be made; `told`: by rank, of the one before it.
  void next(const view::View& view, std::uint64_t step,
            const std::vector<collective::StepTimes>& told);

  const collective::SlicePlan& slices() const { return slices_; }
  const collective::Paces& paces() const { return paces_; }
  const std::shared_ptr<const collective::SumRoute>& route() const { return route_; }
  Digest digest() const;                                        // of slices and route
  std::vector<NodeId> computing(const view::View& view) const;  // by slice

 private:
  void follow(std::vector<std::uint64_t> sites);

  const collective::Tree& tree_;
  const collective::Routing& routing_;
  collective::SlicePlan slices_;
  collective::Paces paces_;
  std::vector<std::uint64_t> sites_;  // of the members, as they told; 0 until then
  std::shared_ptr<const collective::SumRoute> route_;
};

}  // namespace gpunode::job
