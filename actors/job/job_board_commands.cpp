// The job board towards people. What they ask of the jobs of a node: start one, list them, show
// one.
#include <caf/actor_system.hpp>
#include <caf/send.hpp>

#include <algorithm>

#include "actors/job/detail/job_board_state.hpp"
#include "actors/job/job_file.hpp"
#include "actors/job/job_line.hpp"
#include "actors/job/job_note_codec.hpp"
#include "actors/job/job_report.hpp"
#include "actors/job/job_submission.hpp"
#include "actors/job/job_trace.hpp"
#include "actors/job/timeouts.hpp"
#include "actors/job/trace_codec.hpp"
#include "actors/json_answer.hpp"

namespace gpunode::jobs::board {

constexpr std::uint64_t kTracedSteps = 8;
constexpr auto kNewsPause = std::chrono::milliseconds(200);
constexpr int kNewsTries = 5;

namespace {

Duration forward_timeout(const std::string& command) {
  const Duration whole = command == "job.show"    ? Duration(kShowTimeout)
                         : command == "job.trace" ? Duration(kTraceTimeout)
                                                  : Duration(kOrderTimeout);
  return whole - kForwardMargin;
}

// A report of another node names it, as it speaks of "this node".
std::string told_by(const std::string& node, const std::string& answer) {
  nlohmann::json out = arguments_of(answer);
  if (!field<bool>(out, "ok", false) || !out.contains("events")) return answer;
  out["told_by"] = node;
  return ok_json(std::move(out));
}

// To a live node that has a part in the job, else to any that knows it.
void forward_to_owner(Self* self, const Command& command, const JobId& id) {
  auto cluster = self->state.options.cluster->read();
  std::optional<NodeId> best;
  bool takes_part = false;
  for (const auto& [_, from, hint] : hints_of(*cluster, id)) {
    if (!cluster->alive(from)) continue;
    bool part = !hint.ended && hint.phase != JobPhase::outsider;
    if (best && (takes_part || !part)) continue;
    best = from;
    takes_part = part;
  }
  if (!best) {
    const auto last = self->state.last_hints.text_of(id, *cluster, now(self));
    return command.answer(error_json(
        {ErrorCode::unavailable,
         last.value_or("no node that has a part in the job can be reached; `gpunode nodes` shows "
                       "which are away")}));
  }
  forward(self, command, *best, id);
}

void show_job(Self* self, const Command& command, const JobId& id, const NodeId& by) {
  const Job& job = self->state.jobs.at(id);
  const JobEnvironment* environment = self->state.options.environment;
  nlohmann::json elsewhere;
  if (job.progress.phase == JobPhase::failed) {
    const auto cluster = self->state.options.cluster->read();
    elsewhere = elsewhere_json(hints_of(*cluster, id), *cluster);
  }
  auto finish = [slowly = slow_work_of(self, by), environment, elsewhere, spec = job.spec,
                 name = command.name, answer = command.answer,
                 actor = job.actor](std::string report) {
    nlohmann::json told = arguments_of(report);
    tell_of_the_end(told);
    if (!elsewhere.is_null()) told["elsewhere"] = elsewhere;
    if (name != "job.show") return answer(ok_json(std::move(told)));
    report = text_of(told);
    const auto begun = slowly([=] {
      const auto tell_job = [&](std::uint64_t steps) {
        caf::anon_send(actor, ProofDiffers{steps});
      };
      answer(with_proof(*environment, spec, report, tell_job));
    });
    if (!begun) answer(error_json(begun.error()));
  };
  // What it had come to is in the report of its end; the log is kept with its history.
  const bool logs = command.name == "job.log" && job.actor;
  if (!job.outcome.empty() && !logs) {
    nlohmann::json report = arguments_of(job.outcome);
    add_ages(report, environment->options().clock->wall());
    finish(text_of(told_part(command.name, std::move(report))));
  } else if (job.actor) {
    self->send(job.actor, Command{command.name, "{}", finish});
  } else {
    finish(
        ok_json(job_line(id, job.spec.name, job.progress, *self->state.options.cluster->read())));
  }
}

// A job that failed here goes on as it does when its node starts again: from its votes and
// checkpoints, and its members are asked to let this node in.
Result<nlohmann::json> begin_again(Self* self, const JobId& id) {
  Job before = self->state.jobs.at(id);
  const auto manifest = record(self, id, kManifest).load();
  const auto witness = record(self, id, kWitness).load();
  const Part part = witness && *witness ? Part::witness : Part::joiner;
  Result<void> begun;
  if (!manifest)
    begun = manifest.error();
  else if (!*manifest)
    begun = Error{ErrorCode::not_found, "the job has no manifest on this node's disk"};
  else
    begun = create_job(self, **manifest, part);
  if (begun)
    return nlohmann::json{{"job", id.text()},
                          {"name", before.spec.name},
                          {"phase", to_string(JobPhase::preparing)},
                          {"step", before.progress.step}};
  before.actor = nullptr;
  before.progress.reason = begun.error().message();
  self->state.jobs.insert_or_assign(id, std::move(before));
  return begun.error();
}

Error ended_here(const Job& job) {
  const std::string name = "job '" + job.spec.name + "'";
  if (job.progress.phase != JobPhase::failed)
    return {ErrorCode::wrong_state, name + " has ended here: it is finished"};
  return {ErrorCode::wrong_state, name + " has failed here after step " +
                                      std::to_string(job.progress.step) + ": " +
                                      job.progress.reason + "; `gpunode job resume " +
                                      job.spec.name + "` lets this node take part in it again"};
}

// stop, resume, recover: the job's actor carries them out; what may give up states that were
// reported, only once it is audited. One that failed here can only be begun again.
void order_job(Self* self, const Command& command, const JobId& id, const NodeId& by) {
  const Job& job = self->state.jobs.at(id);
  const nlohmann::json arguments = arguments_of(command.arguments);
  const auto from = resumed_from(command.name, arguments);
  const bool part_failed =  // to be taken up again, which is this node's own to decide
      by == self->state.options.self && command.name == "job.resume" && !from &&
      job.progress.phase == JobPhase::failed;
  if (!part_failed)
    if (auto may = may_carry_out(self, command, id); !may)
      return command.answer(error_json(may.error()));
  if (job.waiting)
    return command.answer(
        error_json({ErrorCode::wrong_state,
                    "job '" + job.spec.name + "' waits in the queue: " + job.progress.reason +
                        "; `gpunode job rm " + job.spec.name + "` takes it out"}));
  if (!job.actor || job.progress.ended) {
    const bool again =
        job.progress.phase == JobPhase::failed && command.name == "job.resume" && !from;
    return command.answer(again ? answer_json(begin_again(self, id)) : error_json(ended_here(job)));
  }
  // A full disk must not keep a job from being stopped.
  const bool must_be_logged = command.name == "job.recover" || from;
  std::vector<std::pair<std::string, std::string>> more = {{"asked_at", by.text()},
                                                           {"why", "a person"}};
  if (from) more.emplace_back("from", std::to_string(*from));
  const char* event = from                            ? "job_resumed_from"
                      : command.name == "job.recover" ? "job_recovered"
                      : command.name == "job.stop"    ? "job_stopped"
                                                      : "job_resumed";
  audit_job(self, id, event, std::move(more),
            [command = with_outcome(self, command, id, by), must_be_logged,
             actor = job.actor](Result<void> logged) {
              if (!logged && must_be_logged) return command.answer(error_json(logged.error()));
              caf::anon_send(actor, command);
            });
}

void trace_job(Self* self, const Command& command, const JobId& id) {
  const Job& job = self->state.jobs.at(id);
  const std::string name = "job '" + job.spec.name + "'";
  if (job.waiting)
    return command.answer(error_json(
        {ErrorCode::wrong_state,
         name + " waits in the queue, and has made no step to trace: " + job.progress.reason}));
  if (!job.spans || (job.progress.ended && job.progress.members.empty()))
    return command.answer(error_json(
        {ErrorCode::not_found, name + " is over, and traces are of this life of the node alone: "
                                      "it has made no step since the node was started"}));
  const auto steps = field<std::uint64_t>(arguments_of(command.arguments), "steps", kTracedSteps);
  std::uint64_t newest = 0;  // of the spans: the supervisor hears of a step now and then only
  for (const telemetry::Span& span : job.spans->from_step(0, kMaxTracedSpans))
    if (span.kind == telemetry::SpanKind::confirm) newest = std::max(newest, span.step);
  newest = std::max(newest, job.progress.step);
  spawn_trace(self->system(),
              {id, job.spec.name, job.progress.members, newest >= steps ? newest - steps + 1 : 1,
               self->state.options.cluster, self->state.options.environment->options().clock,
               self->state.options.calls, command.answer});
}

// What a job waits for that goes to the queue is known from here on.
void on_submitted(Self* self, const std::string& text,
                  const std::function<void(std::string)>& answer) {
  const nlohmann::json told = arguments_of(text);
  Job* job = nullptr;
  if (const auto id = field<std::string>(told, "job", ""); !id.empty() && told.value("ok", false))
    note_in_audit(self, "job_submitted",
                  {{"job", id}, {"name", field<std::string>(told, "name", "")}});
  if (const auto id = parse_job_id(field<std::string>(told, "job", ""))) job = job_at(self, *id);
  if (job && job->waiting && field<std::string>(told, "reason", "") != "") {
    job->progress.reason = field<std::string>(told, "reason", "");
    publish_hint(self, *job);
  }
  answer(text);
}

// Unless a job of that name is at work anywhere: two would be told apart by their ids alone.
Result<void> name_is_free(Self* self, const std::string& name) {
  const auto same = names_of(self).meant(name, Purpose::look);
  if (!same || !same->at_work || same->name != name) return {};
  return {ErrorCode::already_exists,
          "a job named '" + name + "' is running or waits (" + short_text(same->id) +
              "): give this one another name, or have that one make way: `gpunode job stop " +
              name + "` where it runs, `gpunode job rm " + name +
              "` where it waits in the queue; `gpunode job resume " + name +
              "` lets a node whose part in it failed take part again"};
}

// `only_check`: of a job that is only looked at.
void submit(Self* self, const Command& command, job::JobSpec spec,
            const std::optional<ModelFigures>& only_check) {
  const Result<void> free = name_is_free(self, spec.name);
  if (!free && !only_check) return command.answer(error_json(free.error()));
  auto tell = [self, me = caf::actor(self), answer = command.answer](const std::string& text) {
    caf::anon_send(me, Request{[=] { on_submitted(self, text, answer); }});
  };
  SubmissionOptions options{std::move(spec), self->state.options.self, self->state.options.cluster,
                            self->state.options.calls, std::move(tell)};
  options.may_wait = field<bool>(arguments_of(command.arguments), "wait", true);
  options.only_check = only_check;
  if (!free) options.refusal = free.error();
  options.authority = self->state.options.authority;
  options.clock = self->state.options.environment->options().clock;
  spawn_submission(self->system(), std::move(options));
}

void train(Self* self, const Command& command) {
  nlohmann::json arguments = arguments_of(command.arguments);
  auto spec = parse_job_file(field<std::string>(arguments, "job_file", ""),
                             field<std::string>(arguments, "directory", "/"));
  if (!spec) return command.answer(error_json(spec.error()));
  const bool check = field<bool>(arguments, "check", false);
  // From here on it is this node's own, which may read what a path names.
  const auto wall = self->state.options.environment->options().clock->wall();
  spec->submitted =
      std::chrono::duration_cast<std::chrono::microseconds>(wall.time_since_epoch()).count();
  sign_as_owner(*self->state.options.authority, *spec);
  // The embedder's code of the model may take long, and jobs are not to wait for it.
  auto begun =
      on_own_thread(self, [self, command, check, spec = std::move(*spec),
                           environment = self->state.options.environment](const caf::actor& board) {
        const auto model = environment->make_model(spec);
        if (!model) return command.answer(error_json(model.error()));
        std::optional<ModelFigures> only_check;
        if (check) {
          auto figures = environment->figures(spec, **model);
          if (!figures) return command.answer(error_json(figures.error()));
          only_check = *std::move(figures);
        }
        caf::anon_send(board, Request{[=] { submit(self, command, spec, only_check); }});
      });
  if (!begun) command.answer(error_json(begun.error()));
}

// Whether more than half of those that hold a waiting job stay when this node leaves.
bool enough_stay(Self* self, const Waiting& waiting, const ClusterSnapshot& cluster) {
  const auto staying = std::ranges::count_if(waiting.holders, [&](const NodeId& node) {
    return node != self->state.options.self && stays(cluster, node);
  });
  return static_cast<std::size_t>(staying) > waiting.holders.size() / 2;
}

// Whether this node may leave: not as the last that holds the state of a job, unless `anyway`.
Result<nlohmann::json> leave(Self* self, bool anyway) {
  const auto cluster = self->state.options.cluster->read();
  auto unsaved = nlohmann::json::array();
  for (const auto& [id, job] : self->state.jobs) {
    if (job.waiting && !anyway && !enough_stay(self, *job.waiting, *cluster))
      return Error{ErrorCode::wrong_state,
                   "job '" + job.spec.name +
                       "' waits in the queue, and without this node too few of those that hold it "
                       "are left to start it: `gpunode job rm " +
                       job.spec.name +
                       "` takes it out; `gpunode leave --anyway` leaves it waiting for this node"};
    const std::vector<NodeId>& members = job.progress.members;
    const bool member = std::ranges::find(members, self->state.options.self) != members.end();
    const bool others = std::ranges::any_of(members, [&](const NodeId& node) {
      return node != self->state.options.self && stays(*cluster, node);
    });
    const bool last = job.actor && !job.progress.ended && member && !others;
    if (last && job.progress.unsaved) unsaved.push_back(job.spec.name);
    if (!last || anyway) continue;
    if (job.progress.unsaved)
      return Error{ErrorCode::wrong_state,
                   "job '" + job.spec.name + "' is " + job.progress.reason +
                       ". Make room, and leave when `gpunode job show " + job.spec.name +
                       "` tells that it is finished; `gpunode leave --anyway` may lose it"};
    return Error{
        ErrorCode::wrong_state,
        "this node is the last that holds the state of job '" + job.spec.name + "', after step " +
            std::to_string(job.progress.step) +
            ": let another node in (`gpunode token create` here, `gpunode join` there) and leave "
            "when `gpunode job show " +
            job.spec.name + "` names it a member; or `gpunode leave --anyway`, which makes a " +
            "checkpoint durable here, and the job waits until this node is started again"};
  }
  return nlohmann::json{{"unsaved", unsaved}};
}

}  // namespace

void forward(Self* self, const Command& command, const NodeId& to, const JobId& id) {
  const std::string request = command.name + "\n" + id.text() + "\n" + command.arguments;
  self->send(
      self->state.options.calls,
      CallRequest{to, "job.command", SharedBytes::from(to_bytes(as_bytes(request))),
                  forward_timeout(command.name),
                  [answer = command.answer, by = self->state.options.cluster->read()->name_of(to)](
                      Result<SharedBytes> text) {
                    answer(text ? told_by(by, std::string(as_text(text->view)))
                                : error_json(text.error()));
                  }});
}

bool stays(const ClusterSnapshot& cluster, const NodeId& node) {
  return cluster.alive(node) && std::ranges::none_of(cluster.entries, [&](const auto& entry) {
           return entry.owner == node && entry.key == kLeaving;
         });
}

void note_in_audit(Self* self, const std::string& event,
                   std::vector<std::pair<std::string, std::string>> fields) {
  self->send(self->state.options.audit, AuditNote{event, std::move(fields), [](const auto&) {}});
}

void audit_job(Self* self, const JobId& id, const std::string& event,
               std::vector<std::pair<std::string, std::string>> more,
               std::function<void(Result<void>)> done) {
  const Job& job = self->state.jobs.at(id);
  AuditNote entry{event,
                  {{"job", id.text()},
                   {"name", job.spec.name},
                   {"view", std::to_string(job.progress.view_id)},
                   {"step", std::to_string(job.progress.step)}},
                  std::move(done)};
  entry.fields.insert(entry.fields.end(), more.begin(), more.end());
  self->send(self->state.options.audit, std::move(entry));
}

void job_command(Self* self, const Command& command, const JobId& id, const NodeId& by,
                 bool forward) {
  if (command.name == "job.rm") return remove_job(self, command);
  const Job* job = job_at(self, id);
  const bool orders = is_order(command.name);
  const bool outside = job && orders && job->progress.phase == JobPhase::outsider;
  if (forward && (!job || outside)) return forward_to_owner(self, command, id);
  if (!job) return command.answer(error_json({ErrorCode::not_found, "no such job is here"}));
  if (command.name == "job.trace") return trace_job(self, command, id);
  if (!orders) return show_job(self, command, id, by);
  order_job(self, command, id, by);
}

namespace {

// What was meant is told with every answer.
std::function<void(std::string)> naming(std::string shown_as,
                                        std::function<void(std::string)> answer) {
  return [shown_as = std::move(shown_as), answer = std::move(answer)](std::string text) {
    nlohmann::json body = arguments_of(text);
    if (!field<bool>(body, "ok", false)) return answer(std::move(text));
    body["shown_as"] = shown_as;
    answer(text_of(body));
  };
}

Purpose purpose_of(const std::string& command) {
  return is_order(command) ? Purpose::order : Purpose::look;
}

// Whether it is in the queue, as far as is known here.
bool waits(Self* self, const JobId& id) {
  if (const Job* job = job_at(self, id)) return job->waiting.has_value();
  const auto cluster = self->state.options.cluster->read();
  return std::ranges::any_of(hints_of(*cluster, id), [](const HeardHint& heard) {
    return heard.hint.phase == JobPhase::waiting;
  });
}

// Which job is meant by a name.
void find(Self* self, const Command& command, const nlohmann::json& arguments) {
  const bool removes = field<std::string>(arguments, "purpose", "") == "remove";
  const JobNames names = names_of(self);
  const auto meant = names.meant(field<std::string>(arguments, "job", ""),
                                 removes ? Purpose::remove : Purpose::look);
  if (!meant) return command.answer(error_json(meant.error()));
  nlohmann::json found = {{"job", meant->id.text()},
                          {"name", meant->name},
                          {"shown_as", names.shown(meant->id)},
                          {"waits", waits(self, meant->id)},
                          {"submitted", static_cast<double>(meant->submitted) / 1e6}};
  if (const Job* own = job_at(self, meant->id)) found["steps"] = own->spec.train.steps;
  command.answer(ok_json(std::move(found)));
}

// Of a job that was submitted at another node just now the news may be on its way.
void about_one_job(Self* self, const Command& command, int tries) {
  const JobNames names = names_of(self);
  const auto meant = names.meant(field<std::string>(arguments_of(command.arguments), "job", ""),
                                 purpose_of(command.name));
  if (!meant && meant.error().code == ErrorCode::not_found && tries > 0)
    return self->delayed_send(self, kNewsPause,
                              Request{[=] { about_one_job(self, command, tries - 1); }});
  if (!meant) return command.answer(error_json(meant.error()));
  Command named = command;
  if (is_order(command.name)) named.arguments = ordered(self, command, meant->id);
  if (command.name != "job.trace")  // which is in a format of others
    named.answer = naming(names.shown(meant->id), command.answer);
  job_command(self, named, meant->id, self->state.options.self, true);
}

}  // namespace

void on_command(Self* self, const Command& command) {
  nlohmann::json arguments = arguments_of(command.arguments);
  if (command.name == "leave")
    return command.answer(answer_json(leave(self, field<bool>(arguments, "anyway", false))));
  if (command.name == "train") return train(self, command);
  if (command.name == "jobs") return list_jobs(self, command);
  if (command.name == "job.find") return find(self, command, arguments);
  if (command.name == "job.rm") return remove_job(self, command);
  if (command.name == "checkpoint.rm") return remove_checkpoints(self, command);
  if (command.name == "job.recover" && !field<bool>(arguments, "force", false))
    return command.answer(error_json(
        {ErrorCode::invalid_argument,
         "a recovery gives up what unreachable members may have done; it must be forced"}));
  about_one_job(self, command, kNewsTries);
}

}  // namespace gpunode::jobs::board
