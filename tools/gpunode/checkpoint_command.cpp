// `checkpoint ls`, `verify`, `export` and `rm`: straight on the files of a state directory, with or
// without a node. They may run beside the node that writes there: what is exported and turns out to
// be damaged is set aside, which that node notices; nothing else is changed.
#include <ctime>
#include <filesystem>
#include <optional>

#include "actors/job/job_environment.hpp"
#include "actors/job/job_names.hpp"
#include "runtime/snapshot/checkpoint_store.hpp"
#include "runtime/snapshot/export.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "runtime/storage/state_directory.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/output_file.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

using nlohmann::json;
using snapshot::CheckpointKey;

constexpr auto kFindTimeout = std::chrono::seconds(5);

struct Found {
  CheckpointKey key;
  Result<snapshot::Manifest> manifest;  // or why it cannot be read
  std::string name = {};                // of its job; empty: nothing here tells it
};

struct Shelf {
  storage::PosixFileSystem files;
  storage::Path root;
  snapshot::CheckpointStore store;

  explicit Shelf(const Invocation& invocation)
      : root(storage::Path(invocation.state()) / "checkpoints"), store(files, root) {}

  // All checkpoints, by job and age.
  Result<std::vector<Found>> all() {
    if (!files.exists(root.parent_path()))
      return Error{ErrorCode::not_found, "no state directory at " + root.parent_path().string() +
                                             ": name the node's directory with --state"};
    auto keys = store.list();
    if (!keys && keys.error().code == ErrorCode::not_found) return std::vector<Found>{};
    if (!keys) return keys.error();
    std::vector<Found> found;
    for (const CheckpointKey& key : *keys) {
      auto checkpoint = store.open(key);
      using Manifest = Result<snapshot::Manifest>;
      found.push_back({key, checkpoint ? Manifest(checkpoint->manifest()) : checkpoint.error()});
    }
    name(found);
    return found;
  }

 private:
  // After those of a job's checkpoints that can be read, else after the job itself.
  void name(std::vector<Found>& all) {
    std::map<JobId, std::string> names;
    for (const Found& found : all)
      if (found.manifest) names[found.key.job] = found.manifest->meta.job_name;
    for (Found& found : all) {
      if (!names.contains(found.key.job))
        if (auto spec = jobs::stored_manifest(files, root.parent_path(), found.key.job))
          names[found.key.job] = spec->name;
      found.name = names[found.key.job];
    }
  }
};

// Jobs of this directory that have checkpoints.
jobs::JobNames names_in(const Invocation& invocation, Shelf& shelf, const std::vector<Found>& all) {
  jobs::JobNames names;
  for (const Found& found : all) {
    const auto spec = jobs::stored_manifest(shelf.files, invocation.state(), found.key.job);
    names.add({found.key.job, found.name, spec ? spec->submitted : 0,
               spec ? spec->waited_as : std::string(), false});
  }
  return names;
}

// The job that a person means: the node of this directory knows of jobs on other nodes too, and
// without one what is on disk says it. Fails with not_found, invalid_argument.
Result<JobId> meant_job(const Invocation& invocation, Shelf& shelf, const std::vector<Found>& all,
                        jobs::Purpose purpose) {
  const std::string wanted = invocation.arguments.text("JOB");
  json arguments = {{"job", wanted}};
  if (purpose == jobs::Purpose::remove) arguments["purpose"] = "remove";
  const Answer known = ask_node(invocation, "job.find", arguments, kFindTimeout);
  if (known)
    if (auto id = jobs::parse_job_id(field<std::string>(known.body, "job", ""))) return *id;
  if (!known && known.error->code == ErrorCode::invalid_argument) return *known.error;
  const auto meant = names_in(invocation, shelf, all).meant(wanted, purpose);
  if (!meant && meant.error().code == ErrorCode::not_found)
    return Error{ErrorCode::not_found, "no durable checkpoint of job '" + wanted + "' in " +
                                           shelf.root.string() +
                                           "; `gpunode checkpoint ls` lists what is there"};
  if (!meant) return meant.error();
  return meant->id;
}

