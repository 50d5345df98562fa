// How jobs and checkpoints go for good. A job that is removed leaves its id behind for a while, on
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
// The reason in the hint of one that left the queue as it has started.
constexpr const char* kStarted = "it has started";
constexpr auto kRemoveTimeout = std::chrono::seconds(20);
constexpr auto kForwardTimeout = std::chrono::seconds(40);

Error still_at_work(const std::string& shown, const std::string& how) {
  return {ErrorCode::wrong_state, "job " + shown + " is not over: " + how + "; `gpunode job stop " +
                                      shown + "` first, then remove it"};
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
  hint.phase = JobPhase::removed;
  hint.ended = true;
  self->send(self->state.options.directory_writer, SetEntry{hint_key(id), encode(hint)});
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

// From here on the job is no more at this node, whatever becomes of its files.
void forget(Self* self, const JobId& id, bool started, const CallReply& reply) {
  State& state = self->state;
  const Gone gone{state.jobs.at(id).spec.name, started};
  nlohmann::json note = {{"name", gone.name},
                         {"started", started},
                         {"at", std::chrono::system_clock::to_time_t(
                                    state.options.environment->options().clock->wall())}};
  if (auto stored = record(self, id, kRemoved).store(as_bytes(note.dump())); !stored)
    return reply(stored.error());
  state.jobs.erase(id);
  state.last_hints.forget(id);
  state.removed[id] = gone;
  tell_removed(self, id, gone);
  if (!started) log::info("jobs", gone.name + " (" + short_text(id) + ") is removed");
  clear_away(self, id, reply);
}

// Ends the job's actor, if there is one, and goes on then.
void end_first(Self* self, const JobId& id, std::function<void()> then) {
  Job& job = self->state.jobs.at(id);
  if (!job.actor) return then();
  self->state.ending[id] = std::move(then);
  self->send(job.actor, Shutdown{});
}

// Whether anybody says that the job has left the queue to start, and was not removed from it.
bool has_started(Self* self, const JobId& id) {
  const auto cluster = self->state.options.cluster->read();
  return std::ranges::any_of(hints_of(*cluster, id), [](const HeardHint& heard) {
    return heard.hint.phase == JobPhase::removed && heard.hint.reason == kStarted;
  });
}

// Of an order to all: what has come of it up to now.
struct Removal {
  Command command;
  NamedJob job;
  std::size_t asked = 0;
  nlohmann::json removed_on = nlohmann::json::array(), missing = nlohmann::json::array();
};

void on_removed(Self* self, const std::shared_ptr<Removal>& removal, const NodeId& node,
                const Result<SharedBytes>& answer) {
  const std::string name = self->state.options.cluster->read()->name_of(node);
  if (answer || answer.error().code == ErrorCode::not_found)
    removal->removed_on.push_back(name);
  else
    removal->missing.push_back({{"node", name}, {"reason", answer.error().detail}});
  if (removal->removed_on.size() + removal->missing.size() < removal->asked) return;
  if (removal->removed_on.empty())
    return removal->command.answer(
        error_json({ErrorCode::unavailable, "job '" + removal->job.name + "' is not removed: " +
                                                removal->missing[0].value("reason", "")}));
  removal->command.answer(ok_json({{"job", removal->job.id.text()},
                                   {"name", removal->job.name},
                                   {"removed_on", removal->removed_on},
                                   {"missing", removal->missing}}));
}

// Of a job that is over: its report says from now on that its result is not here.
void take_result_away(Self* self, const JobId& id) {
  Job& job = self->state.jobs.at(id);
  job.progress.reason = kNoResult;
  storage::DurableRecord outcome = record(self, id, kOutcome);
  const auto stored = outcome.load();
  if (!stored || !*stored) return;
  nlohmann::json report = arguments_of(std::string(as_text(**stored)));
  report.erase("checkpoint");
  report["reason"] = kNoResult;
  job.outcome = text_of(report);
  if (auto kept = outcome.store(as_bytes(job.outcome)); !kept)
    log::warning("jobs", job.spec.name + ": " + kept.error().message());
}

}  // namespace

namespace {

// Why the job is not to be removed now, by what is known here.
Result<void> may_be_removed(Self* self, const NamedJob& meant, const std::string& shown,
                            bool force) {
  if (!meant.at_work) return {};
  const auto cluster = self->state.options.cluster->read();
  const auto passes = [&](JobPhase phase) {
    return phase == JobPhase::waiting || phase == JobPhase::stopped ||
           phase == JobPhase::outsider || phase == JobPhase::witness ||
           (force && phase == JobPhase::paused);
  };
  const Job* own = job_at(self, meant.id);
  if (own && is_at_work(*own) && !passes(own->progress.phase)) {
    const bool paused = own->progress.phase == JobPhase::paused;
    return still_at_work(shown,
                         paused ? own->progress.reason + " (--force removes it nevertheless)"
                                : "it is " + std::string(to_string(own->progress.phase)) + " here");
  }
  for (const auto& [_, from, hint] : hints_of(*cluster, meant.id))
    if (cluster->alive(from) && !hint.ended && !passes(hint.phase))
      return still_at_work(shown, "it is " + std::string(to_string(hint.phase)) + " on node " +
                                      cluster->name_of(from));
  return {};
}

void remove_everywhere(Self* self, const Command& command, const NamedJob& meant) {
  const auto cluster = self->state.options.cluster->read();
  auto removal = std::make_shared<Removal>(Removal{command, meant});
  std::vector<NodeId> here;
  for (const NodeInfo& node : cluster->nodes) {
    if (cluster->alive(node.id))
      here.push_back(node.id);
    else
      removal->missing.push_back(
          {{"node", node.name}, {"reason", "it does not answer, and removes it when it is back"}});
  }
  removal->asked = here.size() + removal->missing.size();
  for (const NodeId& node : here)
    self->send(self->state.options.calls,
               CallRequest{node, "job.remove",
                           SharedBytes::from(to_bytes(as_bytes(meant.id.text()))), kRemoveTimeout,
                           [self, me = caf::actor(self), removal, node](const auto& answer) {
                             caf::anon_send(
                                 me, Request{[=] { on_removed(self, removal, node, answer); }});
                           }});
}

// A live node that holds the waiting job; none: it does not wait.
std::optional<NodeId> holder_of(Self* self, const JobId& id) {
  const auto cluster = self->state.options.cluster->read();
  for (const auto& [_, from, hint] : hints_of(*cluster, id))
    if (hint.phase == JobPhase::waiting && cluster->alive(from)) return from;
  return std::nullopt;
}

}  // namespace

