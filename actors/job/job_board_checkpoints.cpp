// How checkpoints of a job go for good at this node, by order of its owner.
#include <algorithm>

#include "actors/job/detail/job_board_state.hpp"
#include "actors/job/job_line.hpp"
#include "actors/json_answer.hpp"
#include "runtime/base/log.hpp"
#include "runtime/snapshot/checkpoint_store.hpp"

namespace gpunode::jobs::board {

namespace {

nlohmann::json nodes_with_result(Self* self, const JobId& id) {
  const auto cluster = self->state.options.cluster->read();
  auto names = nlohmann::json::array();
  for (const HeardHint& heard : hints_of(*cluster, id))
    if (cluster->alive(heard.from) && has_result(heard.hint))
      names.push_back(cluster->name_of(heard.from));
  return names;
}

// Of a job that is over: its report says from now on that its result is not here.
void take_result_away(Self* self, const JobId& id) {
  Job& job = self->state.jobs.at(id);
  job.progress.reason = kNoResult;
  job.progress.has_result = false;
  publish_hint(self, job);
  storage::DurableRecord outcome = record(self, id, kOutcome);
  const auto stored = outcome.load();
  if (!stored || !*stored) return;
  nlohmann::json report = arguments_of(std::string(as_text(**stored)));
  report.erase("checkpoint");
  report.erase("durable");
  report["reason"] = kNoResult;
  job.outcome = text_of(report);
  if (auto kept = outcome.store(as_bytes(job.outcome)); !kept)
    log::warning("jobs", job.spec.name + ": " + kept.error().message());
}

}  // namespace

void remove_checkpoints(Self* self, const Command& command) {
  const nlohmann::json arguments = arguments_of(command.arguments);
  const auto id = parse_job_id(field<std::string>(arguments, "job", ""));
  if (!id) return command.answer(error_json({ErrorCode::invalid_argument, "not a job's id"}));
  std::optional<std::uint64_t> step;
  if (arguments.contains("step")) step = field<std::uint64_t>(arguments, "step", 0);
  const JobEnvironment* environment = self->state.options.environment;
  Job* job = job_at(self, *id);
  // Without its result who has it by their own word is told, too.
  std::optional<nlohmann::json> kept_on;
  if (job && job->progress.phase == JobPhase::finished && (!step || *step == job->spec.train.steps))
    kept_on = nodes_with_result(self, *id);
  auto remove = [self, environment, id = *id, step, kept_on, answer = command.answer] {
    auto begun = on_own_thread(self, [=](const auto&) {
      snapshot::CheckpointStore store(*environment->options().files,
                                      environment->checkpoint_root());
      const auto removed = store.remove_of(id, step);
      if (!removed) return answer(error_json(removed.error()));
      auto steps = nlohmann::json::array();
      for (const snapshot::CheckpointKey& key : *removed) steps.push_back(key.step);
      nlohmann::json body = {{"job", id.text()}, {"removed_steps", steps}};
      if (kept_on) body["kept_on"] = *kept_on;
      answer(ok_json(std::move(body)));
    });
    if (!begun) answer(error_json(begun.error()));
  };
  if (!job) return remove();
  if (self->state.ending.contains(*id))
    return command.answer(error_json({ErrorCode::wrong_state, "the job is being removed already"}));
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
