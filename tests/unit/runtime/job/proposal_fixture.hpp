// What the tests of proposed views share: the rules, the view that ends, and what its members
// promise.
#pragma once

#include "runtime/collective/paced_plan.hpp"
#include "runtime/job/view_proposal.hpp"
#include "tests/unit/runtime/job/context_fixture.hpp"

namespace gpunode::job {

using Promisers = std::vector<view::ViewAgreement::Promiser>;

inline ProposalRules rules_of(std::uint32_t wanted,
                              std::uint64_t total_steps = ProposalRules{}.total_steps) {
  ProposalRules rules;
  rules.tree = collective::Tree::of_slices(8);
  rules.wanted_nodes = wanted;
  rules.total_steps = total_steps;
  return rules;
}

inline view::View current_of(int members) {
  view::View view;
  view.job = {1, 1};
  view.view_id = 5;
  view.base_step = 10;
  view.fingerprint = digest(77);
  for (int i = 1; i <= members; ++i) {
    view.members.push_back({node(i), 1});
    view.acceptors.push_back(node(i));
  }
  view.tie = node(1);
  view.plan =
      collective::balanced_plan(collective::Tree::of_slices(8), static_cast<std::uint16_t>(members))
          .owner;
  return view;
}

inline view::ViewAgreement::Promiser at(int number, std::uint64_t applied, std::uint64_t held,
                                        std::uint64_t result = 0) {
  view::Standing standing;
  standing.boot = 1;
  standing.has_memory = true;
  standing.applied = applied;
  standing.held = held;
  standing.fingerprint = digest(77);
  standing.applied_result_digest = digest(1000 + applied);
  standing.held_result_digest = digest(result ? result : 1000 + held);
  standing.state_digest = digest(2000 + applied);
  return {node(number), standing};
}

}  // namespace gpunode::job
