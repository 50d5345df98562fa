// How a life of a simulated node begins: what its core is made of, whom it knows, and its ticks.
#include <memory>

#include "runtime/base/block_digest.hpp"
#include "tests/sim/job_world.hpp"
#include "tests/support/twin_orders.hpp"

namespace gpunode::sim {

using namespace std::chrono_literals;

namespace {
constexpr Duration kTick = 25ms;
}  // namespace

job::JobCore::Options JobWorld::options_of(std::size_t node) const {
  const Node& one = nodes_[node];
  job::JobCore::Options chosen;
  chosen.self = one.member;
  chosen.signer = std::make_shared<view::TwinSigner>(one.member.node);
  chosen.may_order = view::orders_of([](const NodeId& by) { return by == kOwner; });
  chosen.job = Digest{7, options_.model.seed};
  chosen.candidates = candidates_;
  chosen.wanted_nodes = options_.wanted_nodes;
  chosen.min_nodes = options_.min_nodes;
  chosen.goes_on_alone = options_.goes_on_alone;
  chosen.witness_only = node + options_.witness_count >= options_.node_count;
  chosen.total_steps = options_.model.total_steps;
  chosen.tree = options_.model.tree;
  chosen.element_count = options_.model.element_count;
  chosen.add = &JobModel::add;
  chosen.forms = options_.forms;
  chosen.routing = options_.routing;
  chosen.site = 1 + node % 2;
  chosen.device_link = options_.device_link;
  chosen.link_between_machines = true;
  if (!chosen.witness_only) chosen.fingerprint = Digest{5, 5};
  chosen.initial_state_digest = one.state_digest;
  chosen.state_bytes = options_.model.bytes_of_state(options_.model.initial_state()).size();
  chosen.state_part_bytes = 64;
  if (options_.model.element_count > 100) chosen.state_part_bytes = 65536;
  if (options_.model.ballast_bytes > 0) chosen.state_part_bytes = 65536;
  chosen.votes = one.votes;
  const auto votes = view::decode_votes(one.votes);
  chosen.checkpoint = votes ? one.newest_of(votes->view) : one.checkpoint();
  const Node::Saved* last = one.outcome ? one.saved_at(one.outcome->step) : nullptr;
  chosen.has_result = last && !last->bad && last->checkpoint.name() == one.outcome->name();
  if (chosen.has_result) chosen.checkpoint = *one.outcome;
  chosen.seed = mix(options_.seed, node * 1000 + one.member.boot);
  return chosen;
}

void JobWorld::start(std::size_t node) {
  Node& one = nodes_[node];
  ++one.life;
  one.while_paused.clear();
  one.paused_until = Time{};
  one.state = options_.model.initial_state();
  one.state_step = 0;
  one.state_digest = block_digest_of(options_.model.bytes_of_state(one.state).view);
  one.state_free = one.disk_free = now_;
  one.computing.clear();
  one.carrying.reset();
  one.unsynced.clear();
  one.state_acts.clear();
  one.seen.clear();
  one.finished = one.gone = one.coming = one.leaves = one.job_dead = false;
  one.compute_hangs = one.apply_hangs = Time{};
  one.stuck = false;

  job::JobCore::Options chosen = options_of(node);
  const bool takes_part = !chosen.witness_only && !chosen.has_result;
  if (chosen.has_result) {
    one.finished = true;
    one.state = one.saved_at(chosen.total_steps)->state;
    one.state_step = chosen.total_steps;
    one.state_digest = chosen.checkpoint.state_digest;
  }
  auto core = job::JobCore::create(std::move(chosen));
  GPUNODE_CHECK(core.has_value(), core.has_value() ? "" : core.error().message());
  one.core.emplace(std::move(*core));
  note(node, "starts, boot " + std::to_string(one.member.boot));
  if (options_.swim_detects) start_swim(node);
  const bool stale = strikes(Grey::stale_hints);
  if (stale) struck(node, Grey::stale_hints);
  feed(node, input_of(Answer::started), [&](job::Actions& out) {
    std::vector<NodeId> hints;
    if (stale) hints = candidates_;
    if (one.hints)
      for (const std::size_t other : *one.hints) hints.push_back(id(other));
    if (!stale && !one.hints)
      for (const Node& other : nodes_) hints.push_back(other.member.node);
    one.core->set_hints(hints);
    one.core->on_start(clock(node), out);
    if (one.core && takes_part) one.core->request_join(clock(node), out);
  });
  start_ticks(node);
}

void JobWorld::start_ticks(std::size_t node) {
  const std::uint64_t life = nodes_[node].life;
  auto tick = std::make_shared<std::function<void()>>();
  *tick = [this, node, life, weak = std::weak_ptr(tick)] {
    if (nodes_[node].life != life || !nodes_[node].core) return;
    feed(node, input_of(Answer::tick),
         [&](job::Actions& out) { nodes_[node].core->on_tick(clock(node), out); });
    if (nodes_[node].core) look(node);
    if (const auto self = weak.lock()) on_node(node, kTick, [self] { (*self)(); });
  };
  on_node(node, between(0ms, kTick), [tick] { (*tick)(); });
}

}  // namespace gpunode::sim
