// The queue of the job board: jobs for which too few nodes are fit for now. Each is on the disks of
// some nodes, its holders; one of them, the submitter or else the first that is alive, looks now and
// then whether the job can start, in the order in which jobs were submitted. More than half of the
// holders agree on how it starts, so it starts once.
#include <caf/send.hpp>

#include <algorithm>
#include <set>

#include "actors/job/detail/job_board_state.hpp"
#include "actors/job/job_line.hpp"
#include "actors/job/job_note_codec.hpp"
#include "actors/job/job_submission.hpp"
#include "actors/job/start_agreement.hpp"
#include "actors/json_answer.hpp"
#include "runtime/base/log.hpp"

namespace gpunode::jobs::board {

namespace {

constexpr auto kSettle = std::chrono::seconds(1);  // of what has changed, before it is looked at
constexpr auto kAlone = std::chrono::seconds(60);  // nothing else is looked at
constexpr auto kQueueCallTimeout = std::chrono::seconds(5);
// Until who looks after it has told what it waits for.
constexpr const char* kNotLooked = "it is looked whether enough nodes are fit";
constexpr std::uint64_t kMostRounds = std::uint64_t{1} << 32;

// Whether more than half of so many nodes means something: each is there once, this one too.
bool are_holders(std::vector<NodeId> nodes, const NodeId& self) {
  std::ranges::sort(nodes);
  return std::ranges::binary_search(nodes, self) &&
         std::ranges::adjacent_find(nodes) == nodes.end();
}

// Whether the holders of the waiting job `of` may agree on this: a manifest of the same job on some
// nodes, or the order to remove it.
bool may_agree_on(Self* self, const JobId& id, const job::JobSpec& of, ByteView value) {
  if (const auto order = view::decode_order(value))
    return order->kind == view::OrderKind::remove && is_ordered(self, of, id, *order).has_value();
  const auto spec = job::decode(value);
  return spec && !spec->candidates.empty() && spec->waited_as == id.text() &&
         job::owned_bytes(*spec) == job::owned_bytes(of) &&
         spec->owner_signature == of.owner_signature;
}

Result<void> store(Self* self, const JobId& id, const Waiting& waiting) {
  return record(self, id, kWaiting).store(encode(QueueNote{id, waiting.vote, waiting.holders}));
}

void enter(Self* self, const JobId& id, job::JobSpec spec, Waiting waiting) {
  Job& job = self->state.jobs[id];
  job.progress.id = id;
  job.progress.phase = JobPhase::waiting;
  job.progress.reason = kNotLooked;
  job.progress.total_steps = spec.train.steps;
  job.spec = std::move(spec);
  job.waiting = std::move(waiting);
  publish_hint(self, job);
}

Result<void> keep(Self* self, const NodeId& from, ByteView request) {
  auto note = decode_note(request);
  const auto* draft = note ? std::get_if<QueueNote>(&*note) : nullptr;
  if (!draft || !are_holders(draft->holders, self->state.options.self))
    return Error{ErrorCode::invalid_argument, "not a job for the queue"};
  const JobId id = job::job_id(draft->vote.manifest);
  if (self->state.leaving) return Error{ErrorCode::wrong_state, "this node is leaving the cluster"};
  if (self->state.removed.contains(id))
    return Error{ErrorCode::wrong_state, "it was removed from the queue"};
  if (self->state.jobs.contains(id)) return {};
  auto spec = job::decode(draft->vote.manifest);
  if (!spec) return spec.error();
  if (from != spec->submitter)
    return Error{ErrorCode::permission_denied, "who did not submit the job brings it to the queue"};
  if (auto owned = may_begin(self, *spec); !owned) return owned;
  if (auto room = has_room_for(self, spec->submitter); !room) return room;
  const JobEnvironment& environment = *self->state.options.environment;
  if (auto made = environment.options().files->create_folder(environment.job_folder(id)); !made)
    return made.error();
  Waiting waiting;
  waiting.holders = draft->holders;
  // Last its manifest: without it nothing is taken up from disk.
  if (auto stored = store(self, id, waiting); !stored) return stored.error();
  if (auto stored = record(self, id, kManifest).store(draft->vote.manifest); !stored)
    return stored.error();
  enter(self, id, std::move(*spec), std::move(waiting));
  return {};
}

// A vote on how a job starts; `accepting`: on a manifest, else on a ballot alone.
Result<SharedBytes> vote(Self* self, const NodeId& from, ByteView request, bool accepting) {
  auto note = decode_note(request);
  const auto* asked = note ? std::get_if<QueueNote>(&*note) : nullptr;
  if (!asked || asked->vote.promised.proposer != from || asked->vote.promised.round > kMostRounds)
    return Error{ErrorCode::invalid_argument, "not a question about the queue"};
  Job* job = job_at(self, asked->job);
  if (!job || !job->waiting || self->state.ending.contains(asked->job))
    return Error{ErrorCode::not_found, "the job does not wait here"};
  if (!is_holder(*job, from))
    return Error{ErrorCode::permission_denied, "who does not hold the job does not start it"};
  if (accepting && !may_agree_on(self, asked->job, job->spec, asked->vote.manifest))
    return Error{ErrorCode::permission_denied,
                 "it is neither the job that waits here nor an order of its owner"};
  Waiting changed = *job->waiting;
  const bool given = accepting ? changed.vote.accept(asked->vote.promised, asked->vote.manifest)
                               : changed.vote.promise(asked->vote.promised);
  if (given) {
    if (auto stored = store(self, asked->job, changed); !stored) return stored.error();
    job->waiting = std::move(changed);
  }
  return SharedBytes::from(encode(QueueNote{asked->job, job->waiting->vote, {}}));
}

// The job that waits here under this id has started.
Result<void> started(Self* self, const NodeId& from, ByteView request) {
  const auto id = parse_job_id(std::string(as_text(request)));
  if (!id) return Error{ErrorCode::invalid_argument, "not a job's id"};
  const Job* job = job_at(self, *id);
  if (!job || !job->waiting) return {};
  if (!is_holder(*job, from))
    return Error{ErrorCode::permission_denied, "who does not hold the job has not started it"};
  leave_queue(self, *id);
  return {};
}

// The node that looks after the job.
NodeId starter_of(Self* self, const Job& job, const ClusterSnapshot& cluster) {
  const NodeId& own = self->state.options.self;
  const auto& holders = job.waiting->holders;
  const auto up = [&](const NodeId& node) { return node == own || stays(cluster, node); };
  if (is_holder(job, job.spec.submitter) && up(job.spec.submitter)) return job.spec.submitter;
  NodeId first = own;
  for (const NodeId& node : holders)
    if (node < first && up(node)) first = node;
  return first;
}

bool carries(const NodeInfo& node, const std::vector<std::string>& wanted) {
  std::vector<std::string> own;
  for (const auto& [key, value] : node.labels)
    own.push_back(value.empty() ? key : key + "=" + value);
  return labels_fit(wanted, own);
}

// The nodes that could be fit for the job by what is known of them without asking.
std::vector<NodeId> eligible(const job::JobSpec& spec, const ClusterSnapshot& cluster) {
  std::vector<NodeId> nodes;
  for (const NodeInfo& node : cluster.nodes)
    if (stays(cluster, node.id) && carries(node, spec.labels)) nodes.push_back(node.id);
  return nodes;
}

void waits_for(Self* self, Job& job, const std::string& reason) {
  if (job.progress.reason == reason) return;
  job.progress.reason = reason;
  log::info("jobs", job.spec.name + " waits: " + reason);
  publish_hint(self, job);
}

std::string too_few(const job::JobSpec& spec, std::size_t found) {
  std::string labels;
  for (const std::string& label : spec.labels) labels += (labels.empty() ? "" : ", ") + label;
  return "the job needs at least " + std::to_string(spec.min_nodes) +
         (spec.min_nodes == 1 ? " node" : " nodes") +
         (labels.empty() ? "" : " with the labels " + labels) + ", " + std::to_string(found) +
         (found == 1 ? " is" : " are") + " here";
}

// What the node says that looks after the job.
void take_reason(Self* self, Job& job, const NodeId& starter, const ClusterSnapshot& cluster) {
  for (const auto& [_, from, hint] : hints_of(cluster, job.progress.id)) {
    if (from != starter || hint.phase != JobPhase::waiting || hint.reason.empty() ||
        hint.reason == job.progress.reason)
      continue;
    job.progress.reason = hint.reason;
    publish_hint(self, job);  // who is no holder may hear it of this node
  }
}

// What may have made room for it since it was last looked at: nodes, and jobs that are over.
std::string situation_of(Self* self, const std::vector<NodeId>& nodes,
                         const ClusterSnapshot& cluster) {
  std::string text;
  for (const NodeId& node : nodes) text += node.text();
  for (const auto& [id, job] : self->state.jobs)
    if (is_at_work(job)) text += id.text();
  for (const auto& [id, from, hint] : hints_of_others(cluster))
    if (!hint.ended && hint.phase == JobPhase::running) text += from.text() + id;
  return text;
}

void on_attempt(Self* self, const JobId& id, const std::string& answer) {
  Job* job = job_at(self, id);
  if (!job || !job->waiting) return;
  Waiting& waiting = *job->waiting;
  waiting.under_way = false;
  const auto begun = parsed_answer(answer);
  if (!begun) {
    waiting.pause = std::clamp(waiting.pause * 2, Waiting::kFirstPause, Waiting::kLongestPause);
    waiting.not_before = now(self) + waiting.pause;
    waiting.for_memory = begun.error().code == ErrorCode::out_of_memory;
    return waits_for(self, *job, begun.error().detail);
  }
  log::info("jobs", job->spec.name + " starts from the queue on " +
                        field<nlohmann::json>(*begun, "started_on", {}).dump());
  for (const NodeId& holder : waiting.holders)
    self->send(
        self->state.options.calls,
        CallRequest{holder, "queue.started", SharedBytes::from(to_bytes(as_bytes(id.text()))),
                    kQueueCallTimeout, [](const auto&) {}});
  waiting.not_before = now(self) + Waiting::kFirstPause;  // where the disk does not take it
  leave_queue(self, id);
}

// A ballot of this node's. Its own promise is on disk first: none is ever used twice, also by another
// life of this node.
Result<view::Ballot> next_ballot(Self* self, const JobId& id, Waiting& waiting) {
  const view::Ballot ballot{waiting.vote.promised.round + 1, self->state.options.self};
  waiting.vote.promise(ballot);
  if (auto stored = store(self, id, waiting); !stored) return stored.error();
  return ballot;
}

void attempt(Self* self, const JobId& id, Job& job) {
  Waiting& waiting = *job.waiting;
  const State& state = self->state;
  const auto ballot = next_ballot(self, id, waiting);
  if (!ballot) {
    waiting.not_before = now(self) + Waiting::kFirstPause;
    return waits_for(self, job, ballot.error().message());
  }
  waiting.under_way = true;
  waiting.alone_until = now(self) + kAlone;
  auto tell = [self, me = caf::actor(self), id](const std::string& answer) {
    caf::anon_send(me, Request{[=] { on_attempt(self, id, answer); }});
  };
  spawn_submission(self->system(),
                   {job.spec,
                    state.options.self,
                    state.options.cluster,
                    state.options.calls,
                    tell,
                    false,
                    Queued{id, waiting.holders, ballot->round, waiting.vote.manifest},
                    {},
                    {},
                    state.options.authority,
                    state.options.environment->options().clock});
}

// Looks after one job, unless another one is being looked at; `before`: an earlier one that waits for
// memory, which this one would take.
void look_after(Self* self, const JobId& id, Job& job, const Job* before,
                const ClusterSnapshot& cluster) {
  Waiting& waiting = *job.waiting;
  const std::vector<NodeId> nodes = eligible(job.spec, cluster);
  const bool begun = !waiting.vote.manifest.empty();  // by this node or one that is gone
  if (!begun && nodes.size() < job.spec.min_nodes) {
    waiting.for_memory = false;
    return waits_for(self, job, too_few(job.spec, nodes.size()));
  }
  if (before && !begun)
    return waits_for(self, job,
                     "job " + before->spec.name + " came before it, and waits for memory");
  if (std::string situation = situation_of(self, nodes, cluster); situation != waiting.situation) {
    waiting.situation = std::move(situation);
    waiting.pause = {};
    waiting.not_before = now(self) + kSettle;
  }
  // For memory's sake one at a time, but not for as long as a node likes to say nothing.
  const bool busy = std::ranges::any_of(self->state.jobs, [&](const auto& one) {
    const auto& other = one.second.waiting;
    return other && other->under_way && (&*other == &waiting || now(self) < other->alone_until);
  });
  if (!busy && now(self) >= waiting.not_before) attempt(self, id, job);
}

}  // namespace

// At work, or were, under the id with which they have started: who started them may be gone, or has not
// told it here. Where no holder has a part in it, the holders agree once more on what they have agreed
// on: anybody could say that a job has begun.
std::set<JobId> begun_jobs(Self* self, const std::vector<HeardHint>& hints) {
  std::set<JobId> begun;
  for (const auto& [_, job] : self->state.jobs)
    if (const auto before = parse_job_id(job.spec.waited_as); before && job.progress.view_id > 0)
      begun.insert(*before);
  for (const HeardHint& heard : hints) {
    const auto before = heard.hint.view_id > 0 ? parse_job_id(heard.hint.waited_as) : std::nullopt;
    const Job* waits = before ? job_at(self, *before) : nullptr;
    if (waits && is_holder(*waits, heard.from)) begun.insert(*before);
  }
  return begun;
}

void take_out(Self* self, const view::SignedOrder& order, std::function<void(Result<void>)> then) {
  const JobId id = order.job;
  Waiting& waiting = *self->state.jobs.at(id).waiting;
  const auto ballot = next_ballot(self, id, waiting);
  if (!ballot) return then(ballot.error());
  spawn_start_agreement(
      self->system(),
      {id, waiting.holders, *ballot, view::encode(order), self->state.options.calls,
       [me = caf::actor(self), then = std::move(then)](const Result<Bytes>& agreed) {
         Result<void> out;
         if (!agreed)
           out = agreed.error();
         else if (!view::decode_order(*agreed))
           out = Error{ErrorCode::wrong_state,
                       "it starts just now: order it again once `gpunode jobs` shows it"};
         caf::anon_send(me, Request{[=] { then(out); }});
       }});
}

void publish_queue(Self* self) {
  publish(self, "queue.keep", keep);
  publish(self, "queue.promise", [self](const NodeId& from, SharedBytes request, CallReply reply) {
    reply(vote(self, from, request.view, false));
  });
  publish(self, "queue.accept", [self](const NodeId& from, SharedBytes request, CallReply reply) {
    reply(vote(self, from, request.view, true));
  });
  publish(self, "queue.started", started);
}

Result<void> load_waiting(Self* self, const JobId& id, job::JobSpec spec, ByteView record) {
  auto note = decode_note(record);
  auto* kept = note ? std::get_if<QueueNote>(&*note) : nullptr;
  if (!kept || !are_holders(kept->holders, self->state.options.self))
    return Error{ErrorCode::corrupted, "its place in the queue cannot be read"};
  Waiting waiting;
  waiting.holders = std::move(kept->holders);
  waiting.vote = std::move(kept->vote);
  enter(self, id, std::move(spec), std::move(waiting));
  return {};
}

void look_after_queue(Self* self, const ClusterSnapshot& cluster,
                      const std::vector<HeardHint>& hints) {
  std::vector<std::pair<JobId, Job*>> queue;
  for (auto& [id, job] : self->state.jobs)
    if (job.waiting) queue.emplace_back(id, &job);
  if (queue.empty()) return;
  std::ranges::sort(
      queue, {}, [](const auto& one) { return std::pair(one.second->spec.submitted, one.first); });
  const std::set<JobId> begun = begun_jobs(self, hints);
  for (const auto& [id, job] : queue) {
    if (now(self) < job->waiting->not_before || !begun.contains(id)) continue;
    job->waiting->not_before = now(self) + Waiting::kFirstPause;  // where the disk does not take it
    return leave_queue(self, id);                                 // others at the next look
  }
  const Job* before = nullptr;
  for (auto& [id, job] : queue) {
    const NodeId starter = starter_of(self, *job, cluster);
    if (starter == self->state.options.self)
      look_after(self, id, *job, before, cluster);
    else
      take_reason(self, *job, starter, cluster);
    if (job->waiting->for_memory && !before) before = job;
  }
}

}  // namespace gpunode::jobs::board
