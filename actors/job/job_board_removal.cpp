// How jobs go for good. A job that is removed leaves its id behind for a while, on
// disk and in the directory, so that nodes that were away remove it too when they are back, and none
// brings it back to the others.
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
constexpr auto kRemoveTimeout = std::chrono::seconds(20);
constexpr auto kAskTimeout = std::chrono::seconds(10);

// Whether what a node does with the job keeps it from being removed: steps are made, or may be.
// `over`: it is known to be finished, so that who is not as far only waits for the result.
bool stands_in_the_way(JobPhase phase, bool force, bool over) {
  switch (phase) {
    case JobPhase::running:
    case JobPhase::validating:
    case JobPhase::saving:
      return !over;
    case JobPhase::preparing:
    case JobPhase::forming:
    case JobPhase::learning:
    case JobPhase::syncing:
    case JobPhase::paused:
      return !over && !force;
    default:
      return false;
  }
}

Error still_at_work(const std::string& shown, JobPhase phase, const std::string& where) {
  return {ErrorCode::wrong_state,
          "job " + shown + " is not over: it is " + std::string(to_string(phase)) + " " + where +
              "; `gpunode job stop " + shown + "` first, then remove it" +
              (phase == JobPhase::running ? "" : ", or remove it with --force nevertheless")};
}

// The job's checkpoints and what its folder holds beside the record that it was removed.
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
    if (entry.name != kRemoved.file)
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

Gone gone_now(Self* self, const std::string& name, bool started, Bytes order) {
  const auto wall = self->state.options.environment->options().clock->wall();
  return {name, started, std::chrono::system_clock::to_time_t(wall), std::move(order)};
}

Result<void> store_removed(Self* self, const JobId& id, const Gone& gone) {
  const JobEnvironment& environment = *self->state.options.environment;
  if (auto made = environment.options().files->create_folder(environment.job_folder(id)); !made)
    return made;
  const nlohmann::json note = {{"name", gone.name},
                               {"started", gone.started},
                               {"at", gone.at},
                               {"order", to_hex(gone.order)}};
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
  if (!gone.started) log::info("jobs", gone.name + " (" + short_text(id) + ") is removed");
  clear_away(self, id, reply);
}

// Whether anybody says that the job has left the queue to start, and was not removed from it.
bool has_started(Self* self, const JobId& id) {
  const auto cluster = self->state.options.cluster->read();
  return std::ranges::any_of(hints_of(*cluster, id), [](const HeardHint& heard) {
    return heard.hint.phase == JobPhase::removed && heard.hint.reason == kStarted;
  });
}

// Of an order to all: what has come of it up to now. First all are asked whether steps are made of
// the job there, so that it is removed from all nodes that answer or from none.
struct Removal {
  Command command;
  NamedJob job;
  std::string shown;
  view::SignedOrder order = {};
  bool force = false, over = false;
  std::vector<NodeId> nodes = {};  // that answer
  std::size_t answers = 0;         // to the question that they were asked last
  std::optional<Error> refused = {};
  nlohmann::json removed_on = nlohmann::json::array(), missing = nlohmann::json::array();
};
using OnAnswer = void (*)(Self*, const std::shared_ptr<Removal>&, const NodeId&,
                          const Result<SharedBytes>&);

void ask_all(Self* self, const std::shared_ptr<Removal>& removal, const char* question,
             const SharedBytes& request, Duration timeout, OnAnswer then) {
  removal->answers = 0;
  for (const NodeId& node : removal->nodes)
    self->send(self->state.options.calls,
               CallRequest{node, question, request, timeout,
                           [=, me = caf::actor(self)](const auto& answer) {
                             caf::anon_send(me,
                                            Request{[=] { then(self, removal, node, answer); }});
                           }});
}

// Who is away hears of the removal from this node, also where it has never had a part in the job.
Result<void> remember_for_others(Self* self, const Removal& removal) {
  const NamedJob& job = removal.job;
  if (self->state.removed.contains(job.id) || job_at(self, job.id)) return {};
  const Gone gone = gone_now(self, job.name, false, view::encode(removal.order));
  if (auto stored = store_removed(self, job.id, gone); !stored) return stored;
  forget(self, job.id, gone, [](const auto&) {});
  return {};
}