// Those that --step and the operand JOB ask for. Fails with not_found, invalid_argument.
Result<std::vector<Found>> chosen(const Invocation& invocation, Shelf& shelf,
                                  jobs::Purpose purpose = jobs::Purpose::look) {
  auto all = shelf.all();
  if (!all) return all;
  const std::string job = invocation.arguments.text("JOB");
  const bool of_step = invocation.arguments.has("--step");
  auto step = invocation.arguments.whole("--step", 0, 0, UINT64_MAX);
  if (!step) return step.error();
  std::optional<JobId> id;
  if (!job.empty()) {
    const auto meant = meant_job(invocation, shelf, *all, purpose);
    if (!meant) return meant.error();
    id = *meant;
  }
  std::vector<Found> list;
  for (Found& found : *all)
    if ((!id || found.key.job == *id) && (!of_step || found.key.step == *step))
      list.push_back(std::move(found));
  if (list.empty() && (id || of_step))
    return Error{ErrorCode::not_found,
                 "no durable checkpoint" +
                     (id ? " of job '" + job + "' (" + jobs::short_text(*id) + ")" : "") +
                     (of_step ? " of step " + std::to_string(*step) : "") + " in " +
                     shelf.root.string() + "; `gpunode checkpoint ls` lists what is there"};
  return list;
}

std::string time_text(std::int64_t unix_seconds) {
  std::time_t time = unix_seconds;
  std::tm parts{};
  char buffer[32];
  if (!localtime_r(&time, &parts) ||
      std::strftime(buffer, sizeof buffer, "%Y-%m-%d %H:%M:%S", &parts) == 0)
    return "?";
  return buffer;
}

json json_of(const Found& found, const Shelf& shelf) {
  json out = {{"job", found.key.job.text()},
              {"step", found.key.step},
              {"turn", found.key.history.turn},
              {"path", shelf.store.path_of(found.key).string()}};
  if (!found.name.empty()) out["name"] = found.name;
  if (found.manifest) {
    const snapshot::CheckpointMeta& meta = found.manifest->meta;
    out["bytes"] = found.manifest->size_bytes();
    out["state_digest"] = meta.state_digest.text();
    out["unix_seconds"] = meta.unix_seconds;
    out["samples"] = meta.sample_count;
  }
  if (!found.manifest) out["error"] = found.manifest.error().detail;
  return out;
}

std::string list_text(const json& answer, const Shelf& shelf) {
  std::vector<std::vector<std::string>> rows = {{"JOB", "NAME", "STEP", "SIZE", "WHEN", "PATH"}};
  for (const json& one : list(answer, "checkpoints")) {
    const bool whole = !one.contains("error");
    rows.push_back({word(one, "job").substr(0, 8), word(one, "name"), number(one, "step"),
                    whole ? human_bytes(field<double>(one, "bytes", 0)) : "damaged",
                    whole ? time_text(field<std::int64_t>(one, "unix_seconds", 0)) : "?",
                    word(one, "path")});
  }
  return rows.size() == 1 ? "no checkpoints in " + shelf.root.string() + "\n" : aligned(rows);
}

// "small (6b1d5e53) step 20"
std::string title_of(const json& one) {
  return word(one, "name") + " (" + word(one, "job").substr(0, 8) + ") step " + number(one, "step");
}

std::string verdict_text(const json& one) {
  return title_of(one) + (one.contains("error") ? ": DAMAGED: " + word(one, "error") : ": whole") +
         "\n";
}

}  // namespace

int run_checkpoint_ls(const Invocation& invocation) {
  Shelf shelf(invocation);
  auto all = shelf.all();
  if (!all) return fail(invocation, all.error());
  json found = json::array();
  for (const Found& one : *all) found.push_back(json_of(one, shelf));
  return tell(invocation, {{{"checkpoints", found}}, std::nullopt, kOk},
              [&](const json& answer) { return list_text(answer, shelf); });
}

int run_checkpoint_verify(const Invocation& invocation) {
  Shelf shelf(invocation);
  auto list = chosen(invocation, shelf);
  if (!list) return fail(invocation, list.error());
  json results = json::array();
  std::optional<Error> first_damage;
  std::size_t damaged = 0;
  for (const Found& found : *list) {
    Result<void> whole = found.manifest ? shelf.store.verify(found.key) : found.manifest.error();
    json one = json_of(found, shelf);
    one["whole"] = whole.has_value();
    if (!whole) {
      one["error"] = whole.error().detail;
      ++damaged;
      if (!first_damage) first_damage = whole.error().within(title_of(one));
    }
    if (!invocation.json())
      print(verdict_text(harmless_answer(one)));  // at once: a large one takes a while
    results.push_back(std::move(one));
  }
  if (invocation.json()) {
    print_json({{"checkpoints", results}}, first_damage);
  } else if (results.empty()) {
    print("no checkpoints in " + shelf.root.string() + "\n");
  } else if (first_damage) {
    return fail(invocation, {first_damage->code,
                             std::to_string(damaged) + " of " + std::to_string(results.size()) +
                                 (damaged == 1 ? " is" : " are") + " damaged, as told above"});
  }
  return first_damage ? kFailed : kOk;
}

