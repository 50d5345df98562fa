// What people ask of the jobs of a node: start one, list them, show one.
#include <caf/actor_system.hpp>
#include <caf/send.hpp>

#include "actors/json_answer.hpp"
#include "actors/node/detail/jobs_state.hpp"
#include "actors/node/job_file.hpp"
#include "actors/node/job_line.hpp"
#include "actors/node/job_note_codec.hpp"
#include "actors/node/job_submission.hpp"

namespace gpunode::node::jobs {

std::optional<JobId> find_job(Self* self, const std::string& wanted) {
  std::optional<JobId> found;
  for (const auto& [id, job] : self->state.jobs) {
    bool named = job.spec.name == wanted;
    bool prefix = wanted.size() >= 4 && id.text().rfind(wanted, 0) == 0;
    if (!named && !prefix) continue;
    if (!found || job.actor) found = id;
  }
  return found;
}

namespace {

void list_jobs(Self* self, const Command& command) {
  auto cluster = self->state.options.cluster->read();
  auto list = nlohmann::json::array();
  for (const auto& [id, job] : self->state.jobs) {
    if (job.outcome.empty()) {
      list.push_back(job_line(id, job.spec.name, job.progress, *cluster));
    } else {
      nlohmann::json line = arguments_of(job.outcome);
      line.erase("events");
      list.push_back(line);
    }
  }
  add_jobs_of_others(list, *cluster);
  command.answer(ok_json({{"jobs", list}}));
}

void forward_to_owner(Self* self, const Command& command, const std::string& wanted) {
  auto cluster = self->state.options.cluster->read();
  for (const DirectoryEntry& entry : cluster->entries) {
    if (entry.key.rfind("job/", 0) != 0 || !cluster->alive(entry.owner)) continue;
    auto note = decode_note(entry.value);
    if (!note || !std::holds_alternative<JobHint>(*note)) continue;
    if (std::get<JobHint>(*note).name != wanted && entry.key.rfind("job/" + wanted, 0) != 0)
      continue;
    std::string request = command.name + "\n" + wanted;
    self->send(
        self->state.options.calls,
        CallRequest{entry.owner, "job.command", SharedBytes::from(to_bytes(as_bytes(request))),
                    std::chrono::seconds(10), [answer = command.answer](Result<SharedBytes> text) {
                      answer(text ? std::string(as_text(text->view)) : error_json(text.error()));
                    }});
    return;
  }
  command.answer(error_json(
      {ErrorCode::not_found, "no job '" + wanted + "' is known here; `gpunode jobs` lists them"}));
}

}  // namespace

void show_job(Self* self, const Command& command, const std::string& wanted, bool forward) {
  auto id = find_job(self, wanted);
  if (!id && forward) return forward_to_owner(self, command, wanted);
  if (!id)
    return command.answer(error_json({ErrorCode::not_found, "no job '" + wanted + "' is here"}));
  const Job& job = self->state.jobs.at(*id);
  const JobEnvironment* environment = self->state.options.environment;
  caf::actor_system* system = &self->system();
  auto finish = [system, environment, spec = job.spec, name = command.name,
                 answer = command.answer](std::string report) {
    if (name != "job.show") return answer(ok_json(arguments_of(report)));
    system->spawn<caf::detached>([=] { answer(with_proof(*environment, spec, report)); });
  };
  if (job.actor)
    self->send(job.actor, Command{command.name, "{}", finish});
  else if (!job.outcome.empty())
    finish(job.outcome);
  else
    finish(
        ok_json(job_line(*id, job.spec.name, job.progress, *self->state.options.cluster->read())));
}

namespace {

void train(Self* self, const Command& command) {
  nlohmann::json arguments = arguments_of(command.arguments);
  auto spec = parse_job_file(field<std::string>(arguments, "job_file", ""),
                             field<std::string>(arguments, "directory", "/"));
  if (!spec) return command.answer(error_json(spec.error()));
  if (auto model = self->state.options.environment->make_model(*spec); !model)
    return command.answer(error_json(model.error()));
  for (const auto& [id, job] : self->state.jobs)
    if (job.actor && job.spec.name == spec->name && !job.progress.ended)
      return command.answer(
          error_json({ErrorCode::already_exists,
                      "a job named '" + spec->name + "' is running; give this one another name"}));
  spawn_submission(self->system(),
                   {std::move(*spec), self->state.options.self, self->state.options.cluster,
                    self->state.options.calls, command.answer});
}

}  // namespace

void on_command(Self* self, const Command& command) {
  std::string wanted = field<std::string>(arguments_of(command.arguments), "job", "");
  if (command.name == "train") return train(self, command);
  if (command.name == "jobs") return list_jobs(self, command);
  show_job(self, command, wanted, true);
}

}  // namespace gpunode::node::jobs
