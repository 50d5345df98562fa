#include "runtime/snapshot/checkpoint_store.hpp"

#include <algorithm>
#include <cstdio>
#include <set>

#include "runtime/base/fault_point.hpp"
#include "runtime/snapshot/detail/shard_file.hpp"
#include "runtime/snapshot/manifest_codec.hpp"
#include "runtime/snapshot/safetensors.hpp"

namespace gpunode::snapshot {
namespace {

using storage::Entry;
using storage::EntryKind;
using storage::Path;

constexpr TensorPart kParts[] = {TensorPart::weight, TensorPart::first_moment,
                                 TensorPart::second_moment};

std::span<const float> values_of(const ParameterView& parameter, TensorPart part) {
  if (part == TensorPart::first_moment) return parameter.first_moment;
  if (part == TensorPart::second_moment) return parameter.second_moment;
  return parameter.weight;
}

// One shard to be: which parameters' tensors of a part it takes.
struct ShardPlan {
  TensorPart part = TensorPart::weight;
  std::vector<std::size_t> parameters;
};

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

Error refused(const std::string& why) {
  return Error{ErrorCode::invalid_argument, "checkpoint: " + why};
}

// A state that could not be read back is refused before a byte is written.
Result<void> check_state(const CheckpointMeta& meta, const StateView& state) {
  std::set<std::string_view> names;
  for (const ParameterView& parameter : state.parameters) {
    if (parameter.name.empty() || parameter.name.size() > 1024 || !is_printable(parameter.name) ||
        parameter.name == "__metadata__")
      return refused("a parameter's name must be 1 to 1024 printable ASCII characters");
    if (!names.insert(parameter.name).second)
      return refused("two parameters named " + parameter.name);
    std::optional<std::uint64_t> bytes = tensor_bytes(ElementType::f32, parameter.shape);
    if (!bytes || parameter.shape.size() > kSafetensorsRankLimit ||
        parameter.weight.size_bytes() != *bytes)
      return refused("values and shape of " + parameter.name + " do not match");
    for (TensorPart part : {TensorPart::first_moment, TensorPart::second_moment})
      if (auto values = values_of(parameter, part);
          !values.empty() && values.size_bytes() != *bytes)
        return refused("moments and shape of " + parameter.name + " do not match");
  }
  for (const auto& [key, value] : meta.model.settings)
    if (!is_printable(key) || !is_printable(value))
      return refused("model setting " + key + " is not printable ASCII");
  return {};
}

std::vector<ShardPlan> plan_shards(const StateView& state, std::uint64_t shard_bytes) {
  std::vector<ShardPlan> plans;
  for (TensorPart part : kParts) {
    std::uint64_t filled = 0;
    bool open = false;
    for (std::size_t i = 0; i < state.parameters.size(); ++i) {
      std::uint64_t bytes = values_of(state.parameters[i], part).size_bytes();
      if (bytes == 0 && part != TensorPart::weight) continue;
      if (!open || filled >= shard_bytes) {
        plans.push_back({part, {}});
        filled = 0;
        open = true;
      }
      plans.back().parameters.push_back(i);
      filled += bytes;
    }
  }
  return plans;
}

Result<ShardRecord> write_shard(storage::FileSystem& files, const Path& folder,
                                const StateView& state, const ShardPlan& plan, int number) {
  std::vector<TensorEntry> tensors;
  std::map<std::string_view, std::span<const float>> values;
  for (std::size_t i : plan.parameters) {
    const ParameterView& parameter = state.parameters[i];
    tensors.push_back({parameter.name, ElementType::f32, parameter.shape, 0, 0});
    values.emplace(parameter.name, values_of(parameter, plan.part));
  }
  SafetensorsHeader header = plan_safetensors(std::move(tensors), {});
  char suffix[32];
  std::snprintf(suffix, sizeof suffix, "-%03d.safetensors", number);
  std::string name = std::string(to_string(plan.part)) + suffix;
  Result<detail::ShardWriter> writer = detail::ShardWriter::create(files, folder / name);
  if (!writer) return writer.error();
  Bytes head = encode_safetensors_header(header);
  if (head.size() > kSafetensorsHeaderLimitBytes)
    return refused("too many or too long parameter names for one shard: use smaller shards");
  if (Result<void> done = writer->append(head); !done) return done.error();
  for (const TensorEntry& tensor : header.tensors)
    if (Result<void> done = writer->append(bytes_of(values.at(tensor.name))); !done)
      return done.error();
  Result<ShardRecord> record = writer->finish();
  if (!record) return record.error();
  record->file = std::move(name);
  record->part = plan.part;
  return record;
}

std::optional<JobId> parse_job(std::string_view text) {
  Bytes raw = from_hex(text);
  if (raw.size() != 16) return std::nullopt;
  JobId job;
  for (int i = 0; i < 8; ++i) {
    job.high = job.high << 8 | std::to_integer<std::uint64_t>(raw[i]);
    job.low = job.low << 8 | std::to_integer<std::uint64_t>(raw[8 + i]);
  }
  if (job.text() != text) return std::nullopt;
  return job;
}

}  // namespace

std::vector<CheckpointKey> expired(std::vector<CheckpointKey> keys, const Retention& retention) {
  std::sort(keys.begin(), keys.end());
  std::size_t newest = std::max<std::size_t>(1, retention.newest);
  std::vector<CheckpointKey> gone;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    // Among those of its own job that are younger.
    auto last = std::find_if(keys.begin() + i, keys.end(),
                             [&](const CheckpointKey& key) { return key.job != keys[i].job; });
    bool is_new = static_cast<std::size_t>(last - keys.begin()) - i <= newest;
    bool is_marked = retention.every_steps != 0 && keys[i].step % retention.every_steps == 0;
    if (!is_new && !is_marked) gone.push_back(keys[i]);
  }
  return gone;
}