namespace {

// A damaged one is out of the way of the next export.
Error set_aside(Shelf& shelf, const CheckpointKey& key, const Error& why) {
  if (why.code != ErrorCode::corrupted) return why;
  auto aside = shelf.store.set_aside(key, why.message());
  return {why.code, why.detail + "; " +
                        (aside ? "it is now kept in " + aside->path.string() +
                                     ", and the newest one that is left is exported next"
                               : aside.error().detail)};
}

// A job's result may be lost, or not be there yet: what is exported is not it then.
void warn_of_steps_that_lack(const Invocation& invocation, Shelf& shelf, const CheckpointKey& key) {
  auto spec = jobs::stored_manifest(shelf.files, invocation.state(), key.job);
  if (!spec || key.step >= spec->train.steps || invocation.arguments.has("--step")) return;
  if (const auto damaged = shelf.store.damaged(key.job))
    for (const auto& one : *damaged)
      if (one.key.step > key.step)
        warn("its checkpoint of step " + std::to_string(one.key.step) +
             " is damaged, and kept in " + one.path.string());
  warn("the newest checkpoint of job '" + spec->name + "' here is of step " +
       std::to_string(key.step) + ", and the job's last step is " +
       std::to_string(spec->train.steps) +
       ": it is not finished yet, or its result is not on this node's disk");
}

}  // namespace

int run_checkpoint_export(const Invocation& invocation) {
  std::string out = invocation.arguments.text("--out");
  if (out.empty())
    return fail(invocation, {ErrorCode::invalid_argument, "--out FILE is missing"}, kUsage);
  const auto path = output_file(invocation, out);
  if (!path) return fail(invocation, path.error());
  Shelf shelf(invocation);
  auto list = chosen(invocation, shelf);
  if (!list) return fail(invocation, list.error());
  const Found* newest = &list->back();
  auto checkpoint = shelf.store.open(newest->key);
  if (!checkpoint)
    return fail(invocation, set_aside(shelf, newest->key, checkpoint.error())
                                .within(title_of(json_of(*newest, shelf))));
  auto written = snapshot::export_weights(shelf.files, *checkpoint, *path);
  if (!written) return fail(invocation, set_aside(shelf, newest->key, written.error()));
  warn_of_steps_that_lack(invocation, shelf, newest->key);
  const json answer = {{"path", path->string()},
                       {"bytes", written->size_bytes},
                       {"sha256", written->sha256.text()},
                       {"job", newest->key.job.text()},
                       {"name", newest->name},
                       {"step", newest->key.step}};
  return tell(invocation, {answer, std::nullopt, kOk}, [](const json& told) {
    return aligned({{"path", word(told, "path")},
                    {"bytes", number(told, "bytes")},
                    {"sha256", word(told, "sha256")},
                    {"job", word(told, "name") + " (" + word(told, "job").substr(0, 8) + ")"},
                    {"step", number(told, "step")}});
  });
}

// The node of the directory does it, where one runs: it knows whether the job still needs them.
int run_checkpoint_rm(const Invocation& invocation) {
  const bool of_step = invocation.arguments.has("--step");
  if (of_step == invocation.arguments.has("--all"))
    return fail(invocation,
                {ErrorCode::invalid_argument,
                 "say which: --step N, or --all that this node has of the job"},
                kUsage);
  Shelf shelf(invocation);
  auto found = chosen(invocation, shelf, jobs::Purpose::remove);
  if (!found) return fail(invocation, found.error());
  const JobId id = found->front().key.job;
  json arguments = {{"job", id.text()}};
  if (of_step) arguments["step"] = found->front().key.step;
  Answer removed;
  if (storage::StateDirectory::in_use(shelf.files, invocation.state())) {
    removed = ask_node(invocation, "checkpoint.rm", arguments);
  } else {
    auto held = storage::StateDirectory::open(shelf.files, invocation.state());
    if (!held) return fail(invocation, held.error());
    const auto keys =
        shelf.store.remove_of(id, of_step ? std::optional(found->front().key.step) : std::nullopt);
    if (!keys) return fail(invocation, keys.error());
    json steps = json::array();
    for (const CheckpointKey& key : *keys) steps.push_back(key.step);
    removed.body = {{"job", id.text()}, {"removed_steps", steps}};
  }
  return tell(invocation, removed, [&](const json& body) {
    std::string steps;
    for (const json& step : list(body, "removed_steps"))
      steps += (steps.empty() ? "" : ", ") + step.dump();
    std::string text = "removed from this node: checkpoints of job " + jobs::short_text(id) +
                       " after step " + steps;
    if (body.contains("kept_on"))
      text += list(body, "kept_on").empty()
                  ? "; no other node that answers says that it has the job's result"
                  : "; its result is still on " + joined(list(body, "kept_on"));
    return text + "\n";
  });
}

}  // namespace gpunode::cli
