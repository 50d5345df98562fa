// Forks: a voter that signs two votes can have two views decided after the same one, each by a quorum,
// while the network is in parts. When the parts meet they show each other their views, and both see the
// same: who has voted twice (view/double_vote.hpp), and which of the two views goes on. The next view
// puts the double voter out for good; who is on the other side yields.
//
//   this node's view | does, when it is shown the other
//   goes on          | shows its own
//   yields           | has its disk set aside what was saved since, and then goes over
#include <algorithm>

#include "runtime/base/broken_rule.hpp"
#include "runtime/job/detail/job_state.hpp"

namespace gpunode::job {

namespace {

// Both sides have the same state up to the lower of the two bases, and no further.
std::uint64_t shared_step(const view::Fork& fork) {
  return std::min(fork.ours.view.base_step, fork.theirs.view.base_step);
}

// The same number twice, of which the signatures tell more.
bool may_part(const view::ViewChain& own, const view::ViewChain& told) {
  return std::ranges::any_of(told, [&](const view::DecidedView& theirs) {
    return std::ranges::any_of(own, [&](const view::DecidedView& ours) {
      return ours.view.view_id == theirs.view.view_id && ours.view != theirs.view;
    });
  });
}

// Empty: it is not for this node to go over.
view::ViewChain way_over(const view::Trust& trust, const view::ViewChain& own,
                         const view::ViewChain& told, const view::Fork& fork) {
  if (!view::theirs_goes_on(fork)) return {};
  return view::over_to_theirs(trust, own, told, fork);
}

}  // namespace

// Whether the asker's newest view has another one of this node's beside it.
bool JobCore::State::parts_from(const ViewAsk& ask) const {
  if (ask.digest == Digest{} || broken("forks_unseen")) return false;
  const view::ViewChain& chain = job.agreement.votes().chain;
  return std::any_of(chain.begin(), chain.end(), [&](const view::DecidedView& one) {
    return one.view.name() == ask.proven && one.view.digest() != ask.digest;
  });
}

// True: what was told is of the other side of a fork, and is dealt with.
bool JobCore::State::on_fork(const NodeId& from, const view::ViewChain& told, Actions& out) {
  const view::ViewChain& own = job.agreement.votes().chain;
  if (!may_part(own, told) || broken("forks_unseen")) return false;
  if (!forks.looks_at(from, job.now)) return true;  // it is told again
  const view::Trust& trust = job.agreement.trust();
  const std::optional<view::Fork> fork = view::fork_of(trust, own, told);
  if (!fork) return false;
  const std::string number = std::to_string(fork->theirs.view.view_id);
  const Digest theirs = fork->theirs.view.digest();
  if (forks.is_open(theirs)) {
    const std::vector<NodeId> found = view::exposed_by(*trust.signer, *fork);
    const bool is_news = forks.note(theirs, found, {fork->ours, fork->theirs});
    for (const NodeId& node : found) {
      out.push_back(Incident{"voted_twice", node,
                             "node " + node.short_text() + " has signed two votes for view " +
                                 number + ", which parted the job in two: it is put out of it"});
    }
    show_evidence(out);
    if (found.empty() && is_news)
      job.report("two views " + number + " were decided, and it is not known who voted for both",
                 out);
  }
  const view::ViewChain chain = way_over(trust, own, told, *fork);
  if (chain.empty() || !fits_job(chain.back().view))
    news.tell_newest(from, out);
  else
    give_way(*fork, told, out);
  return true;
}

// Who votes for putting somebody out has to have seen why.
void JobCore::State::show_evidence(Actions& out) const {
  const view::View& view = job.view();
  if (std::ranges::none_of(forks.double_voters(),
                           [&](const NodeId& node) { return view.has_part(node); }))
    return;
  std::set<NodeId> nodes;
  for (const view::DecidedView& one : forks.evidence())
    for (const NodeId& node : everybody_in(one.view)) nodes.insert(node);
  for (const NodeId& node : job.everybody()) nodes.insert(node);
  const ViewNotice evidence = notice_of(forks.evidence());
  for (const NodeId& node : nodes) job.send(node, evidence, out);
}

// A checkpoint bears a name that the other part gives, too, to a state that may be another: none that
// this part has made may be found by a later life. So the disk comes first; a crash between the two
// leaves this node where it was, with an older checkpoint.
void JobCore::State::give_way(const view::Fork& fork, const view::ViewChain& told, Actions& out) {
  if (forks.gives_way()) return;
  forks.give_way(told);
  // They may have been shown this side without what tells who has voted twice, as this node was.
  for (const NodeId& node : everybody_in(told.back().view)) news.tell_newest(node, out);
  out.push_back(GiveUpCheckpoints{fork.ours.view.history(), shared_step(fork)});
}

void JobCore::State::on_given_up(const Checkpoint& newest_intact, Actions& out) {
  const view::ViewChain told = forks.end_giving_way();
  job.checkpoint = newest_intact;  // whatever became of the fork
  const view::Trust& trust = job.agreement.trust();
  const std::optional<view::Fork> fork = view::fork_of(trust, job.agreement.votes().chain, told);
  if (!fork) return;
  view::ViewChain chain = way_over(trust, job.agreement.votes().chain, told, *fork);
  if (chain.empty() || !fits_job(chain.back().view)) return;
  const std::uint64_t shared = shared_step(*fork);
  const NodeId& by = fork->theirs.ballot.proposer;
  out.push_back(
      Incident{"part_yielded", by,
               "this part of the job yields to the one that node " + by.short_text() +
                   " formed with another view " + std::to_string(fork->theirs.view.view_id) +
                   ": what was done here after step " + std::to_string(shared) + " is given up"});
  // The state since is of a history of its own, which no view has come from.
  if (job.progress.committed() > shared)
    job.progress.follow({static_cast<std::uint32_t>(chain.back().view.turns.size() + 1),
                         fork->ours.view.digest().low | 1});
  job.later_checkpoint.reset();
  install(std::move(chain), out, true);
}

// By name, as all nodes are to come to the same.
std::vector<NodeId> JobCore::State::put_out() const {
  std::set<NodeId> nodes(job.view().put_out.begin(), job.view().put_out.end());
  nodes.insert(forks.double_voters().begin(), forks.double_voters().end());
  return {nodes.begin(), nodes.end()};
}

// Nobody is put out whose two votes this node has not seen, and nobody is left in who is known here.
bool JobCore::State::may_put_out(const std::vector<NodeId>& nodes, bool fresh) const {
  const std::vector<NodeId>&before = job.view().put_out, known = put_out();
  if (fresh && nodes == known) return true;
  return !fresh && std::is_sorted(nodes.begin(), nodes.end()) &&
         std::includes(nodes.begin(), nodes.end(), before.begin(), before.end()) &&
         std::includes(known.begin(), known.end(), nodes.begin(), nodes.end());
}

}  // namespace gpunode::job