Result<Manifest> CheckpointStore::write(const CheckpointMeta& meta, const StateView& state) {
  if (Result<void> done = check_state(meta, state); !done) return done.error();
  Path target = path_of(meta.key);
  Path folder = target.parent_path();
  std::string what = "checkpoint of step " + std::to_string(meta.key.step);
  if (files_->exists(target))
    return Error{ErrorCode::already_exists, what + ": " + target.string() + " is there already"};
  if (Result<void> done = files_->create_folder(folder); !done) return done.error().within(what);
  std::uint64_t needed = 1u << 20;
  for (const ParameterView& parameter : state.parameters)
    for (TensorPart part : kParts) needed += values_of(parameter, part).size_bytes();
  if (Result<std::uint64_t> free = files_->free_bytes(folder); free && *free < needed)
    return Error{ErrorCode::disk_full, what + " needs " + std::to_string(needed) +
                                           " bytes and the disk of " + folder.string() + " has " +
                                           std::to_string(*free) +
                                           ": free some space, or keep fewer checkpoints"};
  Path temporary = folder / (".tmp-" + meta.key.text());
  Result<Manifest> written = write_parts(meta, state, temporary);
  if (written) {
    Result<void> renamed = files_->rename(temporary, target);
    if (renamed) {
      fault_point("checkpoint.renamed", meta.key.step);
      renamed = files_->sync_folder(folder);
      // A name that may vanish with the power must not be seen as durable.
      if (!renamed) (void)files_->remove(target);
    }
    if (!renamed) written = renamed.error();
  }
  if (!written) {
    if (files_->exists(temporary)) (void)files_->remove(temporary);
    return written.error().within(what);
  }
  return written;
}

Result<Manifest> CheckpointStore::write_parts(const CheckpointMeta& meta, const StateView& state,
                                              const Path& temporary) {
  if (files_->exists(temporary))
    if (Result<void> done = files_->remove(temporary); !done) return done.error();
  if (Result<void> done = files_->create_folder(temporary); !done) return done.error();
  Manifest manifest;
  manifest.meta = meta;
  for (const ParameterView& parameter : state.parameters)
    manifest.parameters.push_back({parameter.name, ElementType::f32, parameter.shape, -1, -1, -1});
  int number = 0;
  for (const ShardPlan& plan : plan_shards(state, options_.shard_bytes)) {
    if (!manifest.shards.empty() && manifest.shards.back().part != plan.part) number = 0;
    Result<ShardRecord> shard = write_shard(*files_, temporary, state, plan, number++);
    if (!shard) return shard.error();
    auto index = static_cast<std::int32_t>(manifest.shards.size());
    for (std::size_t i : plan.parameters) {
      ParameterRecord& parameter = manifest.parameters[i];
      (plan.part == TensorPart::weight         ? parameter.weight_shard
       : plan.part == TensorPart::first_moment ? parameter.first_moment_shard
                                               : parameter.second_moment_shard) = index;
    }
    manifest.shards.push_back(std::move(*shard));
    fault_point("checkpoint.shard", meta.key.step);
  }
  Result<std::unique_ptr<storage::WritableFile>> file = files_->write_new(temporary / "manifest");
  if (!file) return file.error();
  Bytes bytes = encode_manifest(manifest);
  if (Result<void> done = (*file)->append(bytes); !done) return done.error();
  if (Result<void> done = (*file)->sync(); !done) return done.error();
  if (Result<void> done = files_->sync_folder(temporary); !done) return done.error();
  fault_point("checkpoint", meta.key.step);
  return manifest;
}

