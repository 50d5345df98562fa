#include "actors/job/job_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <optional>
#include <utility>

#include "actors/job/detail/job_actor_state.hpp"
#include "actors/job/job_line.hpp"
#include "actors/job/send_order.hpp"
#include "actors/mailbox.hpp"
#include "runtime/base/log.hpp"
#include "runtime/job/job_codec.hpp"
#include "runtime/job/job_core.hpp"

namespace gpunode::jobs {
namespace actor {
namespace {

constexpr auto kTick = std::chrono::milliseconds(20);
constexpr auto kSlowTick = std::chrono::seconds(1);  // of a job that is over
constexpr auto kQuiet = std::chrono::seconds(3);     // and of which nobody has asked anything since
constexpr auto kStandstill = std::chrono::seconds(3);  // of this process, which is worth a word
constexpr auto kSparesEvery = std::chrono::milliseconds(500);

// Notes for `job trace` what took from `begin` until now.
void record(Self* self, telemetry::SpanKind kind, std::uint64_t step, Time begin,
            std::uint64_t amount = 0, const NodeId* peer = nullptr) {
  const JobActorOptions& options = self->state.options;
  if (!options.spans || !self->state.core) return;
  std::uint16_t rank = telemetry::kNobody;
  if (peer) rank = self->state.core->view().rank_of(*peer).value_or(rank);
  options.spans->add({kind, rank, 1, step, amount, begin, now(self)});
}

void send_out(Self* self, const job::Send& send) {
  auto encoded = job::encode_message(send.message);
  transport::Message message{
      transport::Topic::job,         send.message.job.low,
      std::move(encoded.body),       std::move(encoded.payload),
      urgency_of(send.message.body), order_of(send.message.body, self->state.speculates)};
  auto lane = send.bulk ? transport::Lane::bulk : transport::Lane::control;
  const auto* step = std::get_if<job::StepMessage>(&send.message.body);
  const std::size_t bytes = message.payload.size();
  const Time begin = step && bytes > 0 ? now(self) : Time{};
  // A failed send is a lost message, which the core is made for; but one that is too long would be
  // lost again and again.
  const auto sent = self->state.options.send(send.to, lane, std::move(message));
  if (!sent && sent.error().code == ErrorCode::invalid_argument &&
      self->state.warned_of.insert("send").second)
    warn(self, "a message of the job cannot be sent: " + sent.error().message());
  if (step && bytes > 0)
    record(self, telemetry::SpanKind::send, step->step, begin, bytes, &send.to);
}

void persist(Self* self, const job::Persist& order) {
  if (auto stored = self->state.options.store_votes(order.votes); !stored) {
    // Unstored votes must not be answered; the node cannot take part any longer.
    return fail(self, stored.error().within("cannot store the job's votes"));
  }
  feed(self, &job::JobCore::on_persisted, order.token);
}

void on_committed(Self* self, const job::Committed& committed) {
  State& state = self->state;
  const Time at = committed.at;  // now is later, by what this node did with the commit
  state.ledger.on_committed(now(self), committed);
  const auto rank = state.core->view().rank_of(state.options.core.self.node);
  if (!state.options.spans || !rank || *rank >= committed.times.size()) return;
  const Time held = at - std::chrono::microseconds(committed.confirm_us);
  const Time computed = held - std::chrono::microseconds(committed.times[*rank].gather_us);
  using telemetry::SpanKind;
  state.options.spans->add(
      {SpanKind::gather, telemetry::kNobody, 1, committed.step, 0, computed, held});
  state.options.spans->add({SpanKind::confirm, telemetry::kNobody, 1, committed.step, 0, held, at});
}

void on_view(Self* self, const job::ViewInstalled& installed) {
  const view::View& view = installed.view;
  on_base(self, installed);
  self->state.ledger.on_view(view);
  auto cluster = self->state.options.cluster->read();
  std::vector<NodeId> members;
  for (const view::Member& one : view.members) members.push_back(one.node);
  for (const NodeId& member : members) self->state.refused.erase(member);
  note(self, "view " + std::to_string(view.view_id) + " (" + cluster->list_of(members) + "; " +
                 cluster->name_of(view.tie) + " decides a tie) resumes after step " +
                 std::to_string(view.base_step));
  record(self, telemetry::SpanKind::view_change, view.base_step + 1, installed.wanted_since,
         view.view_id);
  note_anew(self, view);
  find_one_that_counts(self);
  // Of a job that is over here a late view is no news.
  if (installed.role == job::Role::outsider && !is_over(self->state.phase))
    self->state.phase = JobPhase::outsider;
  tell_supervisor(self);
}

struct CarryOut {
  Self* self;
  void operator()(const job::Send& send) { send_out(self, send); }
  void operator()(const job::Persist& order) { persist(self, order); }
  void operator()(const job::Compute& compute) { self->send(self->state.trainer, compute); }
  void operator()(const job::SpeculativeUpdate& part) {
    if (self->state.speculates) self->send(self->state.trainer, part);
  }
  void operator()(const job::Apply& order) {
    if (order.learning) self->state.followed_to = order.step;
    self->send(self->state.trainer, ApplyTotal{order.step, order.result});
  }
  void operator()(const job::Committed& committed) { on_committed(self, committed); }
  void operator()(const job::OpenGroup& wish) {
    self->state.group = FormGroup{wish, std::make_shared<compute::GroupSlot>()};
    self->send(self->state.trainer, *self->state.group);
  }
  // At once, as the trainer may be waiting for the group; what it is to do besides follows.
  void operator()(const job::CloseGroup& order) {
    give_up_group(self, order.reason);
    self->send(self->state.trainer, order);
  }
  void operator()(const job::ReadState& order) { read_state(self, order); }
  void operator()(const job::InstallState& order) { self->send(self->state.trainer, order); }
  void operator()(const job::RestoreState& order) {
    if (order.step == 0)
      self->send(self->state.trainer, job::InstallState{});  // the initial one
    else
      read_checkpoint(self, order.step, 0, true);
  }
  void operator()(const job::ViewInstalled& installed) { on_view(self, installed); }
  void operator()(const job::Paused& paused) {
    note(self, "paused: " + paused.reason);
    tell_supervisor(self);
  }
  void operator()(const job::LostQuorum&) {
    self->send(self->state.options.supervisor, LostQuorum{self->state.options.id});
  }
  void operator()(const job::GiveUpCheckpoints& order) { give_up_checkpoints(self, order); }
  void operator()(const job::Incident& incident) {
    warn(self, incident.text);
    self->send(self->state.options.supervisor,
               JobIncident{self->state.options.id, incident.event, incident.node});
  }
  void operator()(const job::Recruit& recruit) {
    self->send(self->state.options.supervisor,
               RecruitWitness{self->state.options.id, recruit.node, self->state.refused});
  }
  void operator()(const job::Stopped& stopped) { on_stopped(self, stopped); }
  void operator()(const job::SaveState& order) { save_state(self, order.step); }
  void operator()(const job::ReadSaved& order) { read_saved(self, order); }
  void operator()(const job::KeepCopy& order) { keep_copy(self, order); }
  void operator()(const job::Left&) { on_left(self); }
  void operator()(const job::Finished&) { on_finished(self); }
  void operator()(const job::Report& report) {
    report.warns ? warn(self, report.text) : note(self, report.text);
    if (report.lasted > Duration{})
      record(self, telemetry::SpanKind::stall, self->state.core->committed(),
             now(self) - report.lasted);
  }
};

// A checkpoint is due after every n-th step and after the last.
bool checkpoint_due(const job::JobSpec& spec, std::uint64_t step) {
  if (step == spec.train.steps) return true;
  return spec.checkpoint.every > 0 && step % spec.checkpoint.every == 0;
}

void on_applied(Self* self, const Applied& applied) {
  State& state = self->state;
  if (!state.core) return;
  note_figures(self, applied);
  // Asked before the core may apply the next step: the trainer answers in order. Who only follows
  // the members writes no checkpoints.
  if (applied.step > state.followed_to && checkpoint_due(state.options.spec, applied.step) &&
      state.core->state_history())
    due_checkpoint(self, applied.step, applied.state);
  feed(self, &job::JobCore::on_applied, applied.step, applied.state);
  tell_supervisor(self);
}

void on_state_read(Self* self, const StateRead& read) {
  State& state = self->state;
  if (!state.core) return;
  if (!(read.token & kCheckpointToken))
    return feed(self, &job::JobCore::on_state_read, read.token, read.state);
  auto wanted = state.checkpoints_wanted.extract(read.token & ~kCheckpointToken);
  if (wanted.empty() || wanted.key() != read.step) return;
  wanted.mapped().state = read.state;
  write_checkpoint(self, std::move(wanted.mapped()));
}

void on_net(Self* self, const NetMessage& net) {
  if (self->state.held) release(self);
  self->state.heard = now(self);
  if (!self->state.core) return;
  const JobActorOptions& options = self->state.options;
  auto message = job::decode_message(net.message->body, net.message->payload, options.id,
                                     self->state.element_count);
  if (!message) {
    log::warning("job",
                 "dropped a message of " + net.from.short_text() + ": " + message.error().detail);
    return;
  }
  const Time begin = now(self);
  feed(self, &job::JobCore::on_message, net.from, *message);
  const auto* step = std::get_if<job::StepMessage>(&message->body);
  if (!step || net.message->payload.size() == 0) return;
  const bool partial = std::holds_alternative<collective::PartialChunk>(step->message);
  record(self, partial ? telemetry::SpanKind::sum : telemetry::SpanKind::receive, step->step, begin,
         net.message->payload.size(), &net.from);
}

// News of a peer, kept for the core until there is one.
template <class Event, class... Arguments>
void on_peer(Self* self, Event event, Arguments... arguments) {
  if (self->state.core)
    feed(self, event, arguments...);
  else if (!is_over(self->state.phase))
    self->state.early_peers.push_back([=](job::JobCore& core, Time t, job::Actions& out) {
      std::invoke(event, core, t, arguments..., out);
    });
}

// Who is up, for the choice of witnesses; and who there is, as all peers of a node may be replaced
// while it is cut off.
void tell_spares(Self* self) {
  State& state = self->state;
  if (!state.core || now(self) < state.spares_told + kSparesEvery) return;
  state.spares_told = now(self);
  auto cluster = state.options.cluster->read();
  std::vector<NodeId> up;
  for (const NodeInfo& node : cluster->nodes)
    if (!node.self && cluster->alive(node.id)) up.push_back(node.id);
  state.core->set_spares(std::move(up));
  state.core->set_hints(other_nodes(*cluster));
  state.ledger.on_hints(now(self), hints_of(*cluster, state.options.id), *cluster);
}

// Whether there is nothing to do but to answer, now and then, who was away at the end.
bool is_idle(Self* self) {
  const State& state = self->state;
  return is_over(state.phase) && now(self) >= state.heard + kQuiet;
}

// A process that was stopped, or a machine that slept: what it says of others then is about itself.
void note_standstill(Self* self) {
  const Time before = std::exchange(self->state.ticked, now(self));
  const Duration gap = now(self) - before;
  if (before == Time{} || gap < kStandstill) return;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(gap).count();
  note(self, "this node itself stood still for " + std::to_string(seconds) + " s");
}

void on_tick(Self* self) {
  note_standstill(self);
  if (is_idle(self))
    self->delayed_send(self, kSlowTick, Tick{});
  else
    self->delayed_send(self, kTick, Tick{});
  tell_spares(self);
  if (self->state.held && now(self) >= self->state.held->second) release(self);
  feed(self, &job::JobCore::on_tick);
  watch_disk(self);
  try_result_again(self);
  tell_supervisor(self);
  watch_orders(self);
  keep_history(self);
}

void on_installed(Self* self, const StateInstalled& installed) {
  if (!self->state.core) return;
  const Time began = now(self) - self->state.core->status(now(self)).sync_time;
  record(self, telemetry::SpanKind::sync, installed.step + 1, began);
  feed(self, &job::JobCore::on_state_installed, installed.step);
}

void on_group_formed(Self* self, const GroupFormed& formed) {
  State& state = self->state;
  const bool wanted = state.group && state.group->wish.view == formed.view;
  if (formed.trouble.empty() && wanted)
    self->send(state.trainer, UseGroup{state.group->slot->group()});
  feed(self, &job::JobCore::on_group, formed.view, formed.trouble);
  if (!formed.trouble.empty() && wanted) give_up_group(self, formed.trouble);
}

// A job without its trainer or its checkpoint writer fails, with the reason.
void on_down(Self* self, const caf::down_msg& down) {
  State& state = self->state;
  if (down.source == state.checkpoints.address()) {
    state.result_token.reset();
    state.disk.clear();
  }
  if (is_over(state.phase)) return;
  const char* who = down.source == state.trainer.address() ? "trainer" : "checkpoint writer";
  fail(self,
       {ErrorCode::internal, "the " + std::string(who) + " ended: " + to_string(down.reason)});
}

caf::behavior behaviour(Self* self, std::shared_ptr<JobActorOptions> options) {
  self->state.options = std::move(*options);
  expect_known_messages(self);
  restore_history(self);
  self->state.trainer = self->state.options.spawn_trainer(self);
  self->state.checkpoints = self->state.options.spawn_checkpoints(self);
  self->set_down_handler([self](const caf::down_msg& down) { on_down(self, down); });
  self->monitor(self->state.trainer);
  self->monitor(self->state.checkpoints);
  if (self->state.options.finds_checkpoint) find_checkpoint(self);
  self->delayed_send(self, kTick, Tick{});
  return {
      [self](const NetMessage& net) { on_net(self, net); },
      [self](const job::PartialRange& part) { feed(self, &job::JobCore::on_partial, part); },
      [self](const GroupInvited& invited) {
        feed(self, &job::JobCore::on_invite, invited.view, invited.invite);
      },
      [self](const GroupFormed& formed) { on_group_formed(self, formed); },
      [self](const GroupBroken& broken) {
        if (!self->state.group) return;
        feed(self, &job::JobCore::on_group, self->state.group->wish.view, broken.trouble);
        give_up_group(self, broken.trouble);
      },
      [self](const SumsWhole& sums) {
        feed(self, &job::JobCore::on_sums_whole, sums.compute_id, sums.times);
      },
      [self](const job::Carried& carried) { feed(self, &job::JobCore::on_carried, carried); },
      [self](const Applied& applied) { on_applied(self, applied); },
      [self](const StateRead& read) { on_state_read(self, read); },
      [self](const StateInstalled& installed) { on_installed(self, installed); },
      [self](const Tick&) { on_tick(self); },
      [self](const PeerChanged& peer) {
        on_peer(self, &job::JobCore::on_peer, peer.peer, peer.health);
      },
      [self](const LinkChanged& link) {
        if (link.state != LinkState::reset)
          on_peer(self, &job::JobCore::on_link, link.peer, link.state);
        else if (link.lane == transport::Lane::bulk)
          feed(self, &job::JobCore::on_bulk_reset, link.peer);
      },
      [self](const TrainerReady& ready) { begin(self, ready); },
      [self](const TrainerFailed& failed) { fail(self, failed.error); },
      [self](const CheckpointRead& read) { on_read(self, read); },
      [self](const CheckpointsFound& found) { on_found(self, found); },
      [self](const CheckpointWritten& written) { on_checkpoint(self, written); },
      [self](const Evaluated& evaluated) { on_evaluated(self, evaluated); },
      [self](const Refusal& refused) { on_refused(self, refused); },
      [self](const ProofDiffers& proof) { on_proof_differs(self, proof.steps); },
      [self](const Command& command) {
        is_order(command.name) ? take_order(self, command) : on_command(self, command);
      },
      [self](const HistoryWritten& written) { on_history_written(self, written); },
      [self](const HistoryTold& told) { take_history(self, told); },
      [self](const TellHistory& wanted) { tell_history(self, wanted); },
      [self](const BeginJob&) { release(self); },
      [self](const GoOnAlone&) { go_on_alone(self); },
      [self](const Leave& leave) { on_leave(self, leave); },
      [self](const Shutdown&) { shut_down(self); },
  };
}

}  // namespace

void give_up_group(Self* self, const std::string& reason) {
  auto group = std::exchange(self->state.group, std::nullopt);
  if (!group) return;
  group->slot->give_up(reason);
  self->send(self->state.trainer, DropGroup{std::move(group->slot)});
}

void carry_out(Self* self, job::Actions& actions) {
  for (job::Action& action : actions) {
    if (!self->state.core) return;  // failed on the way
    std::visit(CarryOut{self}, action);
  }
}

}  // namespace actor

caf::actor spawn_job(caf::actor_system& system, JobActorOptions options) {
  return system.spawn(actor::behaviour, std::make_shared<JobActorOptions>(std::move(options)));
}

}  // namespace gpunode::jobs
