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
#include "actors/job/job_report.hpp"
#include "actors/mailbox.hpp"
#include "runtime/base/log.hpp"
#include "runtime/probe/host_probe.hpp"

namespace gpunode::jobs {
namespace board {
namespace {

struct FitForJoin {  // the answer of a slow check on its own thread
  JobId id;
  Bytes manifest;
  Result<void> fit;
  bool votes = false;  // and if it is not fit, it votes at least
};
struct ManifestFetched {
  JobId id;
  Result<SharedBytes> manifest{SharedBytes{}};
};

}  // namespace

std::string hint_key(const JobId& id) {
  return "job/" + id.text();
}

storage::DurableRecord record(Self* self, const JobId& id, const char* file,
                              storage::RecordFormat format) {
  const JobEnvironment& environment = *self->state.options.environment;
  return {*environment.options().files, environment.job_folder(id) / file, format};
}

namespace {

constexpr auto kScanEvery = std::chrono::milliseconds(300);
// Witnesses of a job of so many nodes hold copies of its checkpoints and can take it up.
constexpr std::uint32_t kSmallJob = 2;

std::function<caf::actor(caf::actor)> checkpoint_writer(Self* self, const JobId& id,
                                                        const job::JobSpec& spec,
                                                        std::shared_ptr<const model::Model> model) {
  const JobEnvironment& environment = *self->state.options.environment;
  checkpoint::CheckpointOptions options{id,
                                        spec,
                                        std::move(model),
                                        environment.options().files,
                                        environment.checkpoint_root(),
                                        environment.options().clock};
  return [system = &self->system(), options](caf::actor job) {
    return checkpoint::spawn_checkpoints(*system, std::move(job), options);
  };
}

// The trainer and the checkpoint writer of a job; at a witness nobody stands in their place.
Result<void> choose_workers(Self* self, const JobId& id, const job::JobSpec& spec,
                            std::shared_ptr<telemetry::SpanRing> spans, JobActorOptions& options) {
  caf::actor_system* system = &self->system();
  if (options.witness) {
    options.spawn_trainer = [system](caf::actor job) {
      return spawn_idle(*system, std::move(job));
    };
    options.spawn_checkpoints = [system](caf::actor) { return spawn_idle(*system, {}); };
    return {};
  }
  const JobEnvironment* environment = self->state.options.environment;
  if (options.has_result) {
    auto model = environment->make_model(spec);
    if (!model) return model.error();
    options.spawn_checkpoints = checkpoint_writer(self, id, spec, *model);
    options.spawn_trainer = [system, count = (*model)->parameter_count()](caf::actor job) {
      return spawn_idle(*system, std::move(job), count + 1);
    };
    return {};
  }
  auto trainer = environment->trainer_options(spec);
  if (!trainer) return trainer.error();
  options.spawn_checkpoints = checkpoint_writer(self, id, spec, trainer->model);
  options.finds_checkpoint = true;
  trainer->spans = std::move(spans);
  options.spawn_trainer = [system, parts = std::move(*trainer)](caf::actor job) {
    return compute::spawn_trainer(*system, std::move(job), parts);
  };
  return {};
}

}  // namespace

Result<void> start_job(Self* self, const JobId& id, job::JobSpec spec, Part part,
                       const job::Checkpoint& result) {
  State& state = self->state;
  const JobEnvironment* environment = state.options.environment;
  auto votes = record(self, id, "votes", kVotes).load();
  if (!votes) return votes.error().within("the job's votes");
  JobActorOptions options;
  options.id = id;
  options.spec = spec;
  // A job's actor that is started again has lost its memory as a restarted process has.
  options.self = {state.options.self, state.options.boot << 20 | ++state.lives};
  options.join = part == Part::joiner;
  options.witness = part == Part::witness;
  if (const std::string& own = environment->options().version; own != spec.version)
    options.remark = "this node runs gpunode " + own + ", the job began with " + spec.version +
                     ": its bits are compared, its plans are not";
  options.held = part == Part::candidate;
  options.has_result = part == Part::holder;
  options.checkpoint = result;
  auto spans = std::make_shared<telemetry::SpanRing>();
  if (auto chosen = choose_workers(self, id, spec, spans, options); !chosen) return chosen;
  if (*votes) options.votes = std::move(**votes);
  options.store_votes =
      [record = std::make_shared<storage::DurableRecord>(record(self, id, "votes", kVotes))](
          ByteView bytes) { return record->store(bytes); };
  options.send = [link = state.options.link](const NodeId& to, transport::Lane lane,
                                             transport::Message message) {
    return link->send(to, lane, std::move(message));
  };
  options.add = state.options.add;
  options.spans = spans;
  auto forms = compute::wire_forms_of(*environment->options().backend, spec.exchange);
  if (!forms) return forms.error();
  options.forms = std::move(*forms);
  options.site = site_of(spec.exchange.group_by, state.options.labels, probe::machine_text());
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
  auto places = std::make_shared<job::StepPlaces>();
  options.places = places;
  job.actor = spawn_job(self->system(), std::move(options));
  self->monitor(job.actor);
  state.options.route_bulk(id.low, job.actor, std::move(places));
  return {};
}

namespace {

// Whether a job that was here before stands in the way of starting it; one that failed here is
// cleared away, to be taken up again from its votes and checkpoints.
Result<bool> is_under_way(Self* self, const JobId& id) {
  auto it = self->state.jobs.find(id);
  if (it == self->state.jobs.end()) return false;
  Job& job = it->second;
  bool ended = job.progress.ended || !job.actor;
  if (!ended) return true;
  if (job.progress.phase == JobPhase::finished)
    return Error{ErrorCode::already_exists,
                 "this very job has finished already (`gpunode job show " + id.text().substr(0, 8) +
                     "`): to train anew change its name, seed or data"};
  if (job.actor) {
    self->demonitor(job.actor);
    self->state.options.route_bulk(id.low, nullptr, nullptr);
    self->send(job.actor, Shutdown{});
  }
  self->state.jobs.erase(it);
  storage::DurableRecord outcome = record(self, id, "outcome", kOutcome);
  storage::FileSystem& files = *self->state.options.environment->options().files;
  if (auto removed = files.remove(outcome.path());
      !removed && removed.error().code != ErrorCode::not_found)
    return removed.error();
  return false;
}

}  // namespace

Result<void> create_job(Self* self, ByteView manifest, Part part) {
  if (self->state.leaving) return Error{ErrorCode::wrong_state, "this node is leaving the cluster"};
  JobId id = job::job_id(manifest);
  auto under_way = is_under_way(self, id);
  if (!under_way) return under_way.error();
  if (*under_way) return {};
  auto spec = job::decode(manifest);
  if (!spec) return spec.error();
  const JobEnvironment& environment = *self->state.options.environment;
  if (auto made = environment.options().files->create_folder(environment.job_folder(id)); !made)
    return made.error();
  if (auto stored = record(self, id, "manifest", kManifest).store(manifest); !stored)
    return stored.error();
  if (part == Part::witness)
    if (auto stored = record(self, id, "witness", kWitness).store({}); !stored)
      return stored.error();
  return start_job(self, id, std::move(*spec), part);
}

void publish_hint(Self* self, const Job& job) {
  const JobProgress& progress = job.progress;
  const JobHint hint{job.spec.name,
                     progress.reason,
                     progress.phase,
                     progress.step,
                     progress.total_steps,
                     progress.view_id,
                     static_cast<std::uint32_t>(progress.members.size()),
                     job.spec.nodes,
                     progress.ended,
                     job.spec.labels,
                     progress.loss.value_or(0)};
  self->send(self->state.options.directory_writer, SetEntry{hint_key(progress.id), encode(hint)});
}

namespace {

void on_progress(Self* self, const JobProgress& progress) {
  State& state = self->state;
  auto it = state.jobs.find(progress.id);
  if (it == state.jobs.end() || !it->second.outcome.empty()) return;
  bool ended_now = progress.ended && !it->second.progress.ended;
  const std::uint64_t damaged_before = it->second.progress.damaged_checkpoints;
  it->second.progress = progress;
  publish_hint(self, it->second);
  const std::string& name = it->second.spec.name;
  record_metrics(*self->state.options.metrics, name, progress);
  count_damaged(*self->state.options.metrics, name, damaged_before, progress.damaged_checkpoints);
  if (!ended_now || !it->second.actor) return;
  // What failed before it began is shown, not remembered: the next start of the node tries again.
  if (progress.phase == JobPhase::failed && progress.view_id == 0)
    return tell_refused(self, progress.id, progress.reason);
  // Remember the report, so that `job show` still knows after a restart. Without it the job is
  // taken up again then: where its result is not on this disk, others give it.
  auto keep =
      std::make_shared<storage::DurableRecord>(record(self, progress.id, "outcome", kOutcome));
  self->send(it->second.actor, Command{"job.show", "{}", [keep](std::string text) {
                                         if (!lacks_its_result(text))
                                           (void)keep->store(as_bytes(text));
                                       }});
}

}  // namespace

// It can only take the job up from its members if it could compute it as they do.
Result<void> stand_by(Self* self, ByteView manifest) {
  auto spec = job::decode(manifest);
  if (!spec) return spec.error();
  State& state = self->state;
  const JobId id = job::job_id(manifest);
  if (spec->nodes > kSmallJob || state.jobs.contains(id) ||
      !labels_fit(spec->labels, state.options.labels))
    return create_job(self, manifest, Part::witness);
  if (state.attempts.unfit(id, now(self))) return create_job(self, manifest, Part::witness);
  if (!state.attempts.begin(id, now(self))) return {};  // it is being looked at
  caf::actor me = self;
  const JobEnvironment* environment = state.options.environment;
  on_own_thread(self, [me, environment, id, spec = std::move(*spec), bytes = to_bytes(manifest)] {
    caf::anon_send(me, FitForJoin{id, bytes, environment->matches(spec), true});
  });
  return {};
}

namespace {

// Looks for jobs of others that want more members.
void scan(Self* self) {
  State& state = self->state;
  self->delayed_send(self, kScanEvery, Tick{});
  auto cluster = state.options.cluster->read();
  for (const auto& [id_text, from, hint] : hints_of_others(*cluster)) {
    auto parsed = parse_job_id(id_text);
    if (!parsed || !cluster->alive(from)) continue;
    JobId id = *parsed;
    state.last_hints.on_hint(now(self), id, from, hint);
    if (hint.ended || hint.phase != JobPhase::running || hint.members >= hint.wanted) continue;
    auto known = state.jobs.find(id);
    bool only_votes = known != state.jobs.end() && known->second.witness && known->second.actor;
    if (known != state.jobs.end() && !only_votes) continue;
    if (!labels_fit(hint.labels, state.options.labels)) continue;
    if (!state.attempts.begin(id, now(self))) continue;
    caf::actor me = self;
    self->send(state.options.calls,
               CallRequest{from, "job.manifest", SharedBytes::from(to_bytes(as_bytes(id_text))),
                           std::chrono::seconds(5), [me, id](Result<SharedBytes> manifest) {
                             caf::anon_send(me, ManifestFetched{id, std::move(manifest)});
                           }});
  }
}

void on_manifest(Self* self, const ManifestFetched& fetched) {
  const bool asked_for = fetched.manifest && job::job_id(fetched.manifest->view) == fetched.id;
  auto spec = asked_for ? job::decode(fetched.manifest->view)
                        : Result<job::JobSpec>(Error{ErrorCode::not_found, "no manifest"});
  if (!spec) return self->state.attempts.missed(fetched.id, now(self));
  caf::actor me = self;
  const JobEnvironment* environment = self->state.options.environment;
  on_own_thread(self, [me, environment, spec = std::move(*spec), id = fetched.id,
                       manifest = to_bytes(fetched.manifest->view)] {
    caf::anon_send(me, FitForJoin{id, manifest, environment->matches(spec)});
  });
}

void on_fit(Self* self, const FitForJoin& check) {
  JoinAttempts& attempts = self->state.attempts;
  auto known = self->state.jobs.find(check.id);
  if (known != self->state.jobs.end()) {
    // It votes here already: its actor ends, and starts again as one that computes.
    if (!check.fit) {
      attempts.refused(check.id, now(self));
      return tell_refused(self, check.id, check.fit.error().detail);
    }
    attempts.joined(check.id, now(self));
    if (!known->second.witness || known->second.promoted) return;
    known->second.promoted = true;
    return self->send(known->second.actor, Shutdown{});
  }
  Result<void> started = check.fit ? create_job(self, check.manifest, Part::joiner) : check.fit;
  if (started) return attempts.joined(check.id, now(self));
  attempts.refused(check.id, now(self));
  if (check.votes)
    if (auto votes = create_job(self, check.manifest, Part::witness); !votes)
      log::warning("jobs", "no witness of job " + check.id.text().substr(0, 8) + ": " +
                               votes.error().message());
  log::warning(
      "jobs", "cannot help job " + check.id.text().substr(0, 8) + ": " + started.error().message());
  tell_refused(self, check.id, started.error().detail);
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
  const auto found = self->state.jobs.find(id);
  if (found == self->state.jobs.end() || !found->second.actor) return;
  audit_job(self, id, "job_recovered",
            {{"asked_at", self->state.options.self.text()}, {"why", "on_lost_quorum"}},
            [actor = found->second.actor](Result<void> logged) {
              if (logged) caf::anon_send(actor, GoOnAlone{});  // else it is said again
            });
}

// The actor of a witness has ended, to start again as one that computes.
void promote(Self* self, const JobId& id) {
  storage::DurableRecord witness = record(self, id, "witness", kWitness);
  (void)self->state.options.environment->options().files->remove(witness.path());
  job::JobSpec spec = self->state.jobs.at(id).spec;
  if (auto started = start_job(self, id, std::move(spec), Part::joiner); !started)
    log::warning("jobs",
                 "cannot help job " + id.text().substr(0, 8) + ": " + started.error().message());
}

void on_down(Self* self, const caf::down_msg& down) {
  for (auto& [id, job] : self->state.jobs) {
    if (!job.actor || job.actor.address() != down.source) continue;
    job.actor = nullptr;
    self->state.options.route_bulk(id.low, nullptr, nullptr);
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
  publish_all(self);
  load_jobs(self);
  self->delayed_send(self, kScanEvery, Tick{});
  return {
      [self](const NetMessage& net) { route(self, net); },
      [self](const JobProgress& progress) { on_progress(self, progress); },
      [self](const RecruitWitness& wanted) { recruit(self, wanted); },
      [self](const LostQuorum& lost) { go_on_alone(self, lost.id); },
      [self](const PeerChanged& peer) { tell_all(self, peer); },
      [self](const LinkChanged& link) { tell_all(self, link); },
      [self](const Tick&) { scan(self); },
      [self](const ManifestFetched& fetched) { on_manifest(self, fetched); },
      [self](const FitForJoin& check) { on_fit(self, check); },
      [self](const Command& command) { on_command(self, command); },
      [](const Request& request) { request.answer(); },
      [self](const Leave& leave) {
        self->state.leaving = true;
        self->send(self->state.options.directory_writer,
                   SetEntry{kLeaving, to_bytes(as_bytes("yes"))});
        tell_all(self, leave);
      },
      [self](const Shutdown& shutdown) {
        tell_all(self, shutdown);
        self->quit();
      },
  };
}

}  // namespace
}  // namespace board

caf::actor spawn_job_board(caf::actor_system& system, JobBoardOptions options) {
  return system.spawn(board::behaviour, std::make_shared<JobBoardOptions>(std::move(options)));
}

}  // namespace gpunode::jobs
