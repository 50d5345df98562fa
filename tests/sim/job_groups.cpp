// The devices' groups of the simulated nodes: who is in one, which steps they carry, and how that
// breaks. A member that is gone is not noticed by the others' groups: their moves wait, until
// somebody closes them or their time is over.
#include <algorithm>
#include <utility>

#include "tests/sim/job_world.hpp"

namespace gpunode::sim {

using namespace std::chrono_literals;

namespace {
constexpr Duration kJoinTimeout = 5s;
}  // namespace

// Rank 0 makes the invite, which is a word: the view names the group.
void JobWorld::open_group(std::size_t node, const job::OpenGroup& wish) {
  if (wish.rank == 0)
    on_node(node, between(1ms, 200ms), [this, node, view = wish.view] {
      feed(node, input_of(Answer::group), [&](job::Actions& out) {
        nodes_[node].core->on_invite(clock(node), view, Bytes(5), out);
      });
    });
  on_node(node, between(1ms, 300ms), [this, node, wish] {
    Group& group = groups_[wish.view];
    group.size = wish.size;
    group.members[wish.rank] = {node, nodes_[node].life};
    if (group.members.size() == group.size)
      for (const auto& [rank, member] : group.members)
        on_node(member.node, between(1ms, 500ms), [this, node = member.node, view = wish.view] {
          groups_[view].told.insert(node);
          tell_group(node, view, "");
        });
  });
  on_node(node, kJoinTimeout, [this, node, view = wish.view] {
    Group& group = groups_[view];
    if (group.members.size() < group.size) tell_group(node, view, "not everybody came");
  });
}

void JobWorld::tell_group(std::size_t node, const view::ViewName& view,
                          const std::string& trouble) {
  feed(node, input_of(Answer::group),
       [&](job::Actions& out) { nodes_[node].core->on_group(clock(node), view, trouble, out); });
}

void JobWorld::close_group(std::size_t node, const job::CloseGroup& order) {
  Node& one = nodes_[node];
  note(node, "closes its group: " + order.reason);
  if (!one.carrying) return;
  // What it carries is over whether it is told now or not; its sums are wanted for that step only.
  if (order.step == one.carrying->step) tell_sums(node);
  if (order.step == 0) one.carrying.reset();
}

// This member's sums of a carried step are whole.
void JobWorld::carry(std::size_t node) {
  Node& one = nodes_[node];
  Carrying& carrying = *one.carrying;
  if (carrying.whole || !one.computing.empty()) return;
  carrying.whole = true;
  feed(node, input_of(Answer::sums_whole), [&](job::Actions& out) {
    one.core->on_sums_whole(clock(node), carrying.compute_id, one.times, out);
  });
  if (!one.carrying) return;
  const std::uint64_t id = carrying.compute_id;
  on_node(node, carrying.wish.timeout, [this, node, id] { fail_carrying(node, id, "too slow"); });
  if (rng_.chance(options_.group_break))
    return on_node(node, between(1ms, 50ms),
                   [this, node, id] { fail_carrying(node, id, "a broken device"); });
  Group& group = groups_[one.carrying->view];
  std::map<std::uint16_t, std::uint64_t>& posted = group.posted[carrying.step];
  posted[carrying.wish.rank] = id;
  if (posted.size() < carrying.wish.member_count) return;
  for (const auto& [rank, posted_id] : posted) {
    const GroupMember& member = group.members[rank];
    if (nodes_[member.node].life != member.life) continue;
    const bool breaks = rng_.chance(options_.group_break);
    on_node(member.node, between(1ms, 30ms), [this, node = member.node, posted_id, breaks] {
      if (breaks) return fail_carrying(node, posted_id, "broken while the results came");
      finish_carrying(node, posted_id);
    });
  }
}

void JobWorld::finish_carrying(std::size_t node, std::uint64_t id) {
  Node& one = nodes_[node];
  if (!one.carrying || one.carrying->compute_id != id || one.carrying->over) return;
  one.carrying->over = true;
  const std::uint64_t step = one.carrying->step;
  if (one.state_step + 1 != step || one.computing_step != step) return;
  ++result_.carried;
  const collective::TreeNode root = options_.model.tree.root();
  const job::Carried carried{id, step,
                             options_.model.node_sum(one.state_digest, step, root, one.salt),
                             options_.model.node_fed(step, root)};
  feed(node, input_of(Answer::carried),
       [&](job::Actions& out) { one.core->on_carried(clock(node), carried, out); });
}

void JobWorld::fail_carrying(std::size_t node, std::uint64_t id, const std::string& why) {
  Node& one = nodes_[node];
  if (!one.carrying || one.carrying->compute_id != id || one.carrying->over) return;
  one.carrying->over = true;
  ++result_.broken_groups;
  tell_group(node, one.carrying->view, why);
  tell_sums(node);
}

// As by messages: whole, in any order.
void JobWorld::tell_sums(std::size_t node) {
  Node& one = nodes_[node];
  if (!one.carrying || one.carrying->told) return;
  Carrying& carrying = *one.carrying;
  carrying.over = true;
  if (!carrying.whole) {  // those that are still computed are told as they come
    carrying.goes_on_by_messages = true;
    for (const collective::TreeNode& done : carrying.done) tell_sum(node, done);
    return;
  }
  carrying.told = true;
  for (const collective::TreeNode& done : std::vector(carrying.done)) tell_sum(node, done);
}

void JobWorld::tell_sum(std::size_t node, collective::TreeNode tree_node) {
  on_node(node, between(1ms, 10ms), [this, node, tree_node, step = nodes_[node].computing_step] {
    Node& one = nodes_[node];
    if (one.state_step + 1 != step || one.computing_step != step) return;
    const auto sum = options_.model.node_sum(one.state_digest, step, tree_node, one.salt);
    const auto data_fingerprint = options_.model.node_fed(step, tree_node);
    feed(node, input_of(Answer::partial), [&](job::Actions& out) {
      one.core->on_partial(
          clock(node),
          {one.compute_id, step, tree_node, sum, data_fingerprint, 0, sum.size(), one.times}, out);
    });
  });
}

}  // namespace gpunode::sim