void on_removed(Self* self, const std::shared_ptr<Removal>& removal, const NodeId& node,
                const Result<SharedBytes>& answer) {
  const std::string name = self->state.options.cluster->read()->name_of(node);
  if (answer)
    removal->removed_on.push_back(name);
  else if (answer.error().code != ErrorCode::not_found)
    removal->missing.push_back({{"node", name}, {"reason", answer.error().detail}});
  if (++removal->answers < removal->nodes.size()) return;
  if (!removal->missing.empty())
    if (auto stored = remember_for_others(self, *removal); !stored)
      removal->missing.push_back({{"node", "the nodes that are away"},
                                  {"reason", "they are not told of it: " + stored.error().detail}});
  note_in_audit(self, "job_removed",
                {{"job", removal->job.id.text()},
                 {"name", removal->job.name},
                 {"by", removal->order.by.text()},
                 {"forced", removal->force ? "yes" : "no"}});
  removal->command.answer(ok_json({{"job", removal->job.id.text()},
                                   {"name", removal->job.name},
                                   {"removed_on", removal->removed_on},
                                   {"missing", removal->missing}}));
}

void on_asked(Self* self, const std::shared_ptr<Removal>& removal, const NodeId& node,
              const Result<SharedBytes>& answer) {
  const std::string name = self->state.options.cluster->read()->name_of(node);
  ++removal->answers;
  if (answer) {
    if (const auto phase = parse_job_phase(std::string(as_text(answer->view)));
        phase && stands_in_the_way(*phase, removal->force, removal->over))
      removal->refused = still_at_work(removal->shown, *phase, "on node " + name);
  } else if (answer.error().code != ErrorCode::not_found) {
    removal->missing.push_back({{"node", name}, {"reason", answer.error().detail}});
    std::erase(removal->nodes, node);
    --removal->answers;
  }
  if (removal->answers < removal->nodes.size()) return;
  if (removal->nodes.empty())
    return removal->command.answer(error_json(
        {ErrorCode::unavailable, "job '" + removal->job.name + "' is not removed: " +
                                     removal->missing[0].value("reason", "nobody answers")}));
  if (removal->refused) return removal->command.answer(error_json(*removal->refused));
  ask_all(self, removal, "job.remove", SharedBytes::from(view::encode(removal->order)),
          kRemoveTimeout, on_removed);
}

