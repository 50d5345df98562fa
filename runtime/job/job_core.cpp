// The inputs of a job's core, and which part of it each is for.
#include "runtime/job/job_core.hpp"

#include <algorithm>

#include "runtime/job/detail/job_state.hpp"

namespace gpunode::job {

namespace {

view::View first_view(const JobCore::Options& options) {
  view::View view;
  view.job = options.job;
  view.acceptors = options.candidates;
  view.tie = options.candidates.front();
  return view;
}

view::Votes first_votes(const JobCore::Options& options) {
  if (options.votes.empty()) return {first_view(options), {}, {}, {}, {}};
  auto kept = view::decode_votes(options.votes);
  GPUNODE_CHECK(kept.has_value(), "create() has decoded the same bytes");
  return std::move(*kept);
}

}  // namespace

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::outsider:
      return "outsider";
    case Phase::witness:
      return "witness";
    case Phase::learning:
      return "learning";
    case Phase::syncing:
      return "syncing";
    case Phase::running:
      return "running";
    case Phase::frozen:
      return "frozen";
    case Phase::paused:
      return "paused";
    case Phase::stopped:
      return "stopped";
    case Phase::done:
      return "done";
  }
  return "unknown";
}

view::ViewAgreement::Options JobCore::State::agreement_of(const Options& chosen) {
  view::ViewAgreement::Options agreed;
  agreed.self = chosen.self.node;
  agreed.votes = first_votes(chosen);
  agreed.trust = {first_view(chosen), chosen.signer, chosen.goes_on_alone, chosen.may_order};
  agreed.timings = chosen.timings.votes;
  agreed.seed = chosen.seed;
  agreed.compose = [this](const Promisers& promisers, const view::Hearsay& hearsay, bool forced) {
    return compose(promisers, hearsay, forced);
  };
  agreed.hear = [this](const Promisers& promisers) { return hearsay(promisers); };
  agreed.follows = [this](const Promisers& promisers, const view::Hearsay& hearsay,
                          const view::View& next,
                          bool fresh) { return follows(promisers, hearsay, next, fresh); };
  agreed.freeze = [this] { return standing(); };
  agreed.suspected = [this](const NodeId& node) { return job.suspected(node); };
  return agreed;
}

JobCore::State::State(Options chosen) : job(chosen, agreement_of(chosen)), news(job) {
  const auto& candidates = job.options.candidates;
  const bool candidate =
      std::find(candidates.begin(), candidates.end(), job.self()) != candidates.end();
  if (job.options.has_result) {
    job.progress.load(job.checkpoint, {});
    job.finished = job.through = true;
  }
  job.wants_in =
      !job.options.witness_only && !job.finished && (candidate || job.view().rank_of(job.self()));
}

Result<JobCore> JobCore::create(Options options) {
  const auto bad = [](const char* what) { return Error{ErrorCode::invalid_argument, what}; };
  if (options.candidates.empty()) return bad("a job needs at least one candidate node");
  if (options.wanted_nodes == 0) return bad("a job needs at least one node: raise `nodes`");
  if (options.min_nodes > options.wanted_nodes) return bad("min_nodes is larger than nodes");
  if (options.has_result && options.checkpoint.step < options.total_steps)
    return bad("the checkpoint of the job's last step is its result");
  if (!options.add) return bad("no function that adds");
  if (!options.signer) return bad("nobody to sign this node's votes");
  if (options.state_part_bytes == 0) return bad("state_part_bytes is zero");
  if (!options.votes.empty()) {
    auto votes = view::decode_votes(options.votes);
    if (!votes) return votes.error().within("job " + options.job.text());
    if (votes->view.job != options.job)
      return Error{ErrorCode::corrupted, "the vote file belongs to another job"};
  }
  JobCore core{std::make_unique<State>(std::move(options))};
  return core;
}

JobCore::JobCore(std::unique_ptr<State> state) : state_(std::move(state)) {}
JobCore::JobCore(JobCore&&) noexcept = default;
JobCore& JobCore::operator=(JobCore&&) noexcept = default;
JobCore::~JobCore() = default;

