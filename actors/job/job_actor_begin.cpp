// How a job begins on a node: once its trainer is ready, with the core that fits both.
#include <chrono>
#include <utility>

#include "actors/job/detail/job_actor_state.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/job/exchange_mode.hpp"

namespace gpunode::jobs::actor {

namespace {

constexpr auto kHeldFor = std::chrono::seconds(5);  // for BeginJob

}  // namespace

std::vector<NodeId> other_nodes(const ClusterSnapshot& cluster) {
  std::vector<NodeId> others;
  for (const NodeInfo& node : cluster.nodes)
    if (!node.self) others.push_back(node.id);
  return others;
}

void release(Self* self) {
  self->state.options.held = false;
  if (auto held = std::exchange(self->state.held, std::nullopt)) begin(self, held->first);
}

void begin(Self* self, const TrainerReady& ready) {
  State& state = self->state;
  if (state.options.held) {
    state.held = {ready, now(self) + kHeldFor};
    return;
  }
  if (state.options.finds_checkpoint) {
    state.awaits_search = ready;
    return;
  }
  JobActorOptions& options = state.options;
  state.ledger.know_tokens(options.spec.train.batch * ready.tokens_per_sample *
                           options.spec.inner_steps());
  state.ledger.know_compute(
      {.self = options.core.self.node,
       .slice_flops = ready.slice_flops * static_cast<double>(options.spec.inner_steps()),
       .peak_flops = ready.peak_flops});
  if (!options.core.witness_only && !options.core.has_result && !options.spec.fingerprint.empty() &&
      options.spec.fingerprint != ready.fingerprint.text())
    return fail(self, {ErrorCode::unsupported,
                       "this node computes other bits (" + ready.fingerprint_text +
                           ") than the job's (" + options.spec.fingerprint_text +
                           "): give the job nodes with the same instruction set and oneDNN"});
  job::JobCore::Options core = options.core;
  core.job = options.id;
  core.candidates = options.spec.candidates;
  core.wanted_nodes = options.spec.nodes;
  core.min_nodes = options.spec.min_nodes;
  core.goes_on_alone = options.spec.on_lost_quorum == "continue";
  core.total_steps = options.spec.train.steps;
  core.tree = job::tree_of(options.spec.train);
  core.element_count = state.element_count = ready.element_count;
  state.speculates = ready.speculates;
  core.device_link = ready.forms_groups && options.spec.exchange.device_link == "auto" &&
                     options.spec.exchange.mode == job::ExchangeMode::exact;
  core.link_between_machines = core.link_between_machines && options.spec.bulk == "plain";
  core.routing = job::facts_of(options.spec.exchange.mode).routing;
  core.fingerprint = ready.fingerprint;
  core.initial_state_digest = ready.initial_state;
  core.state_bytes = state.state_bytes();
  core.seed = mix(core.self.boot, options.id.low);
  auto made = job::JobCore::create(std::move(core));
  if (!made) return fail(self, made.error());
  state.core.emplace(std::move(*made));
  if (auto text = job::inexact_note(options.spec.exchange.mode); !text.empty()) note(self, text);
  if (options.spec.on_lost_quorum == "continue")
    note(self,
         "on_lost_quorum is \"continue\": parts that cannot reach each other may go on apart, "
         "and the work of one is given up when they meet");
  if (!options.remark.empty()) note(self, options.remark);
  options.core.has_result ? end(self) : set_phase(self, JobPhase::forming);
  tell_what_was_found(self);
  feed(self, [&](job::JobCore& c, Time t, job::Actions& out) {
    c.set_hints(other_nodes(*options.cluster->read()));
    c.on_start(t, out);
    for (const CoreInput& input : std::exchange(state.early_peers, {})) input(c, t, out);
    if (options.join) c.request_join(t, out);
  });
}

}  // namespace gpunode::jobs::actor
