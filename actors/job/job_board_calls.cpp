// The job board towards other nodes. What nodes ask of each other about jobs: the calls that a node
// answers for others, and those by which it finds a witness or tells that it takes no part.
#include <caf/actor_system.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <charconv>

#include "actors/job/detail/job_board_state.hpp"
#include "actors/job/job_line.hpp"
#include "actors/job/job_note_codec.hpp"
#include "actors/job/trace_codec.hpp"
#include "actors/json_answer.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/low_priority.hpp"
#include "runtime/probe/host_probe.hpp"

namespace gpunode::jobs::board {

std::function<Result<void>(SlowWork::Work)> slow_work_of(Self* self, const NodeId& by) {
  return [system = &self->system(), slow = self->state.slow_work,
          by](SlowWork::Work work) -> Result<void> {
    const auto starts = slow->add(by, std::move(work));
    if (!starts) return starts.error();
    if (*starts)
      system->spawn<caf::detached>([slow] {
        take_low_priority();
        slow->serve();
      });
    return {};
  };
}

Result<void> on_own_thread(Self* self, const NodeId& by,
                           std::function<void(const caf::actor&)> work) {
  return slow_work_of(self,
                      by)([work = std::move(work), board = caf::actor(self)] { work(board); });
}

Result<void> on_own_thread(Self* self, std::function<void(const caf::actor&)> work) {
  return on_own_thread(self, self->state.options.self, std::move(work));
}

Result<void> has_room_for(Self* self, const NodeId& submitter) {
  constexpr std::ptrdiff_t kMost = 64;
  const auto count = std::ranges::count_if(self->state.jobs, [&](const auto& one) {
    return one.second.spec.submitter == submitter && !one.second.progress.ended;
  });
  if (submitter == self->state.options.self || count < kMost) return {};
  return {ErrorCode::resource_exhausted,
          "this node has " + std::to_string(count) +
              " jobs of its submitter that are not over: stop some of them"};
}

namespace {

void send_refusals(const caf::actor& calls, const NodeId& to, const JobRefusals& refusals) {
  caf::anon_send(calls, CallRequest{to, "job.refused", SharedBytes::from(encode(refusals)),
                                    std::chrono::seconds(5), [](const auto&) {}});
}

// Answers "<job id>\n<step>" with this node's spans of that job from that step on.
Result<SharedBytes> spans_of(Self* self, const NodeId& from, ByteView request) {
  const std::string text(as_text(request));
  const std::size_t line = text.find('\n');
  const auto id = parse_job_id(text.substr(0, std::min<std::size_t>(line, text.size())));
  std::uint64_t step = 0;
  const bool good =
      line != std::string::npos &&
      std::from_chars(text.data() + line + 1, text.data() + text.size(), step).ec == std::errc{};
  if (!id || !good) return Error{ErrorCode::invalid_argument, "not a question for spans"};
  const Job* job = job_at(self, *id);
  if (!job || !job->spans) return Error{ErrorCode::not_found, "the job does not run here"};
  if (auto may = may_look(self, *job, from); !may) return may.error();
  return SharedBytes::from(encode_spans(job->spans->from_step(step, kMaxTracedSpans)));
}

// Takes over, for `job show`, who is refused by a job that runs here.
Result<void> take_refusals(Self* self, const NodeId& from, ByteView request) {
  const auto note = decode_note(request);
  const auto* refusals = note ? std::get_if<JobRefusals>(&*note) : nullptr;
  if (!refusals) return Error{ErrorCode::invalid_argument, "not a list of refused nodes"};
  const Job* job = job_at(self, refusals->job);
  if (!job || !job->actor) return {};
  for (const Refusal& one : refusals->refused)
    if (one.node == from || has_part(*job, from)) self->send(job->actor, one);
  return {};
}

Result<void> begin_job(Self* self, const NodeId& from, ByteView request) {
  const auto id = parse_job_id(std::string(as_text(request)));
  const Job* job = id ? job_at(self, *id) : nullptr;
  if (!job || !job->actor) return Error{ErrorCode::not_found, "no such job here"};
  // One that waited is started by any of those that held it.
  if (!has_part(*job, from) && job->spec.waited_as.empty())
    return Error{ErrorCode::permission_denied, "who has no part in the job does not begin it"};
  self->send(job->actor, BeginJob{});
  return {};
}

// A wish of its owner starts once: who else brings it has it from a queue, or from what it has heard.
Result<void> create_for(Self* self, const NodeId& from, ByteView manifest) {
  const auto spec = job::decode(manifest);
  if (!spec) return spec.error();
  if (from != spec->submitter) {
    const auto is_it = [&](std::int64_t submitted, const NodeId& by, const JobId& id) {
      return submitted == spec->submitted && by == spec->submitter && id != job::job_id(manifest) &&
             id.text() != spec->waited_as;
    };
    bool known = spec->waited_as.empty();
    for (const auto& [id, job] : self->state.jobs)
      known |= is_it(job.spec.submitted, job.spec.submitter, id);
    // The owner says so, or two others: one could say so of any job, to keep it from starting.
    std::set<NodeId> tellers;
    for (const HeardHint& heard : hints_of_others(*self->state.options.cluster->read()))
      if (is_it(heard.hint.submitted, heard.hint.submitter,
                parse_job_id(heard.id).value_or(job::job_id(manifest))))
        tellers.insert(heard.from);
    known |= tellers.contains(spec->submitter) || tellers.size() > 1;
    if (known)
      return Error{ErrorCode::permission_denied,
                   "it was not submitted by who brings it, and has been started already"};
  }
  return create_job(self, manifest, Part::candidate);
}

// What this node does with the job, and behind a line the manifest, by which who asks knows whose word
// on it counts.
Result<SharedBytes> phase_of(Self* self, ByteView request) {
  const auto id = parse_job_id(std::string(as_text(request)));
  const Job* job = id ? job_at(self, *id) : nullptr;
  if (!job) return Error{ErrorCode::not_found, "no such job here"};
  Bytes answer = to_bytes(as_bytes(std::string(to_string(job->progress.phase)) + "\n"));
  const Bytes manifest = job::encode(job->spec);
  answer.insert(answer.end(), manifest.begin(), manifest.end());
  return SharedBytes::from(std::move(answer));
}

Result<SharedBytes> manifest_of(Self* self, ByteView request) {
  const auto id = parse_job_id(std::string(as_text(request)));
  if (!id || !job_at(self, *id)) return Error{ErrorCode::not_found, "no such job here"};
  return SharedBytes::from(job::encode(self->state.jobs.at(*id).spec));
}

// Answers "<job id>" with what this node knows of the job's history.
void tell_history(Self* self, ByteView request, const CallReply& reply) {
  const auto id = parse_job_id(std::string(as_text(request)));
  const caf::actor actor = id ? actor_at(self, *id) : nullptr;
  if (!actor) return reply(Error{ErrorCode::not_found, "no such job here"});
  self->send(actor, TellHistory{reply});
}

void tell_fitness(Self* self, const NodeId& from, ByteView request, const CallReply& reply) {
  auto spec = job::decode(request);
  if (!spec) return reply(spec.error());
  if (auto owned = may_begin(self, *spec); !owned) return reply(owned.error());
  if (auto takes = takes_part(self); !takes) return reply(takes.error());
  if (!labels_fit(spec->labels, self->state.options.labels))
    return reply(Error{ErrorCode::unavailable, "it does not carry the job's labels"});
  const JobEnvironment* environment = self->state.options.environment;
  const auto site =
      site_of(spec->exchange.group_by, self->state.options.labels, probe::machine_text());
  auto begun = on_own_thread(
      self, from, [environment, spec = std::move(*spec), site, reply](const caf::actor&) {
        auto fitness = environment->fitness(spec);
        if (!fitness) return reply(fitness.error());
        fitness->site = site;
        reply(SharedBytes::from(encode(*fitness)));
      });
  if (!begun) reply(begun.error());
}

// Carries out "<command>\n<job>" or "<command>\n<job>\n<arguments>" for a person at another node.
void obey(Self* self, const NodeId& by, ByteView request, const CallReply& reply) {
  std::string text(as_text(request));
  std::size_t line = text.find('\n');
  if (line == std::string::npos || line > 64)
    return reply(Error{ErrorCode::invalid_argument, "not a command"});
  std::string wanted = text.substr(line + 1), arguments = "{}";
  if (std::size_t end = wanted.find('\n'); end != std::string::npos) {
    arguments = wanted.substr(end + 1);
    wanted.resize(end);
  }
  const auto id = parse_job_id(wanted);
  if (!id) return reply(Error{ErrorCode::invalid_argument, "not a job's id"});
  const std::string command = text.substr(0, line);
  const auto order = order_in(arguments_of(arguments));
  if ((is_order(command) || command == "job.rm") &&
      (!order || order->by != by || order->job != *id))
    return reply(Error{ErrorCode::permission_denied, "the order is not that of who brings it"});
  const Job* job = job_at(self, *id);
  if (job && !is_order(command) && command != "job.rm")
    if (auto may = may_look(self, *job, by); !may) return reply(may.error());
  job_command(self,
              Command{text.substr(0, line), arguments,
                      [reply](std::string answer) {
                        reply(SharedBytes::from(to_bytes(as_bytes(answer))));
                      }},
              *id, by, false);
}

}  // namespace

void publish(Self* self, const char* name, CallHandler handler) {
  CallHandler hop = [me = caf::actor(self), handler = std::move(handler)](
                        const NodeId& from, SharedBytes request, CallReply reply) {
    caf::anon_send(me, Request{[=] { handler(from, request, reply); }});
  };
  self->send(self->state.options.calls, Publish{name, std::move(hop), false});
}

namespace {

Result<SharedBytes> answer_of(Result<SharedBytes> answer) {
  return answer;
}
Result<SharedBytes> answer_of(const Result<void>& done) {
  return done ? Result<SharedBytes>(SharedBytes{}) : Result<SharedBytes>(done.error());
}

template <class Answer>
void publish_work(Self* self, const char* name, Answer (*work)(Self*, ByteView)) {
  publish(self, name, [self, work](const NodeId&, SharedBytes request, CallReply reply) {
    reply(answer_of(work(self, request.view)));
  });
}
template <class Answer>
void publish_work(Self* self, const char* name, Answer (*work)(Self*, const NodeId&, ByteView)) {
  publish(self, name, [self, work](const NodeId& from, SharedBytes request, CallReply reply) {
    reply(answer_of(work(self, from, request.view)));
  });
}

}  // namespace

void publish(Self* self, const char* name, Result<SharedBytes> (*answer)(Self*, ByteView)) {
  publish_work(self, name, answer);
}
void publish(Self* self, const char* name,
             Result<SharedBytes> (*answer)(Self*, const NodeId&, ByteView)) {
  publish_work(self, name, answer);
}
void publish(Self* self, const char* name, Result<void> (*work)(Self*, ByteView)) {
  publish_work(self, name, work);
}
void publish(Self* self, const char* name, Result<void> (*work)(Self*, const NodeId&, ByteView)) {
  publish_work(self, name, work);
}

void publish_all(Self* self) {
  publish_queue(self);
  publish(self, "job.fitness", [self](const NodeId& from, SharedBytes request, CallReply reply) {
    tell_fitness(self, from, request.view, reply);
  });
  publish(self, "job.history", [self](const NodeId&, SharedBytes request, CallReply reply) {
    tell_history(self, request.view, reply);
  });
  publish(self, "job.command", [self](const NodeId& by, SharedBytes request, CallReply reply) {
    obey(self, by, request.view, reply);
  });
  publish(self, "job.create", create_for);
  publish(self, "job.witness", stand_by);
  publish(self, "job.remove", [self](const NodeId&, SharedBytes request, CallReply reply) {
    const auto order = view::decode_order(request.view);
    if (!order || order->kind != view::OrderKind::remove)
      return reply(Error{ErrorCode::invalid_argument, "not an order to remove a job"});
    remove_here(self, order->job, *order, reply);
  });
  publish(self, "job.refused", take_refusals);
  publish(self, "job.begin", begin_job);
  publish(self, "job.phase", phase_of);
  publish(self, "job.manifest", manifest_of);
  publish(self, "job.spans", spans_of);
  const Clock* clock = self->state.options.environment->options().clock;
  self->send(self->state.options.calls,
             Publish{"job.clock",
                     [clock](const NodeId&, SharedBytes, CallReply reply) {
                       const std::int64_t time = clock->now().time_since_epoch().count();
                       reply(SharedBytes::from(to_bytes(std::as_bytes(std::span(&time, 1)))));
                     },
                     false});
}

void tell_refused(Self* self, const JobId& id, const std::string& reason) {
  const State& state = self->state;
  auto cluster = state.options.cluster->read();
  for (const DirectoryEntry& entry : cluster->entries)
    if (entry.key == hint_key(id) && entry.owner != state.options.self &&
        cluster->alive(entry.owner))
      send_refusals(state.options.calls, entry.owner, {id, {{state.options.self, reason}}});
}

void recruit(Self* self, const RecruitWitness& wanted) {
  const Job* job = job_at(self, wanted.id);
  if (!job) return;
  std::string name = job->spec.name;
  std::string node = self->state.options.cluster->read()->name_of(wanted.node);
  self->send(self->state.options.calls,
             CallRequest{
                 wanted.node, "job.witness", SharedBytes::from(job::encode(job->spec)),
                 std::chrono::seconds(5),
                 [name, node, wanted, calls = self->state.options.calls](Result<SharedBytes> done) {
                   JobRefusals refusals{wanted.id, {}};
                   for (const auto& [who, why] : wanted.refused)
                     refusals.refused.push_back({who, why});
                   if (done) return send_refusals(calls, wanted.node, refusals);
                   if (done.error().code == ErrorCode::already_exists) return;  // it has the result
                   log::info("jobs",
                             name + ": node " + node + " is no witness: " + done.error().message());
                 }});
}

}  // namespace gpunode::jobs::board
