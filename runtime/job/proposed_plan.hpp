// Who computes which slices in the next view's first step, so that as little as possible moves: a
// pure function of the plan that the survivors go on from.
#pragma once

#include <vector>

#include "runtime/collective/slice_plan.hpp"
#include "runtime/collective/tree.hpp"
#include "runtime/view/view_agreement.hpp"

namespace gpunode::job {

// The plan of a view's first step.
collective::SlicePlan first_plan(const collective::Tree& tree, const view::View& view);

// Fills in plan and paces of `next`, whose members are chosen.
void choose_plan(const collective::Tree& tree, const view::View& current,
                 const std::vector<view::ViewAgreement::Promiser>& survivors, view::View& next);

}  // namespace gpunode::job
