// The job board towards other nodes. What nodes ask of each other about jobs: the calls that a node
// answers for others, and those by which it finds a witness or tells that it takes no part.
#include <caf/actor_system.hpp>
#include <caf/send.hpp>

#include <charconv>

#include "actors/job/detail/job_board_state.hpp"
#include "actors/job/job_line.hpp"
#include "actors/job/job_note_codec.hpp"
#include "actors/job/trace_codec.hpp"
#include "runtime/base/log.hpp"

namespace gpunode::jobs::board {

void on_own_thread(Self* self, std::function<void()> work) {
  self->system().spawn<caf::detached>([work = std::move(work)] { work(); });
}

namespace {

void send_refusals(const caf::actor& calls, const NodeId& to, const JobRefusals& refusals) {
  caf::anon_send(calls, CallRequest{to, "job.refused", SharedBytes::from(encode(refusals)),
                                    std::chrono::seconds(5), [](const auto&) {}});
}

// Answers "<job id>\n<step>" with this node's spans of that job from that step on.
void tell_spans(Self* self, const SharedBytes& request, const CallReply& reply) {
  const std::string text(as_text(request.view));
  const std::size_t line = text.find('\n');
  const auto id = parse_job_id(text.substr(0, std::min<std::size_t>(line, text.size())));
  std::uint64_t step = 0;
  const bool good =
      line != std::string::npos &&
      std::from_chars(text.data() + line + 1, text.data() + text.size(), step).ec == std::errc{};
  if (!id || !good) return reply(Error{ErrorCode::invalid_argument, "not a question for spans"});
  const auto found = self->state.jobs.find(*id);
  if (found == self->state.jobs.end() || !found->second.spans)
    return reply(Error{ErrorCode::not_found, "the job does not run here"});
  reply(SharedBytes::from(encode_spans(found->second.spans->from_step(step, kMaxTracedSpans))));
}

// Takes over, for `job show`, who is refused by a job that runs here.
void take_refusals(Self* self, const SharedBytes& request, const CallReply& reply) {
  const auto note = decode_note(request.view);
  const auto* refusals = note ? std::get_if<JobRefusals>(&*note) : nullptr;
  if (!refusals) return reply(Error{ErrorCode::invalid_argument, "not a list of refused nodes"});
  const auto found = self->state.jobs.find(refusals->job);
  if (found != self->state.jobs.end() && found->second.actor)
    for (const Refusal& one : refusals->refused) self->send(found->second.actor, one);
  reply(SharedBytes{});
}

void publish(Self* self, const char* name,
             std::function<void(Self*, const NodeId&, SharedBytes, CallReply)> handler) {
  caf::actor me = self;
  CallHandler hop = [me, self, handler](const NodeId& from, SharedBytes request, CallReply reply) {
    Request work;
    work.answer = [self, handler, from, request, reply] { handler(self, from, request, reply); };
    caf::anon_send(me, std::move(work));
  };
  self->send(self->state.options.calls, Publish{name, std::move(hop), false});
}

}  // namespace

void publish_all(Self* self) {
  publish(self, "job.fitness", [](Self* me, const NodeId&, SharedBytes request, CallReply reply) {
    auto spec = job::decode(request.view);
    if (!spec) return reply(spec.error());
    if (!labels_fit(spec->labels, me->state.options.labels))
      return reply(Error{ErrorCode::invalid_argument, "it does not carry the job's labels"});
    const JobEnvironment* environment = me->state.options.environment;
    on_own_thread(me, [environment, spec = std::move(*spec), reply] {
      auto fitness = environment->fitness(spec);
      reply(fitness ? Result<SharedBytes>(SharedBytes::from(encode(*fitness)))
                    : Result<SharedBytes>(fitness.error()));
    });
  });
  publish(self, "job.create", [](Self* me, const NodeId&, SharedBytes manifest, CallReply reply) {
    auto created = create_job(me, manifest.view, Part::candidate);
    reply(created ? Result<SharedBytes>(SharedBytes{}) : Result<SharedBytes>(created.error()));
  });
  publish(self, "job.witness", [](Self* me, const NodeId&, SharedBytes manifest, CallReply reply) {
    auto created = stand_by(me, manifest.view);
    reply(created ? Result<SharedBytes>(SharedBytes{}) : Result<SharedBytes>(created.error()));
  });
  publish(self, "job.refused", [](Self* me, const NodeId&, SharedBytes request, CallReply reply) {
    take_refusals(me, request, reply);
  });
  publish(self, "job.begin", [](Self* me, const NodeId&, SharedBytes request, CallReply reply) {
    auto id = parse_job_id(std::string(as_text(request.view)));
    auto found = id ? me->state.jobs.find(*id) : me->state.jobs.end();
    if (found == me->state.jobs.end() || !found->second.actor)
      return reply(Error{ErrorCode::not_found, "no such job here"});
    me->send(found->second.actor, BeginJob{});
    reply(SharedBytes{});
  });
  publish(self, "job.manifest", [](Self* me, const NodeId&, SharedBytes request, CallReply reply) {
    auto id = find_job(me, std::string(as_text(request.view)));
    if (!id) return reply(Error{ErrorCode::not_found, "no such job here"});
    reply(SharedBytes::from(job::encode(me->state.jobs.at(*id).spec)));
  });
  const Clock* clock = self->state.options.environment->options().clock;
  self->send(self->state.options.calls,
             Publish{"job.clock",
                     [clock](const NodeId&, SharedBytes, CallReply reply) {
                       const std::int64_t time = clock->now().time_since_epoch().count();
                       reply(SharedBytes::from(to_bytes(std::as_bytes(std::span(&time, 1)))));
                     },
                     false});
  publish(self, "job.spans", [](Self* me, const NodeId&, SharedBytes request, CallReply reply) {
    tell_spans(me, request, reply);
  });
  publish(self, "job.command",
          [](Self* me, const NodeId& by, SharedBytes request, CallReply reply) {
            std::string text(as_text(request.view));
            std::size_t line = text.find('\n');
            if (line == std::string::npos || line > 64)
              return reply(Error{ErrorCode::invalid_argument, "not a command"});
            std::string wanted = text.substr(line + 1), arguments = "{}";
            if (std::size_t end = wanted.find('\n'); end != std::string::npos) {
              arguments = wanted.substr(end + 1);
              wanted.resize(end);
            }
            job_command(me,
                        Command{text.substr(0, line), arguments,
                                [reply](std::string answer) {
                                  reply(SharedBytes::from(to_bytes(as_bytes(answer))));
                                }},
                        wanted, by, false);
          });
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
  auto it = self->state.jobs.find(wanted.id);
  if (it == self->state.jobs.end()) return;
  std::string name = it->second.spec.name;
  std::string node = self->state.options.cluster->read()->name_of(wanted.node);
  self->send(self->state.options.calls,
             CallRequest{
                 wanted.node, "job.witness", SharedBytes::from(job::encode(it->second.spec)),
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
