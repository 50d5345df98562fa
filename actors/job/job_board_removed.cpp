// Jobs that are gone from this node. One that is removed leaves its id behind for a while, on disk and
// in the directory, so that nodes that were away remove it too when they are back, and none brings it
// back to the others; and its votes, so that this node never votes against them, whatever comes of it.
#include <caf/send.hpp>

#include <algorithm>

#include "actors/job/detail/job_board_state.hpp"
#include "actors/job/job_line.hpp"
#include "actors/json_answer.hpp"
#include "runtime/base/log.hpp"
#include "runtime/snapshot/checkpoint_store.hpp"

namespace gpunode::jobs::board {

namespace {

constexpr auto kRemembered = std::chrono::hours(24 * 30);

// The job's checkpoints and what its folder holds beside the record that it was removed, and its votes.
Result<void> remove_files(const JobEnvironment& environment, const JobId& id) {
  storage::FileSystem& files = *environment.options().files;
  snapshot::CheckpointStore store(files, environment.checkpoint_root());
  const auto gone = [](const Result<void>& removed) {
    return removed || removed.error().code == ErrorCode::not_found;
  };
  const auto keys = store.list(id);
  if (!keys && keys.error().code != ErrorCode::not_found) return keys.error();
  if (keys)
    for (const snapshot::CheckpointKey& key : *keys)
      if (auto removed = store.remove(key); !gone(removed)) return removed;
  if (auto removed = files.remove(environment.checkpoint_root() / id.text()); !gone(removed))
    return removed;
  const storage::Path folder = environment.job_folder(id);
  const auto entries = files.list(folder);
  if (!entries) return entries.error();
  for (const storage::Entry& entry : *entries)
    if (entry.name != kRemoved.file && entry.name != kVotes.file)
      if (auto removed = files.remove(folder / entry.name); !gone(removed)) return removed;
  return files.sync_folder(folder);
}

void tell_removed(Self* self, const JobId& id, const Gone& gone) {
  JobHint hint;
  hint.name = gone.name;
  if (gone.started) hint.reason = kStarted;
  hint.removal = gone.order;
  hint.phase = JobPhase::removed;
  hint.ended = true;
  tell_hint(self, id, hint, gone.at * 1'000'000);
}

void clear_away(Self* self, const JobId& id, const CallReply& reply) {
  const JobEnvironment* environment = self->state.options.environment;
  auto begun =
      on_own_thread(self, [environment, id, reply, turn = self->state.history_turn](const auto&) {
        const std::lock_guard<std::mutex> mine(*turn);  // nobody writes a history meanwhile
        auto removed = remove_files(*environment, id);
        if (!removed)
          log::warning("jobs", "the files of removed job " + short_text(id) +
                                   " are not all gone, which is tried again at the next start: " +
                                   removed.error().message());
        reply(removed ? Result<SharedBytes>(SharedBytes{}) : Result<SharedBytes>(removed.error()));
      });
  if (!begun) reply(begun.error());
}

Gone gone_now(Self* self, const std::string& name) {
  const auto wall = self->state.options.environment->options().clock->wall();
  return {.name = name, .at = std::chrono::system_clock::to_time_t(wall)};
}

Result<void> store_removed(Self* self, const JobId& id, const Gone& gone) {
  const JobEnvironment& environment = *self->state.options.environment;
  if (auto made = environment.options().files->create_folder(environment.job_folder(id)); !made)
    return made;
  nlohmann::json note = {{"name", gone.name},
                         {"started", gone.started},
                         {"at", gone.at},
                         {"order", to_hex(gone.order)},
                         {"parts", nlohmann::json::array()}};
  for (const NodeId& node : gone.parts) note["parts"].push_back(node.text());
  return record(self, id, kRemoved).store(as_bytes(note.dump()));
}

// From here on the job is no more at this node, whatever becomes of its files.
void forget(Self* self, const JobId& id, const Gone& gone, const CallReply& reply) {
  State& state = self->state;
  JobProgress nothing;
  nothing.id = id;
  nothing.phase = JobPhase::removed;
  record_metrics(*state.options.metrics, gone.name, nothing);
  state.jobs.erase(id);
  state.overruled.erase(id);
  state.last_hints.forget(id);
  state.removed[id] = gone;
  tell_removed(self, id, gone);
  if (!gone.started) {
    const auto order = view::decode_order(gone.order);
    log::info("jobs",
              gone.name + " (" + short_text(id) + ") is removed" +
                  (order ? ", as node " + state.options.cluster->read()->name_of(order->by) +
                               " has ordered"
                         : ""));
  }
  clear_away(self, id, reply);
}

// Whether anybody says that the job has left the queue to start, and was not removed from it.
bool has_started(Self* self, const JobId& id) {
  const auto cluster = self->state.options.cluster->read();
  return std::ranges::any_of(hints_of(*cluster, id), [](const HeardHint& heard) {
    return heard.hint.phase == JobPhase::removed && heard.hint.reason == kStarted;
  });
}

// Forgets the removal; what this node has voted in the job it keeps.
Result<void> take_back(Self* self, const JobId& id) {
  const JobEnvironment& environment = *self->state.options.environment;
  storage::FileSystem& files = *environment.options().files;
  const auto votes = record(self, id, kVotes).load();
  if (votes && !*votes) return files.remove(environment.job_folder(id));
  return files.remove(record(self, id, kRemoved).path());
}

// Whether steps are made of a job since somebody is known to have removed it: a node that stood still,
// or was started again, says that it trains it, too, until it has heard of the others.
bool gets_on(Self* self, const JobId& id, const NodeId& at, JobPhase phase, std::uint64_t step) {
  const auto first = self->state.contested.try_emplace({id, at}, step).first->second;
  return phase == JobPhase::validating || phase == JobPhase::saving || step > first;
}

void settle(Self* self, const JobId& id) {
  std::erase_if(self->state.contested, [&](const auto& one) { return one.first.first == id; });
}

}  // namespace

bool is_made(JobPhase phase) {
  return phase == JobPhase::running || phase == JobPhase::validating || phase == JobPhase::saving;
}

void end_first(Self* self, const JobId& id, std::function<void()> then) {
  Job& job = self->state.jobs.at(id);
  if (!job.actor) return then();
  self->state.ending[id] = std::move(then);
  self->send(job.actor, Shutdown{});
}

void remove_here(Self* self, const JobId& id, const std::optional<view::SignedOrder>& order,
                 const CallReply& reply) {
  State& state = self->state;
  if (state.removed.contains(id)) return reply(SharedBytes{});
  const Job* job = job_at(self, id);
  if (!job) return reply(Error{ErrorCode::not_found, "no such job here"});
  if (state.ending.contains(id))
    return reply(Error{ErrorCode::wrong_state, "it is being removed already"});
  if (order)
    if (auto may = is_ordered(self, job->spec, id, *order); !may) return reply(may.error());
  Gone gone = gone_now(self, job->spec.name);
  gone.started = job->waiting && has_started(self, id);
  if (order) gone.order = view::encode(*order);
  gone.parts = parts_of(*job);
  if (auto stored = store_removed(self, id, gone); !stored) return reply(stored.error());
  if (order && order->by != state.options.self)  // what is ordered here is noted where it ends
    note_in_audit(self, "job_removed",
                  {{"job", id.text()}, {"name", gone.name}, {"by", order->by.text()}});
  state.options.route_bulk(id.low, nullptr, nullptr);
  end_first(self, id, [self, id, gone, reply] { forget(self, id, gone, reply); });
}

Result<void> remember_for_others(Self* self, const JobId& id, const std::string& name,
                                 const view::SignedOrder& order, std::set<NodeId> parts) {
  if (self->state.removed.contains(id) || job_at(self, id)) return {};
  Gone gone = gone_now(self, name);
  gone.order = view::encode(order);
  gone.parts = std::move(parts);
  if (auto stored = store_removed(self, id, gone); !stored) return stored;
  forget(self, id, gone, [](const auto&) {});
  return {};
}

void leave_queue(Self* self, const JobId& id) {
  Gone gone = gone_now(self, self->state.jobs.at(id).spec.name);
  gone.started = true;
  if (auto stored = store_removed(self, id, gone); !stored)
    return log::warning("jobs", gone.name + " has started, and stays in the queue here: " +
                                    stored.error().message());
  forget(self, id, gone, [](const auto&) {});
}

bool may_tell(Self* self, const JobId& id, const NodeId& by) {
  if (const Job* job = job_at(self, id))
    return job->waiting ? is_holder(*job, by) : has_part(*job, by);
  const auto gone = self->state.removed.find(id);
  return gone == self->state.removed.end() || gone->second.parts.contains(by);
}

std::set<JobId> made_elsewhere(Self* self, const ClusterSnapshot& cluster,
                               const std::vector<HeardHint>& hints) {
  std::set<JobId> made;
  for (const HeardHint& heard : hints)
    if (const auto id = parse_job_id(heard.id); id && cluster.alive(heard.from) &&
                                                is_made(heard.hint.phase) &&
                                                may_tell(self, *id, heard.from))
      made.insert(*id);
  return made;
}

void on_removed_elsewhere(Self* self, const JobId& id, const HeardHint& heard,
                          const std::set<JobId>& made) {
  State& state = self->state;
  const Job* job = job_at(self, id);
  if (!is_proven(self, id, heard)) return;
  if (job && is_under_way(*job)) {
    if (!gets_on(self, id, state.options.self, job->progress.phase, job->progress.step))
      return;  // it is looked again
    state.overruled.insert(id);
  }
  if (state.overruled.contains(id) || made.contains(id)) return;
  settle(self, id);
  state.last_hints.forget(id);
  if (!job) return;
  const auto order = view::decode_order(heard.hint.removal);
  remove_here(self, id, order ? std::optional(*order) : std::nullopt, [](const auto&) {});
}

// What was removed at a node that was cut off may be at work with the others.
void look_after_removed(Self* self, const ClusterSnapshot& cluster,
                        const std::vector<HeardHint>& hints) {
  State& state = self->state;
  for (const HeardHint& heard : hints) {
    const auto id = parse_job_id(heard.id);
    const auto found = id ? state.removed.find(*id) : state.removed.end();
    if (found == state.removed.end() || found->second.started || !cluster.alive(heard.from) ||
        !is_made(heard.hint.phase) || !may_tell(self, *id, heard.from) ||
        !gets_on(self, *id, heard.from, heard.hint.phase, heard.hint.step))
      continue;
    settle(self, *id);
    const std::string name = found->second.name;
    if (auto done = take_back(self, *id); !done)
      log::warning("jobs", name + ": " + done.error().message());
    log::warning("jobs", name + " (" + short_text(*id) +
                             ") is at work on other nodes, and is not removed any more");
    tell_hint(self, *id, std::nullopt, 0);
    state.removed.erase(found);
  }
}

void take_removed(Self* self, const JobId& id, ByteView bytes) {
  const nlohmann::json note = arguments_of(std::string(as_text(bytes)));
  const JobEnvironment& environment = *self->state.options.environment;
  Gone gone{field<std::string>(note, "name", ""),
            field<bool>(note, "started", false),
            field<std::int64_t>(note, "at", 0),
            from_hex(field<std::string>(note, "order", "")),
            {}};
  for (const auto& text : field<std::vector<std::string>>(note, "parts", {}))
    if (const auto node = NodeId::parse(text)) gone.parts.insert(*node);
  const auto at = std::chrono::system_clock::from_time_t(gone.at);
  if (environment.options().clock->wall() - at > kRemembered) {
    (void)environment.options().files->remove(environment.job_folder(id));
    return;
  }
  self->state.removed[id] = gone;
  tell_removed(self, id, gone);
  clear_away(self, id, [](const auto&) {});
}

}  // namespace gpunode::jobs::board