bool is_made(JobPhase phase) {
  return phase == JobPhase::running || phase == JobPhase::validating || phase == JobPhase::saving;
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

void end_first(Self* self, const JobId& id, std::function<void()> then) {
  Job& job = self->state.jobs.at(id);
  if (!job.actor) return then();
  self->state.ending[id] = std::move(then);
  self->send(job.actor, Shutdown{});
}

void remove_job(Self* self, const Command& command) {
  const nlohmann::json arguments = arguments_of(command.arguments);
  const JobNames names = names_of(self);
  const auto meant = names.meant(field<std::string>(arguments, "job", ""), Purpose::remove);
  if (!meant) return command.answer(error_json(meant.error()));
  auto removal = std::make_shared<Removal>(Removal{command, *meant, names.shown(meant->id)});
  const auto cluster = self->state.options.cluster->read();
  const std::vector<HeardHint> hints = hints_of(*cluster, meant->id);
  const Job* own = job_at(self, meant->id);
  const security::Authority& authority = *self->state.options.authority;
  const auto order = order_in(arguments);  // of the node that has handed this on
  removal->order =
      order ? *order
            : signed_order(authority, {.job = meant->id, .kind = view::OrderKind::remove},
                           self->state.options.environment->options().clock->wall());
  // Each node that has it looks for itself; who may not is told so before any is asked.
  NodeId owner = own ? own->spec.submitter : NodeId{};
  for (const HeardHint& heard : hints)
    if (owner == NodeId{}) owner = heard.hint.submitter;
  if (const JobHint* last = self->state.last_hints.newest(meant->id); last && owner == NodeId{})
    owner = last->submitter;
  if (auto may = may_order(authority, *cluster, meant->name, owner, removal->order.by); !may)
    return command.answer(error_json(may.error()));
  const auto is_finished = [](JobPhase phase) { return phase == JobPhase::finished; };
  removal->force = field<bool>(arguments, "force", false);
  const JobHint* last = self->state.last_hints.newest(meant->id);
  removal->over = (own && is_finished(own->progress.phase)) || (last && is_finished(last->phase)) ||
                  (std::ranges::any_of(hints, is_finished,
                                       [](const HeardHint& heard) { return heard.hint.phase; }) &&
                   made_elsewhere(*cluster, hints).empty());
  for (const HeardHint& heard : hints)
    if (cluster->alive(heard.from) && !heard.hint.ended &&
        stands_in_the_way(heard.hint.phase, removal->force, removal->over))
      return command.answer(error_json(still_at_work(removal->shown, heard.hint.phase,
                                                     "on node " + cluster->name_of(heard.from))));
  // Whom nobody reaches from here may make steps of it still.
  if (last && self->state.last_hints.is_of_one_away(meant->id, *cluster) && !removal->force &&
      !removal->over && !last->ended && stands_in_the_way(last->phase, false, false))
    return command.answer(error_json(still_at_work(
        removal->shown, last->phase,
        "by the last word of nodes that do not answer (--force removes it nevertheless)")));
  for (const NodeInfo& node : cluster->nodes) {
    if (cluster->alive(node.id))
      removal->nodes.push_back(node.id);
    else
      removal->missing.push_back(
          {{"node", node.name},
           {"reason", node.health == PeerHealth::left
                          ? "it has left; if it has the job, it removes it when it is back"
                          : "it does not answer, and removes it when it is back"}});
  }
  const auto ask = [self, removal] {
    const auto id = SharedBytes::from(to_bytes(as_bytes(removal->job.id.text())));
    ask_all(self, removal, "job.phase", id, kAskTimeout, on_asked);
  };
  if (own && own->waiting && !removal->force)
    return take_out(self, removal->order, [command, removal, ask](const Result<void>& out) {
      if (out) return ask();
      command.answer(error_json(out.error().within("job " + removal->shown)));
    });
  const auto holder = std::ranges::find_if(hints, [&](const HeardHint& heard) {
    return heard.hint.phase == JobPhase::waiting && cluster->alive(heard.from);
  });
  if (own || holder == hints.end()) return ask();
  Command forwarded = command;  // what was meant is decided here
  forwarded.arguments = text_of({{"job", meant->id.text()},
                                 {"force", removal->force},
                                 {"order", to_hex(view::encode(removal->order))}});
  forward(self, forwarded, holder->from, meant->id);
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
  const Gone gone = gone_now(self, job->spec.name, job->waiting && has_started(self, id),
                             order ? view::encode(*order) : Bytes{});
  if (auto stored = store_removed(self, id, gone); !stored) return reply(stored.error());
  state.options.route_bulk(id.low, nullptr, nullptr);
  end_first(self, id, [self, id, gone, reply] { forget(self, id, gone, reply); });
}

void leave_queue(Self* self, const JobId& id) {
  const Gone gone = gone_now(self, self->state.jobs.at(id).spec.name, true, {});
  if (auto stored = store_removed(self, id, gone); !stored)
    return log::warning("jobs", gone.name + " has started, and stays in the queue here: " +
                                    stored.error().message());
  forget(self, id, gone, [](const auto&) {});
}

std::set<JobId> made_elsewhere(const ClusterSnapshot& cluster,
                               const std::vector<HeardHint>& hints) {
  std::set<JobId> made;
  for (const HeardHint& heard : hints)
    if (const auto id = parse_job_id(heard.id);
        id && cluster.alive(heard.from) && is_made(heard.hint.phase))
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
  const JobEnvironment& environment = *state.options.environment;
  for (const HeardHint& heard : hints) {
    const auto id = parse_job_id(heard.id);
    const auto found = id ? state.removed.find(*id) : state.removed.end();
    if (found == state.removed.end() || found->second.started || !cluster.alive(heard.from) ||
        !is_made(heard.hint.phase) ||
        !gets_on(self, *id, heard.from, heard.hint.phase, heard.hint.step))
      continue;
    settle(self, *id);
    const std::string name = found->second.name;
    if (auto done = environment.options().files->remove(environment.job_folder(*id)); !done)
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
  const Gone gone{field<std::string>(note, "name", ""), field<bool>(note, "started", false),
                  field<std::int64_t>(note, "at", 0),
                  from_hex(field<std::string>(note, "order", ""))};
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
