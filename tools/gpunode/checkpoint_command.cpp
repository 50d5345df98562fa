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
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

using nlohmann::json;
using snapshot::CheckpointKey;

constexpr auto kFindTimeout = std::chrono::seconds(5);

struct Found {
  CheckpointKey key;
  Result<snapshot::Manifest> manifest;  // or why it cannot be read
};

struct Shelf {
  storage::PosixFileSystem files;
  storage::Path root;
  snapshot::CheckpointStore store;

  explicit Shelf(const Invocation& invocation)
      : root(storage::Path(invocation.state()) / "checkpoints"), store(files, root) {}

  // All checkpoints, by job and age.
  Result<std::vector<Found>> all() const {
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
    return found;
  }
};

// Jobs of this directory, from their manifests and those of their checkpoints that can be read.
jobs::JobNames names_in(const Invocation& invocation, Shelf& shelf, const std::vector<Found>& all) {
  jobs::JobNames names;
  for (const Found& found : all) {
    const JobId& id = found.key.job;
    if (auto spec = jobs::stored_manifest(shelf.files, invocation.state(), id))
      names.add({id, spec->name, spec->submitted, spec->waited_as, false});
    else if (found.manifest)
      names.add({id, found.manifest->meta.job_name, 0, "", false});
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
  if (found.manifest) {
    const snapshot::CheckpointMeta& meta = found.manifest->meta;
    out["name"] = meta.job_name;
    out["bytes"] = found.manifest->size_bytes();
    out["state_digest"] = meta.state_digest.text();
    out["unix_seconds"] = meta.unix_seconds;
    out["samples"] = meta.sample_count;
  }
  if (!found.manifest) out["error"] = found.manifest.error().detail;
  return out;
}

}  // namespace

int run_checkpoint_ls(const Invocation& invocation) {
  Shelf shelf(invocation);
  auto all = shelf.all();
  if (!all) return fail(invocation, all.error());
  if (invocation.json()) {
    json list = json::array();
    for (const Found& found : *all) list.push_back(json_of(found, shelf));
    print_json({{"checkpoints", list}});
    return kOk;
  }
  std::vector<std::vector<std::string>> rows = {{"JOB", "NAME", "STEP", "SIZE", "WHEN", "PATH"}};
  for (const Found& found : *all)
    rows.push_back({found.key.job.text().substr(0, 8),
                    found.manifest ? found.manifest->meta.job_name : "?",
                    std::to_string(found.key.step),
                    found.manifest ? human_bytes(static_cast<double>(found.manifest->size_bytes()))
                                   : "damaged",
                    found.manifest ? time_text(found.manifest->meta.unix_seconds) : "?",
                    shelf.store.path_of(found.key).string()});
  print(rows.size() == 1 ? "no checkpoints in " + shelf.root.string() + "\n" : aligned(rows));
  return kOk;
}

int run_checkpoint_verify(const Invocation& invocation) {
  Shelf shelf(invocation);
  auto list = chosen(invocation, shelf);
  if (!list) return fail(invocation, list.error());
  json results = json::array();
  std::optional<Error> first_damage;
  for (const Found& found : *list) {
    Result<void> whole = found.manifest ? shelf.store.verify(found.key) : found.manifest.error();
    json one = json_of(found, shelf);
    one["whole"] = whole.has_value();
    if (!whole) {
      one["error"] = whole.error().detail;
      if (!first_damage) first_damage = whole.error().within(found.key.text());
    }
    results.push_back(one);
    if (!invocation.json())
      print(found.key.text() + ": " + (whole ? "whole" : "DAMAGED: " + whole.error().detail) +
            "\n");
  }
  if (invocation.json()) {
    print_json({{"checkpoints", results}}, first_damage);
  } else if (results.empty()) {
    print("no checkpoints in " + shelf.root.string() + "\n");
  } else if (first_damage) {
    return fail(invocation,
                {first_damage->code, first_damage->detail + ", or restore the file from a copy"});
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
  warn("the newest checkpoint of job '" + spec->name + "' here is of step " +
       std::to_string(key.step) + ", and the job's last step is " +
       std::to_string(spec->train.steps) + ": its result is not on this node's disk");
}

}  // namespace

int run_checkpoint_export(const Invocation& invocation) {
  std::string out = invocation.arguments.text("--out");
  if (out.empty())
    return fail(invocation, {ErrorCode::invalid_argument, "--out FILE is missing"}, kUsage);
  Shelf shelf(invocation);
  auto list = chosen(invocation, shelf);
  if (!list) return fail(invocation, list.error());
  const Found* newest = &list->back();
  auto checkpoint = shelf.store.open(newest->key);
  if (!checkpoint)
    return fail(invocation,
                set_aside(shelf, newest->key, checkpoint.error()).within(newest->key.text()));
  storage::Path path = std::filesystem::absolute(out).lexically_normal();
  auto written = snapshot::export_weights(shelf.files, *checkpoint, path);
  if (!written) return fail(invocation, set_aside(shelf, newest->key, written.error()));
  warn_of_steps_that_lack(invocation, shelf, newest->key);
  if (invocation.json())
    print_json({{"path", path.string()},
                {"bytes", written->size_bytes},
                {"sha256", written->sha256.text()},
                {"job", newest->key.job.text()},
                {"name", checkpoint->manifest().meta.job_name},
                {"step", newest->key.step}});
  else
    print(aligned({{"path", path.string()},
                   {"bytes", std::to_string(written->size_bytes)},
                   {"sha256", written->sha256.text()},
                   {"job", checkpoint->manifest().meta.job_name + " (" +
                               jobs::short_text(newest->key.job) + ")"},
                   {"step", std::to_string(newest->key.step)}}));
  return kOk;
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
    return "removed from this node: checkpoints of job " + jobs::short_text(id) + " after step " +
           steps + "; other nodes keep theirs\n";
  });
}

}  // namespace gpunode::cli