void JobCore::on_start(Time now, Actions& out) {
  State& state = *state_;
  JobContext& job = state.job;
  job.now = state.phase_since = job.installed_at = now;
  state.steps.begin_waiting();
  // Forming; or a restart, after which this node's place in the view is void.
  // A stopped job stands still, unless somebody had begun to change that.
  const view::View& view = job.view();
  const bool stands = (view.stopped || view.is_witness(job.self())) && !job.agreement.frozen();
  if (view.is_acceptor(job.self()) && !stands && !job.finished) job.agreement.want_change(now);
  if (!job.options.votes.empty()) state.lease.on_restart();
  state.tick(out);
}

void JobCore::on_tick(Time now, Actions& out) {
  state_->job.now = now;
  state_->tick(out);
}

void JobCore::on_message(Time now, const NodeId& from, const JobMessage& message, Actions& out) {
  JobContext& job = state_->job;
  if (message.job != job.options.job || from == job.self()) return;
  job.now = now;
  state_->route(from, message, out);
  state_->serve_learners(out);
  state_->set_phase();
}

void JobCore::on_peer(Time now, const NodeId& peer, PeerHealth health, Actions& out) {
  if (peer == state_->job.self()) return;
  state_->job.now = now;
  state_->on_peer(peer, health, out);
}

void JobCore::on_link(Time now, const NodeId& peer, LinkState state, Actions& out) {
  if (peer == state_->job.self()) return;
  state_->job.now = now;
  state_->on_link(peer, state, out);
}

void JobCore::on_bulk_reset(Time now, const NodeId& peer, Actions& out) {
  if (peer == state_->job.self()) return;
  state_->job.now = now;
  state_->on_bulk_reset(peer, out);
  state_->set_phase();
}

void JobCore::on_persisted(Time now, std::uint64_t token, Actions& out) {
  state_->job.now = now;
  view::ViewAgreement::Effects effects;
  state_->job.agreement.on_persisted(now, token, effects);
  state_->carry_out(effects, out);
  state_->lease_tick(out);  // a view was installed a moment ago
  state_->set_phase();
}

void JobCore::on_partial(Time now, const PartialRange& range, Actions& out) {
  state_->job.now = now;
  state_->on_partial(range, out);
  state_->set_phase();
}

void JobCore::on_applied(Time now, std::uint64_t step, const Digest& digest, Actions& out) {
  state_->job.now = now;
  state_->on_applied(step, digest, out);
  state_->serve_learners(out);
  state_->set_phase();
}

void JobCore::on_state_read(Time now, std::uint64_t token, SharedBytes bytes, Actions& out) {
  state_->job.now = now;
  state_->donor.on_state_read(token, std::move(bytes), out);
  state_->serve_learners(out);
}

void JobCore::on_state_installed(Time now, std::uint64_t step, Actions& out) {
  state_->job.now = now;
  state_->on_installed(step, out);
  state_->set_phase();
}

void JobCore::on_saved_read(Time now, std::uint64_t token, SharedBytes bytes, Actions& out) {
  state_->job.now = now;
  std::vector<StateSource::Reply> replies;
  state_->copies.on_saved_read(token, std::move(bytes), replies);
  state_->donor.reply(replies, out);
  state_->serve_learners(out);
}

void JobCore::set_checkpoint(const Checkpoint& checkpoint) {
  state_->on_checkpoint(checkpoint);
}

void JobCore::on_invite(Time now, const view::ViewName& view, Bytes invite, Actions& out) {
  state_->job.now = now;
  state_->steps.link().on_invite(view, std::move(invite), out);
}

void JobCore::on_group(Time now, const view::ViewName& view, const std::string& trouble,
                       Actions& out) {
  state_->job.now = now;
  state_->steps.link().on_group(view, trouble, out);
  if (!state_->steps.link().stands()) state_->steps.on_group_broken();
}

void JobCore::on_sums_whole(Time now, std::uint64_t compute_id,
                            const collective::ComputeTimes& times, Actions& out) {
  state_->job.now = now;
  state_->watchdog.progressed(Watchdog::Work::compute);
  state_->work_came_back(out);
  state_->steps.on_sums_whole(compute_id, times);
}

