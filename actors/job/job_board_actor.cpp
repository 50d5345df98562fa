#include "actors/job/job_board_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/checkpoint/checkpoint_actor.hpp"
#include "actors/compute/trainer_actor.hpp"
#include "actors/compute/wire_forms.hpp"
#include "actors/job/detail/job_board_state.hpp"
#include "actors/job/job_actor.hpp"
#include "actors/job/job_line.hpp"
#include "actors/mailbox.hpp"
#include "runtime/base/log.hpp"
#include "runtime/probe/host_probe.hpp"

namespace gpunode::jobs {
namespace board {
std::string hint_key(const JobId& id) {
  return "job/" + id.text();
}

storage::DurableRecord record(Self* self, const JobId& id, const JobRecord& which) {
  const JobEnvironment& environment = *self->state.options.environment;
  return {*environment.options().files, environment.job_folder(id) / which.file, which.format};
}

namespace {

constexpr auto kScanEvery = std::chrono::milliseconds(300);
// Witnesses of a job of so many nodes hold copies of its checkpoints and can take it up.
constexpr std::uint32_t kSmallJob = 2;

std::function<caf::actor(caf::actor)> checkpoint_writer(Self* self, const JobId& id,
                                                        const job::JobSpec& spec,
                                                        std::shared_ptr<const model::Model> model) {
  const JobEnvironment& environment = *self->state.options.environment;
  const JobEnvironment::Options& machine = environment.options();
  checkpoint::CheckpointOptions options{
      id, spec, std::move(model), machine.files, environment.checkpoint_root(), machine.clock};
  return [system = &self->system(), options](caf::actor job) {
    return checkpoint::spawn_checkpoints(*system, std::move(job), options);
  };
}

// Writes on a thread of its own, one at a time.
std::function<void(caf::actor, Bytes)> history_writer(Self* self, const JobId& id) {
  const JobEnvironment* environment = self->state.options.environment;
  return [system = &self->system(), history = record(self, id, kHistory), environment, id,
          turn = self->state.history_turn](caf::actor job, Bytes bytes) {
    system->spawn<caf::detached>([=, bytes = std::move(bytes)]() mutable {
      const std::lock_guard<std::mutex> mine(*turn);
      if (environment->options().files->exists(environment->job_folder(id) / kRemoved.file)) return;
      caf::anon_send(job, HistoryWritten{history.store(bytes)});
    });
  };
}

void ask_history(Self* self, const AskHistory& wanted) {
  const caf::actor actor = actor_at(self, wanted.id);
  if (!actor) return;
  self->send(
      self->state.options.calls,
      CallRequest{wanted.of, "job.history", SharedBytes::from(to_bytes(as_bytes(wanted.id.text()))),
                  std::chrono::seconds(5), [actor](Result<SharedBytes> history) {
                    caf::anon_send(actor, HistoryTold{std::move(history)});
                  }});
}

// The trainer and the checkpoint writer of a job; at a witness nobody stands in their place.
Result<void> choose_workers(Self* self, const JobId& id, const job::JobSpec& spec,
                            std::shared_ptr<telemetry::SpanRing> spans, JobActorOptions& options) {
  caf::actor_system* system = &self->system();
  if (options.core.witness_only) {
    options.spawn_trainer = [system](caf::actor job) {
      return spawn_idle(*system, std::move(job));
    };
    options.spawn_checkpoints = [system](caf::actor) { return spawn_idle(*system, {}); };
    return {};
  }
  const JobEnvironment* environment = self->state.options.environment;
  if (options.core.has_result) {
    auto model = environment->make_model(spec);
    if (!model) return model.error();
    options.spawn_checkpoints = checkpoint_writer(self, id, spec, *model);
    options.spawn_trainer = [system, count = (*model)->parameter_count()](caf::actor job) {
      return spawn_idle(*system, std::move(job), count + model::kTailElements);
    };
    return {};
  }
  auto trainer = environment->trainer_options(spec);
  if (!trainer) return trainer.error();
  options.spawn_checkpoints = checkpoint_writer(self, id, spec, trainer->model);
  options.finds_checkpoint = true;
  auto forms = compute::wire_forms_of(environment->options().devices->host(), spec.exchange,
                                      compute::exact_end_of(*trainer->model));
  if (!forms) return forms.error();
  options.core.forms = std::move(*forms);
  trainer->spans = std::move(spans);
  trainer->user = id.text();
  options.spawn_trainer = [system, parts = std::move(*trainer)](caf::actor job) {
    return compute::spawn_trainer(*system, std::move(job), parts);
  };
  return {};
}

// Whether a job that was here before stands in the way of starting it; one that failed here is
// cleared away, to be taken up again from its votes and checkpoints.
Result<bool> runs_already(Self* self, const JobId& id) {
  if (self->state.removed.contains(id) || self->state.ending.contains(id))
    return Error{ErrorCode::wrong_state, "this job was removed from this node, by order"};
  const Job* job = job_at(self, id);
  if (!job) return false;
  if (job->actor && !job->progress.ended) return true;
  if (job->progress.phase == JobPhase::finished)
    return Error{ErrorCode::already_exists, "this very job has finished here already"};
  if (job->actor) {
    self->demonitor(job->actor);
    self->state.options.route_bulk(id.low, nullptr, nullptr);
    self->send(job->actor, Shutdown{});
  }
  self->state.jobs.erase(id);
  storage::DurableRecord outcome = record(self, id, kOutcome);
  storage::FileSystem& files = *self->state.options.environment->options().files;
  if (auto removed = files.remove(outcome.path());
      !removed && removed.error().code != ErrorCode::not_found)
    return removed.error();
  return false;
}

void on_progress(Self* self, const JobProgress& progress) {
  Job* job = job_at(self, progress.id);
  if (!job || !job->outcome.empty()) return;
  bool ended_now = progress.ended && !job->progress.ended;
  const std::uint64_t damaged_before = job->progress.damaged_checkpoints;
  job->progress = progress;
  publish_hint(self, *job);
  telemetry::Registry& metrics = *self->state.options.metrics;
  record_metrics(metrics, job->spec.name, progress);
  count_damaged(metrics, job->spec.name, progress, damaged_before);
  if (!ended_now || !job->actor) return;
  // What failed before it began is shown, not remembered: the next start of the node tries again.
  if (progress.phase == JobPhase::failed && progress.view_id == 0)
    return tell_refused(self, progress.id, progress.reason);
  // Remember the report, so that `job show` still knows after a restart. Without it the job is
  // taken up again then: where its result is not on this disk, others give it; and a device that
  // was lost is there again.
  if (progress.lacks_result || progress.device_lost) return;
  auto keep = std::make_shared<storage::DurableRecord>(record(self, progress.id, kOutcome));
  self->send(job->actor, Command{"job.show", "{}",
                                 [keep](std::string text) { (void)keep->store(as_bytes(text)); }});
}

// What a slow check of this node has found. `votes`: where it is not fit, it votes at least.
void on_fit(Self* self, const JobId& id, ByteView manifest, const Result<void>& fit, bool votes) {
  JoinAttempts& attempts = self->state.attempts;
  if (Job* known = job_at(self, id)) {
    // It votes here already: its actor ends, and starts again as one that computes.
    if (!fit) {
      attempts.refused(id, now(self));
      return tell_refused(self, id, fit.error().detail);
    }
    attempts.joined(id, now(self));
    if (!known->witness || known->promoted) return;
    known->promoted = true;
    return self->send(known->actor, Shutdown{});
  }
  Result<void> started = fit ? create_job(self, manifest, Part::joiner) : fit;
  if (started) return attempts.joined(id, now(self));
  attempts.refused(id, now(self));
  if (votes)
    if (auto witness = create_job(self, manifest, Part::witness); !witness)
      log::warning("jobs",
                   "no witness of job " + short_text(id) + ": " + witness.error().message());
  log::warning("jobs", "cannot help job " + short_text(id) + ": " + started.error().message());
  tell_refused(self, id, started.error().detail);
}

void look_whether_fit(Self* self, const JobId& id, job::JobSpec spec, Bytes manifest, bool votes) {
  const JobEnvironment* environment = self->state.options.environment;
  auto begun = on_own_thread(
      self, [=, spec = std::move(spec), bytes = std::move(manifest)](const auto& board) {
        caf::anon_send(board, Request{[=, fit = environment->matches(spec)] {
                         on_fit(self, id, bytes, fit, votes);
                       }});
      });
  if (!begun) self->state.attempts.missed(id, now(self));
}

void on_manifest(Self* self, const JobId& id, const Result<SharedBytes>& manifest) {
  const bool asked_for = manifest && job::job_id(manifest->view) == id;
  auto spec = asked_for ? job::decode(manifest->view)
                        : Result<job::JobSpec>(Error{ErrorCode::not_found, "no manifest"});
  if (!spec || !may_begin(self, *spec)) return self->state.attempts.missed(id, now(self));
  look_whether_fit(self, id, std::move(*spec), to_bytes(manifest->view), false);
}

// A device that hangs does not say so.
void watch_devices(Self* self) {
  const JobBoardOptions& options = self->state.options;
  for (const auto& device : options.environment->options().devices->devices())
    device->look_for_hangs(now(self), options.device_timeout);
}

void on_device_lost(Self* self, const DeviceLost& lost) {
  for (auto& [id, job] : self->state.jobs)
    if (job.actor && lost.jobs.contains(id.text()))
      self->send(job.actor, TrainerFailed{lost.error});
}

// Looks for jobs of others that want more members.
void scan(Self* self) {
  State& state = self->state;
  self->delayed_send(self, kScanEvery, Tick{});
  watch_devices(self);
  auto cluster = state.options.cluster->read();
  const std::vector<HeardHint> hints = hints_of_others(*cluster);
  look_after_queue(self, *cluster, hints);
  look_after_removed(self, *cluster, hints);
  const std::set<JobId> made = made_elsewhere(self, *cluster, hints);
  for (const auto& [id_text, from, hint] : hints) {
    auto parsed = parse_job_id(id_text);
    if (!parsed || !cluster->alive(from)) continue;
    JobId id = *parsed;
    if (hint.phase == JobPhase::removed) {
      on_removed_elsewhere(self, id, {id_text, from, hint}, made);
      continue;
    }
    state.last_hints.on_hint(now(self), id, from, hint);
    if (hint.ended || hint.phase != JobPhase::running || hint.members >= hint.wanted) continue;
    const Job* known = job_at(self, id);
    if (known && !(known->witness && known->actor)) continue;  // only who votes may do more
    if (!labels_fit(hint.labels, state.options.labels)) continue;
    if (!state.attempts.begin(id, now(self))) continue;
    self->send(state.options.calls,
               CallRequest{from, "job.manifest", SharedBytes::from(to_bytes(as_bytes(id_text))),
                           std::chrono::seconds(5),
                           [self, me = caf::actor(self), id](Result<SharedBytes> manifest) {
                             caf::anon_send(me, Request{[=] { on_manifest(self, id, manifest); }});
                           }});
  }
}

void route(Self* self, const NetMessage& net) {
  for (auto& [id, job] : self->state.jobs)
    if (id.low == net.message->stream && job.actor) self->send(job.actor, net);
}

template <class Message>
void tell_all(Self* self, const Message& message) {
  for (auto& [id, job] : self->state.jobs)
    if (job.actor) self->send(job.actor, message);
}

// The job's own setting orders what else a person would: audited likewise.
void go_on_alone(Self* self, const JobId& id) {
  const caf::actor actor = actor_at(self, id);
  if (!actor) return;
  audit_job(self, id, "job_recovered",
            {{"asked_at", self->state.options.self.text()}, {"why", "on_lost_quorum"}},
            [actor](Result<void> logged) {
              if (logged) caf::anon_send(actor, GoOnAlone{});  // else it is said again
            });
}

// The actor of a witness has ended, to start again as one that computes.
void promote(Self* self, const JobId& id) {
  const storage::DurableRecord witness = record(self, id, kWitness);
  (void)self->state.options.environment->options().files->remove(witness.path());
  job::JobSpec spec = self->state.jobs.at(id).spec;
  if (auto started = start_job(self, id, std::move(spec), Part::joiner); !started)
    log::warning("jobs", "cannot help job " + short_text(id) + ": " + started.error().message());
}

void on_down(Self* self, const caf::down_msg& down) {
  for (auto& [id, job] : self->state.jobs) {
    if (!job.actor || job.actor.address() != down.source) continue;
    job.actor = nullptr;
    self->state.options.route_bulk(id.low, nullptr, nullptr);
    if (const auto then = self->state.ending.extract(id)) return then.mapped()();
    if (job.promoted) return promote(self, JobId(id));
    if (job.progress.ended) continue;
    JobProgress progress = job.progress;
    progress.phase = JobPhase::failed;
    progress.reason = "the job's actor ended: " + to_string(down.reason);
    progress.ended = true;
    log::error("jobs", job.spec.name + ": " + progress.reason);
    on_progress(self, progress);
  }
}

caf::behavior behaviour(Self* self, std::shared_ptr<JobBoardOptions> options) {
  self->state.options = std::move(*options);
  expect_known_messages(self);
  self->set_down_handler([self](const caf::down_msg& down) { on_down(self, down); });
  self->state.slow_work = std::make_shared<SlowWork>(self->state.options.self, SlowWork::Limits{});
  publish_all(self);
  load_jobs(self);
  self->delayed_send(self, kScanEvery, Tick{});
  return {
      [self](const NetMessage& net) { route(self, net); },
      [self](const JobProgress& progress) { on_progress(self, progress); },
      [self](const RecruitWitness& wanted) { recruit(self, wanted); },
      [self](const AskHistory& wanted) { ask_history(self, wanted); },
      [self](const LostQuorum& lost) { go_on_alone(self, lost.id); },
      [self](const JobIncident& found) {
        if (self->state.jobs.contains(found.id))
          audit_job(self, found.id, found.event, {{"node", found.node.text()}},
                    [](const Result<void>&) {});
      },
      [self](const DeviceLost& lost) { on_device_lost(self, lost); },
      [self](const PeerChanged& peer) { tell_all(self, peer); },
      [self](const LinkChanged& link) { tell_all(self, link); },
      [self](const Tick&) { scan(self); },
      [self](const Command& command) { on_command(self, command); },
      [](const Request& request) { request.work(); },
      [self](const Leave& leave) {
        self->state.leaving = true;
        self->send(self->state.options.directory_writer,
                   SetEntry{kLeaving, to_bytes(as_bytes("yes"))});
        tell_all(self, leave);
      },
      [self](const Shutdown& shutdown) {
        tell_all(self, shutdown);
        self->state.slow_work->close();
        self->quit();
      },
  };
}

}  // namespace

Result<void> start_job(Self* self, const JobId& id, job::JobSpec spec, Part part,
                       const job::Checkpoint& result) {
  State& state = self->state;
  const JobEnvironment* environment = state.options.environment;
  auto votes = record(self, id, kVotes).load();
  if (!votes) return votes.error().within("the job's votes");
  JobActorOptions options;
  options.id = id;
  options.spec = spec;
  // A job's actor that is started again has lost its memory as a restarted process has.
  options.core.self = {state.options.self, state.options.boot << 20 | ++state.lives};
  options.join = part == Part::joiner;
  options.core.witness_only = part == Part::witness;
  options.core.signer = state.options.signer;
  options.core.may_order = [authority = state.options.authority, cluster = state.options.cluster,
                            clock = environment->options().clock, spec,
                            id](const view::SignedOrder& order, view::OrderUse use) {
    const bool first = use == view::OrderUse::first;
    return check_order(*authority, *cluster->read(), spec, id, order,
                       first ? std::optional(clock->wall()) : std::nullopt);
  };
  if (const std::string& own = environment->options().version; own != spec.version)
    options.remark = "this node runs gpunode " + own + ", the job began with " + spec.version +
                     ": its bits are compared, its plans are not";
  options.held = part == Part::candidate;
  options.core.has_result = part == Part::holder;
  options.core.checkpoint = result;
  auto spans = std::make_shared<telemetry::SpanRing>();
  if (auto chosen = choose_workers(self, id, spec, spans, options); !chosen) return chosen;
  if (*votes) options.core.votes = std::move(**votes);
  options.store_votes = [record = std::make_shared<storage::DurableRecord>(record(
                             self, id, kVotes))](ByteView bytes) { return record->store(bytes); };
  // Nothing of it is needed to go on: what cannot be read is said as it is decoded.
  if (auto history = record(self, id, kHistory).load(); !history)
    log::warning("jobs", spec.name + ": " + history.error().message());
  else if (*history)
    options.history = std::move(**history);
  options.store_history = history_writer(self, id);
  options.send = [link = state.options.link](const NodeId& to, transport::Lane lane,
                                             transport::Message message) {
    return link->send(to, lane, std::move(message));
  };
  options.core.add = state.options.add;
  options.spans = spans;
  options.core.site = site_of(spec.exchange.group_by, state.options.labels, probe::machine_text());
  options.core.link_between_machines = environment->options().bulk_plain;
  options.cluster = state.options.cluster;
  options.clock = environment->options().clock;
  options.supervisor = self;
  Job& job = state.jobs[id];
  job.spans = spans;
  job.spec = std::move(spec);
  job.witness = part == Part::witness;
  job.promoted = false;
  job.progress.id = id;
  job.progress.total_steps = job.spec.train.steps;
  auto places = options.core.places = std::make_shared<job::StepPlaces>();
  job.actor = spawn_job(self->system(), std::move(options));
  self->monitor(job.actor);
  state.options.route_bulk(id.low, job.actor, std::move(places));
  return {};
}

Result<void> create_job(Self* self, ByteView manifest, Part part) {
  if (self->state.leaving) return Error{ErrorCode::wrong_state, "this node is leaving the cluster"};
  JobId id = job::job_id(manifest);
  auto under_way = runs_already(self, id);
  if (!under_way) return under_way.error();
  if (*under_way) return {};
  auto spec = job::decode(manifest);
  if (!spec) return spec.error();
  if (!spec->waited_as.empty()) {
    const auto waited_as = parse_job_id(spec->waited_as);
    const auto gone = self->state.removed.find(waited_as.value_or(JobId{}));
    if (!waited_as || (gone != self->state.removed.end() && !gone->second.started))
      return Error{ErrorCode::wrong_state, "it was removed while it waited"};
  }
  if (auto owned = may_begin(self, *spec); !owned) return owned;
  if (auto takes = takes_part(self); !takes) return takes;
  if (auto room = has_room_for(self, spec->submitter); !room) return room;
  const JobEnvironment& environment = *self->state.options.environment;
  if (spec->candidates.empty() || spec->candidates.size() > spec->nodes)
    return Error{ErrorCode::invalid_argument, "a job has one to as many candidates as nodes"};
  if (auto made = environment.options().files->create_folder(environment.job_folder(id)); !made)
    return made.error();
  if (auto stored = record(self, id, kManifest).store(manifest); !stored) return stored.error();
  if (part == Part::witness)
    if (auto stored = record(self, id, kWitness).store({}); !stored) return stored.error();
  return start_job(self, id, std::move(*spec), part);
}

// It can only take the job up from its members if it could compute it as they do.
Result<void> stand_by(Self* self, ByteView manifest) {
  auto spec = job::decode(manifest);
  if (!spec) return spec.error();
  if (auto owned = may_begin(self, *spec); !owned) return owned;
  State& state = self->state;
  const JobId id = job::job_id(manifest);
  if (spec->nodes > kSmallJob || state.jobs.contains(id) ||
      !labels_fit(spec->labels, state.options.labels))
    return create_job(self, manifest, Part::witness);
  if (state.attempts.unfit(id, now(self))) return create_job(self, manifest, Part::witness);
  if (state.attempts.begin(id, now(self)))  // else it is being looked at
    look_whether_fit(self, id, std::move(*spec), to_bytes(manifest), true);
  return {};
}

}  // namespace board

caf::actor spawn_job_board(caf::actor_system& system, JobBoardOptions options) {
  return system.spawn(board::behaviour, std::make_shared<JobBoardOptions>(std::move(options)));
}

}  // namespace gpunode::jobs