void remove_job(Self* self, const Command& command) {
  const nlohmann::json arguments = arguments_of(command.arguments);
  const JobNames names = names_of(self);
  const auto meant = names.meant(field<std::string>(arguments, "job", ""), Purpose::remove);
  if (!meant) return command.answer(error_json(meant.error()));
  const bool force = field<bool>(arguments, "force", false);
  if (auto may = may_be_removed(self, *meant, names.shown(meant->id), force); !may)
    return command.answer(error_json(may.error()));
  const Job* own = job_at(self, meant->id);
  if (own && own->waiting && !force)
    return take_out(self, meant->id, [self, command, meant = *meant](const Result<void>& out) {
      if (!out) return command.answer(error_json(out.error().within("job " + meant.name)));
      remove_everywhere(self, command, meant);
    });
  const auto holder = own ? std::nullopt : holder_of(self, meant->id);
  if (!holder) return remove_everywhere(self, command, *meant);
  const std::string request =
      "job.rm\n" + meant->id.text() + "\n" + text_of({{"job", meant->id.text()}, {"force", force}});
  self->send(
      self->state.options.calls,
      CallRequest{*holder, "job.command", SharedBytes::from(to_bytes(as_bytes(request))),
                  kForwardTimeout, [answer = command.answer](const auto& text) {
                    answer(text ? std::string(as_text(text->view)) : error_json(text.error()));
                  }});
}

void remove_here(Self* self, const JobId& id, bool force, const CallReply& reply) {
  State& state = self->state;
  if (state.removed.contains(id)) return reply(SharedBytes{});
  const Job* job = job_at(self, id);
  if (!job) return reply(Error{ErrorCode::not_found, "no such job here"});
  if (state.ending.contains(id))
    return reply(Error{ErrorCode::wrong_state, "it is being removed already"});
  if (force ? is_under_way(*job) : is_at_work(*job))
    return reply(Error{ErrorCode::wrong_state,
                       "it is " + std::string(to_string(job->progress.phase)) + " there"});
  const bool started = job->waiting && has_started(self, id);
  state.options.route_bulk(id.low, nullptr, nullptr);
  end_first(self, id, [self, id, started, reply] { forget(self, id, started, reply); });
}

void leave_queue(Self* self, const JobId& id) {
  forget(self, id, true, [](const auto&) {});
}

void take_removed(Self* self, const JobId& id, ByteView bytes) {
  const nlohmann::json note = arguments_of(std::string(as_text(bytes)));
  const JobEnvironment& environment = *self->state.options.environment;
  const auto at = std::chrono::system_clock::from_time_t(field<std::time_t>(note, "at", 0));
  if (environment.options().clock->wall() - at > kRemembered) {
    (void)environment.options().files->remove(environment.job_folder(id));
    return;
  }
  const Gone gone{field<std::string>(note, "name", ""), field<bool>(note, "started", false)};
  self->state.removed[id] = gone;
  tell_removed(self, id, gone);
  clear_away(self, id, [](const auto&) {});
}

void remove_checkpoints(Self* self, const Command& command) {
  const nlohmann::json arguments = arguments_of(command.arguments);
  const auto id = parse_job_id(field<std::string>(arguments, "job", ""));
  if (!id) return command.answer(error_json({ErrorCode::invalid_argument, "not a job's id"}));
  std::optional<std::uint64_t> step;
  if (arguments.contains("step")) step = field<std::uint64_t>(arguments, "step", 0);
  const JobEnvironment* environment = self->state.options.environment;
  auto remove = [self, environment, id = *id, step, answer = command.answer] {
    auto begun = on_own_thread(self, [=](const auto&) {
      snapshot::CheckpointStore store(*environment->options().files,
                                      environment->checkpoint_root());
      const auto removed = store.remove_of(id, step);
      if (!removed) return answer(error_json(removed.error()));
      auto steps = nlohmann::json::array();
      for (const snapshot::CheckpointKey& key : *removed) steps.push_back(key.step);
      answer(ok_json({{"job", id.text()}, {"removed_steps", steps}}));
    });
    if (!begun) answer(error_json(begun.error()));
  };
  Job* job = job_at(self, *id);
  if (!job) return remove();
  if (!is_over(job->progress.phase))
    return command.answer(error_json(
        {ErrorCode::wrong_state,
         "job '" + job->spec.name + "' is " + std::string(to_string(job->progress.phase)) +
             " here, and goes on from its checkpoints: `gpunode job rm` removes a job that is "
             "stopped, with all it has"}));
  // Who gives its result to others has it no more.
  if (step && *step != job->spec.train.steps) return remove();
  self->state.options.route_bulk(id->low, nullptr, nullptr);
  end_first(self, *id, [self, id = *id, remove] {
    take_result_away(self, id);
    remove();
  });
}

}  // namespace gpunode::jobs::board
