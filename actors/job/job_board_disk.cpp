// The job board towards this node's disk: what jobs of its earlier lives have left there.
#include <caf/actor_system.hpp>

#include <optional>
#include <utility>

#include "actors/job/detail/job_board_state.hpp"
#include "actors/job/job_line.hpp"
#include "actors/json_answer.hpp"
#include "runtime/base/log.hpp"
#include "runtime/snapshot/checkpoint_store.hpp"

namespace gpunode::jobs::board {

namespace {

// Removes what a crash left half written; before any job writes again.
void clean_up_checkpoints(Self* self) {
  const JobEnvironment& environment = *self->state.options.environment;
  snapshot::CheckpointStore store(*environment.options().files, environment.checkpoint_root());
  if (auto done = store.clean_up(); !done && done.error().code != ErrorCode::not_found)
    log::warning("jobs", "cannot tidy the checkpoints: " + done.error().message());
}

// The result of a job on this node's disk: the checkpoint of its last step that the job's report
// tells of.
std::optional<job::Checkpoint> result_on_disk(Self* self, const JobId& id,
                                              const nlohmann::json& report, std::uint64_t step) {
  const JobEnvironment& environment = *self->state.options.environment;
  snapshot::CheckpointStore store(*environment.options().files, environment.checkpoint_root());
  auto keys = store.list(id);
  if (!keys) return std::nullopt;
  for (const snapshot::CheckpointKey& key : *keys) {
    if (key.step != step) continue;
    auto checkpoint = store.open(key);
    if (!checkpoint) continue;
    const snapshot::CheckpointMeta& meta = checkpoint->manifest().meta;
    if (meta.state_digest.text() == field<std::string>(report, "state_digest", ""))
      return job::Checkpoint{
          step, meta.state_digest, {meta.sample_sum, meta.sample_count}, key.history};
  }
  return std::nullopt;
}

// One that ended in an earlier life of this node: shown, and its result given to who lacks it.
void take_outcome(Self* self, const JobId& id, const job::JobSpec& spec, std::string outcome) {
  const nlohmann::json report = arguments_of(outcome);
  Job& job = self->state.jobs[id];
  job.spec = spec;
  job.outcome = std::move(outcome);
  job.progress = progress_of(id, job.outcome);
  if (report.contains("loss")) job.progress.loss = field<double>(report, "loss", 0);
  publish_hint(self, job);
  // One that failed here others may go on with, of which more is to be heard.
  if (job.progress.phase != JobPhase::finished) return;
  const auto result = result_on_disk(self, id, report, spec.train.steps);
  if (!result) {
    if (field<nlohmann::json>(report, "checkpoint", {}).is_object()) {
      job.progress.reason = kNoResult;
      publish_hint(self, job);
      log::warning("jobs", spec.name + " is finished, and " + job.progress.reason +
                               ": who lacks it gets it from other nodes alone");
    }
    return;
  }
  if (auto started = start_job(self, id, spec, Part::holder, *result); !started)
    log::warning(
        "jobs", spec.name + ": its result cannot be given to others: " + started.error().message());
}

bool has_votes(Self* self, const JobId& id) {
  const auto votes = record(self, id, kVotes).load();
  return votes && votes->has_value();
}

}  // namespace

void load_jobs(Self* self) {
  clean_up_checkpoints(self);
  const JobEnvironment& environment = *self->state.options.environment;
  auto folders = environment.options().files->list(environment.options().state / "jobs");
  if (!folders) return;  // no job yet
  for (const storage::Entry& entry : *folders) {
    auto parsed = parse_job_id(entry.name);
    if (!parsed) continue;
    JobId id = *parsed;
    if (auto removed = record(self, id, kRemoved).load(); removed && *removed) {
      take_removed(self, id, **removed);
      continue;
    }
    auto spec = stored_manifest(*environment.options().files, environment.options().state, id);
    if (!spec && spec.error().code == ErrorCode::not_found && has_votes(self, id))
      continue;  // it was removed, which was taken back
    if (!spec) {
      log::warning("jobs", "job " + entry.name + ": " + spec.error().message());
      continue;
    }
    const auto waits = record(self, id, kWaiting).load();
    if (!waits || *waits || spec->candidates.empty()) {
      Result<void> loaded = Error{ErrorCode::corrupted, "its place in the queue is lost"};
      if (!waits) loaded = waits.error();
      if (waits && *waits) loaded = load_waiting(self, id, std::move(*spec), **waits);
      if (!loaded) log::warning("jobs", "job " + entry.name + ": " + loaded.error().message());
      continue;
    }
    auto outcome = record(self, id, kOutcome).load();
    if (outcome && *outcome) {
      take_outcome(self, id, *spec, std::string(as_text(**outcome)));
      continue;
    }
    auto witness = record(self, id, kWitness).load();
    Part part = witness && *witness ? Part::witness : Part::joiner;
    if (auto started = start_job(self, id, *spec, part); !started) {
      log::warning("jobs", "job " + entry.name + ": " + started.error().message());
      // Shown, not remembered: the next start of the node tries again.
      Job& job = self->state.jobs[id];
      job.progress.id = id;
      job.progress.phase = JobPhase::failed;
      job.progress.reason = started.error().message();
      job.progress.total_steps = spec->train.steps;
      job.progress.ended = true;
      job.spec = std::move(*spec);
    }
  }
}

}  // namespace gpunode::jobs::board
