// What the parts of a core share: who is in the view, and messages that leave in its name.
#include <algorithm>
#include <set>

#include "runtime/base/broken_rule.hpp"
#include "runtime/job/detail/job_context.hpp"

namespace gpunode::job {

JobContext::JobContext(JobCore::Options chosen, view::ViewAgreement::Options agreed)
    : options(std::move(chosen)),
      agreement(std::move(agreed)),
      progress(options.initial_state_digest),
      checkpoint(options.checkpoint) {
  peers.on_part(options.candidates);
  peers.on_part(everybody());
}

std::vector<NodeId> everybody_in(const view::View& view) {
  std::vector<NodeId> nodes = view.acceptors;
  for (const view::Member& one : view.members)
    if (!view.is_acceptor(one.node)) nodes.push_back(one.node);
  return nodes;
}

Result<void> JobContext::may_order(const view::SignedOrder& order, view::OrderUse use) const {
  if (broken("orders_unsigned")) return {};
  if (order.job != options.job)
    return Error{ErrorCode::permission_denied, "the order is about another job"};
  if (!options.may_order)
    return Error{ErrorCode::permission_denied, "nobody may order anything of this job"};
  return options.may_order(order, use);
}

bool JobContext::gives_base() const {
  const auto& sources = view().sync_sources;
  return !member && view().restores && view().base_step > 0 &&
         std::find(sources.begin(), sources.end(), self()) != sources.end();
}

std::vector<NodeId> JobContext::everybody() const {
  return everybody_in(view());
}

std::vector<NodeId> JobContext::everybody_and_hints() const {
  std::set<NodeId> nodes(hints.begin(), hints.end());
  for (const NodeId& node : everybody()) nodes.insert(node);
  return {nodes.begin(), nodes.end()};
}

std::vector<NodeId> JobContext::other_members() const {
  std::vector<NodeId> nodes;
  for (const view::Member& one : view().members)
    if (one.node != self()) nodes.push_back(one.node);
  return nodes;
}

void JobContext::send(const NodeId& to, JobBody body, Actions& out, bool bulk) const {
  if (to == self()) return;
  out.push_back(Send{to, {options.job, view().name(), options.self.boot, std::move(body)}, bulk});
}

StateFetch::Options JobContext::fetch_of(std::uint64_t step, const Digest& digest,
                                         std::vector<NodeId> sources) const {
  StateFetch::Options chosen;
  chosen.step = step;
  chosen.state_digest = digest;
  chosen.sources = std::move(sources);
  chosen.began = now;
  chosen.size_bytes = options.state_bytes;
  chosen.part_bytes = options.state_part_bytes;
  return chosen;
}

void JobContext::send_all(const JobBody& body, Actions& out) const {
  for (const NodeId& node : everybody()) send(node, body, out);
}

}  // namespace gpunode::job
