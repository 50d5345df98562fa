// Which jobs the job board knows, and which one a person means: those of this node, those that
// others tell of in the directory, and those of which only nodes told that are gone by now; and what
// this node tells the others of its own.
#include <algorithm>

#include "actors/job/detail/job_board_state.hpp"
#include "actors/job/job_line.hpp"
#include "actors/job/job_report.hpp"
#include "actors/json_answer.hpp"

namespace gpunode::jobs::board {

namespace {

bool makes_steps(JobPhase phase) {
  return !is_over(phase) && phase != JobPhase::stopped && phase != JobPhase::outsider &&
         phase != JobPhase::witness;
}

// One that ended in an earlier life of this node has them in its last report alone.
std::uint32_t member_count(const Job& job) {
  const auto names = field<std::vector<std::string>>(arguments_of(job.outcome), "members", {});
  return static_cast<std::uint32_t>(std::max(names.size(), job.progress.members.size()));
}

// Jobs that are no others under another id, whatever is said of them: those that are here, and those of
// the queue of which live nodes say that they wait there. Of one that starts just now a few say so a
// moment longer.
std::set<JobId> distinct_jobs(Self* self, const ClusterSnapshot& cluster,
                              const std::vector<HeardHint>& hints) {
  std::set<JobId> jobs;
  const std::set<JobId> begun = begun_jobs(self, hints);
  for (const auto& [id, _] : self->state.jobs)
    if (!begun.contains(id)) jobs.insert(id);
  for (const HeardHint& heard : hints)
    if (const auto id = parse_job_id(heard.id); id && heard.hint.phase == JobPhase::waiting &&
                                                cluster.alive(heard.from) && !begun.contains(*id))
      jobs.insert(*id);
  return jobs;
}

}  // namespace

bool is_at_work(const Job& job) {
  return job.actor && !job.progress.ended && makes_steps(job.progress.phase);
}

bool is_under_way(const Job& job) {
  const JobPhase phase = job.progress.phase;
  return is_at_work(job) && phase != JobPhase::paused && phase != JobPhase::forming &&
         phase != JobPhase::preparing;
}

JobNames names_of(Self* self) {
  JobNames names;
  const State& state = self->state;
  const auto cluster = state.options.cluster->read();
  const auto add_own = [&](const JobId& id, const Job& job) {
    names.add({id, job.spec.name, job.spec.submitted, job.spec.waited_as,
               is_at_work(job) || job.waiting});
  };
  // What this node knows itself comes first: nobody else names its jobs.
  for (const auto& [id, job] : state.jobs) add_own(id, job);
  state.last_hints.add_to(names);
  const std::vector<HeardHint> hints = hints_of_others(*cluster);
  for (const auto& [id_text, from, hint] : hints) {
    const auto id = parse_job_id(id_text);
    if (!id) continue;
    // Where it is over here, there it soon is, too.
    const Job* own = job_at(self, *id);
    const bool over = own && own->progress.phase == JobPhase::finished;
    const bool works = !hint.ended && makes_steps(hint.phase) && cluster->alive(from) && !over;
    names.add({*id, hint.name, hint.submitted, hint.waited_as, works});
  }
  const std::set<JobId> made = made_elsewhere(self, *cluster, hints);
  const std::set<JobId> distinct = distinct_jobs(self, *cluster, hints);
  for (const auto& [id_text, from, hint] : hints)
    if (const auto id = parse_job_id(id_text);
        id && hint.phase == JobPhase::removed && !made.contains(*id) &&
        !(hint.reason == kStarted && distinct.contains(*id)) &&
        is_proven(self, *id, {id_text, from, hint}))
      names.forget(*id);
  for (const auto& [id, _] : state.removed) names.forget(id);
  names.forget_started(distinct);
  // Whatever others say, what is being trained here is.
  for (const auto& [id, job] : state.jobs)
    if (is_under_way(job) || state.overruled.contains(id)) add_own(id, job);
  return names;
}

void list_jobs(Self* self, const Command& command) {
  auto cluster = self->state.options.cluster->read();
  auto list = nlohmann::json::array();
  for (const auto& [id, job] : self->state.jobs) {
    list.push_back(job.outcome.empty() ? job_line(id, job.spec.name, job.progress, *cluster)
                                       : ended_line(job.outcome));
    add_origin(list.back(), job.spec.submitted, job.spec.submitter, *cluster);
  }
  // What is shown is known from here on, also where its nodes are gone a moment later.
  for (const auto& [id, from, hint] : hints_of_others(*cluster))
    if (const auto parsed = parse_job_id(id);
        parsed && cluster->alive(from) && hint.phase != JobPhase::removed)
      self->state.last_hints.on_hint(now(self), *parsed, from, hint);
  add_jobs_of_others(list, *cluster);
  self->state.last_hints.add_to(list, *cluster, now(self));
  const JobNames names = names_of(self);
  const auto id_of = [](const nlohmann::json& line) {
    return parse_job_id(line.value("job", "")).value_or(JobId{});
  };
  const auto wall = self->state.options.environment->options().clock->wall();
  for (nlohmann::json& line : list) {
    line["shown_as"] = names.shown(id_of(line));
    tell_of_the_end(line);
    add_ages(line, wall);
  }
  auto& lines = list.get_ref<nlohmann::json::array_t&>();
  std::erase_if(lines, [&](const auto& line) { return !names.knows(id_of(line)); });
  std::ranges::stable_sort(lines, std::greater{}, [](const nlohmann::json& line) {
    return std::pair(line.value("submitted", 0.0), line.value("job", ""));
  });
  command.answer(ok_json({{"jobs", list}}));
}

void publish_hint(Self* self, const Job& job) {
  const JobProgress& progress = job.progress;
  const JobHint hint{job.spec.name,
                     progress.reason,
                     progress.phase,
                     progress.step,
                     progress.total_steps,
                     progress.view_id,
                     member_count(job),
                     job.spec.nodes,
                     progress.ended,
                     job.spec.labels,
                     progress.loss.value_or(0),
                     job.spec.submitted,
                     job.spec.submitter,
                     job.spec.waited_as,
                     {},
                     progress.has_result};
  tell_hint(self, progress.id, hint, job.spec.submitted);
}

void tell_hint(Self* self, const JobId& id, const std::optional<JobHint>& hint,
               std::int64_t since) {
  State& state = self->state;
  state.told_ends.drop(id);
  const auto set = [&](const JobId& job, std::optional<Bytes> value) {
    self->send(state.options.directory_writer, SetEntry{hint_key(job), std::move(value)});
  };
  if (!hint) return set(id, std::nullopt);
  Bytes value = encode(*hint);
  const std::size_t bytes = value.size() + hint_key(id).size();
  set(id, std::move(value));
  if (hint->ended)
    for (const JobId& old : state.told_ends.add(id, since, bytes)) set(old, std::nullopt);
}

}  // namespace gpunode::jobs::board
