// What the next view is, given what the promisers said: a pure function. Survivors are those that
// still hold the state; the job resumes from the newest step that all of them hold; learners fill
// up the wanted number. Interrupted attempts never get here: Paxos adopts their value as it is.
#pragma once

#include <optional>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/collective/tree.hpp"
#include "runtime/job/rollback.hpp"
#include "runtime/view/view_agreement.hpp"

namespace gpunode::job {

struct ProposalRules {
  collective::Tree tree = collective::Tree::of_slices(1);
  std::uint32_t wanted_nodes = 1;
  std::uint32_t min_nodes = 1;
  std::uint64_t total_steps = ~std::uint64_t{0};  // once through them, no number of nodes is needed
  // Not 0: whoever promised goes on without a quorum, as a history of its own that this number
  // tells apart from others.
  std::uint64_t split_mark = 0;
  view::Turn::Kind split_kind = view::Turn::Kind::split;
  std::optional<view::SignedOrder> order = {};  // of a split that is ordered
  std::vector<NodeId> witnesses;                // who could be one, in order of preference
  std::vector<NodeId> put_out = {};  // see View; whoever calls has left out their promises
};

// `learners`: nodes that asked to come in, in order of preference. Who is not ready would make all
// wait while it fetches the state, so it is named only where the job cannot go on without it; who
// is ready must be reached by every survivor, both ways. An order that a promise carries counts as it
// stands: whoever calls this has left out what nobody may order. Fails with unavailable, and a reason for
// people: not enough nodes, or nobody holds the state.
Result<view::View> propose_view(const ProposalRules& rules, const view::View& current,
                                const std::vector<view::ViewAgreement::Promiser>& promisers,
                                const std::vector<Joining>& learners);

}  // namespace gpunode::job