Result<std::vector<CheckpointKey>> CheckpointStore::list(const JobId& job) const {
  Result<std::vector<Entry>> entries = files_->list(root_ / job.text());
  if (!entries && entries.error().code == ErrorCode::not_found) return std::vector<CheckpointKey>{};
  if (!entries) return entries.error().within("checkpoints");
  std::vector<CheckpointKey> keys;
  for (const Entry& entry : *entries)
    if (entry.kind == EntryKind::folder)
      if (std::optional<CheckpointKey> key = CheckpointKey::parse(job, entry.name))
        keys.push_back(*key);
  std::sort(keys.begin(), keys.end());
  return keys;
}

Result<std::vector<CheckpointKey>> CheckpointStore::list() const {
  Result<std::vector<Entry>> entries = files_->list(root_);
  if (!entries && entries.error().code == ErrorCode::not_found) return std::vector<CheckpointKey>{};
  if (!entries) return entries.error().within("checkpoints");
  std::vector<CheckpointKey> all;
  for (const Entry& entry : *entries) {
    std::optional<JobId> job = parse_job(entry.name);
    if (!job || entry.kind != EntryKind::folder) continue;
    Result<std::vector<CheckpointKey>> keys = list(*job);
    if (!keys) return keys.error();
    all.insert(all.end(), keys->begin(), keys->end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

Result<Checkpoint> CheckpointStore::open(const CheckpointKey& key) const {
  Result<Checkpoint> checkpoint = Checkpoint::open(*files_, path_of(key));
  if (checkpoint && checkpoint->manifest().meta.key != key)
    return Error{ErrorCode::corrupted, path_of(key).string() + ": the manifest is of checkpoint " +
                                           checkpoint->manifest().meta.key.folder()};
  return checkpoint;
}

Result<void> CheckpointStore::verify(const CheckpointKey& key) const {
  Result<Checkpoint> checkpoint = open(key);
  if (!checkpoint) return checkpoint.error();
  return checkpoint->verify();
}

Result<void> CheckpointStore::remove(const CheckpointKey& key) {
  Path target = path_of(key);
  Path trash = target.parent_path() / (".trash-" + key.text());
  if (files_->exists(trash))
    if (Result<void> done = files_->remove(trash); !done) return done;
  if (Result<void> done = files_->rename(target, trash); !done) return done;
  if (Result<void> done = files_->sync_folder(target.parent_path()); !done) return done;
  return files_->remove(trash);
}

Result<std::vector<CheckpointKey>> CheckpointStore::apply(const JobId& job,
                                                          const Retention& retention) {
  Result<std::vector<CheckpointKey>> keys = list(job);
  if (!keys) return keys.error();
  std::vector<CheckpointKey> gone = expired(std::move(*keys), retention);
  for (const CheckpointKey& key : gone)
    if (Result<void> done = remove(key); !done) return done.error().within("retention");
  return gone;
}

Result<void> CheckpointStore::clean_up() {
  Result<std::vector<Entry>> jobs = files_->list(root_);
  if (!jobs && jobs.error().code == ErrorCode::not_found) return {};
  if (!jobs) return jobs.error().within("checkpoints");
  for (const Entry& job : *jobs) {
    if (job.kind != EntryKind::folder || !parse_job(job.name)) continue;
    Result<std::vector<Entry>> entries = files_->list(root_ / job.name);
    if (!entries) return entries.error().within("checkpoints");
    for (const Entry& entry : *entries)
      if (entry.name.starts_with(".tmp-") || entry.name.starts_with(".trash-"))
        if (Result<void> done = files_->remove(root_ / job.name / entry.name); !done) return done;
  }
  return {};
}

}  // namespace gpunode::snapshot