void JobCore::on_carried(Time now, const Carried& carried, Actions& out) {
  state_->job.now = now;
  JobContext& job = state_->job;
  // As messages are: one that holds has it when it stays after all.
  if (!job.member || job.agreement.frozen() || !state_->steps.on_carried(carried, out)) return;
  for (const NodeId& one : job.other_members()) job.peers.on_bytes(one);  // theirs are in it
  state_->advance(out);
}

std::vector<view::CheckpointName> JobCore::kept() const {
  const JobContext& job = state_->job;
  std::vector<view::CheckpointName> names{state_->durability.floor().name,
                                          job.agreement.floor().name};
  if (job.agreement.frozen()) names.push_back(job.checkpoint.name());
  std::erase_if(names, [](const view::CheckpointName& name) { return name.step == 0; });
  return names;
}

void JobCore::on_checkpoint_lost(Time now, const view::CheckpointName& lost,
                                 const Checkpoint& newest_intact, Actions& out) {
  State& state = *state_;
  state.job.now = now;
  const bool stands = state.job.agreement.frozen() && lost != state.job.checkpoint.name();
  state.job.later_checkpoint.reset();
  if (stands)
    state.job.later_checkpoint = newest_intact;
  else
    state.job.checkpoint = newest_intact;
  state.copies.on_lost(lost);
  if (!state.loader.on_lost(lost)) return;
  state.work_came_back(out);
  state.change_view(
      "the checkpoint of step " + std::to_string(lost.step) + " on this node is damaged", out);
}

void JobCore::on_given_up(Time now, const Checkpoint& newest_intact, Actions& out) {
  state_->job.now = now;
  state_->on_given_up(newest_intact, out);
  state_->set_phase();
}

void JobCore::set_hints(std::vector<NodeId> nodes) {
  state_->job.hints = std::move(nodes);
}

void JobCore::set_spares(std::vector<NodeId> nodes) {
  state_->witnesses.set_spares(std::move(nodes));
}

void JobCore::request_join(Time now, Actions& out) {
  state_->job.now = now;
  state_->job.wants_in = true;
  state_->leaver.take_back();
  state_->witnesses.on_back(state_->job.self());
  state_->learner.on_join_wanted();
  state_->tick(out);
}

void JobCore::request_leave(Time now, Duration timeout, Actions& out) {
  JobContext& job = state_->job;
  job.now = now;
  if (!state_->leaver.begin(timeout)) return;
  job.wants_in = false;
  state_->witnesses.on_left(job.self());
  if (!job.member) job.send_all(WitnessOffer{true}, out);  // a member says so in its vote
  state_->leave_tick(out);
}

void JobCore::give_up(Time, const std::string& reason, Actions& out) {
  state_->job.send_all(FreezeHint{reason, {state_->job.self()}}, out);
}

Result<void> JobCore::take_order(Time now, const view::SignedOrder& order, Actions& out) {
  state_->job.now = now;
  return state_->take_order(order, out);
}

void JobCore::go_on_alone(Time now, Actions& out) {
  state_->job.now = now;
  if (state_->orders.has_part()) state_->split({}, out);
}

const view::View& JobCore::view() const {
  return state_->job.view();
}
JobStatus JobCore::status(Time now) const {
  state_->job.now = now;
  return state_->status();
}
std::uint64_t JobCore::committed() const {
  return state_->job.progress.committed();
}
collective::DataFingerprint JobCore::running_data_fingerprint() const {
  return state_->job.progress.running();
}
Digest JobCore::state_digest() const {
  return state_->job.progress.state_digest();
}
bool JobCore::gives_way() const {
  return state_->forks.gives_way();
}

const Checkpoint& JobCore::checkpoint() const {
  return state_->job.checkpoint;
}
std::optional<HistoryId> JobCore::state_history() const {
  if (!state_->job.is_of_history()) return std::nullopt;
  return state_->job.progress.history();
}

}  // namespace gpunode::job
