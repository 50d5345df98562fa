#include "runtime/snapshot/checkpoint_store.hpp"

#include <algorithm>
#include <charconv>
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
        parameter[TensorPart::weight].size_bytes() != *bytes)
      return refused("values and shape of " + parameter.name + " do not match");
    for (TensorPart part : {TensorPart::first_moment, TensorPart::second_moment})
      if (auto values = parameter[part]; !values.empty() && values.size_bytes() != *bytes)
        return refused("moments and shape of " + parameter.name + " do not match");
  }
  for (const auto& [key, value] : meta.model.settings)
    if (!is_printable(key) || !is_printable(value))
      return refused("model setting " + key + " is not printable ASCII");
  return {};
}

std::vector<ShardPlan> plan_shards(const StateView& state, std::uint64_t shard_bytes) {
  std::vector<ShardPlan> plans;
  std::uint64_t filled = 0;  // of the last one
  for (TensorPart part : kTensorParts) {
    for (std::size_t i = 0; i < state.parameters.size(); ++i) {
      std::uint64_t bytes = state.parameters[i][part].size_bytes();
      if (bytes == 0 && part != TensorPart::weight) continue;
      if (plans.empty() || plans.back().part != part || filled >= shard_bytes) {
        plans.push_back({part, {}});
        filled = 0;
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
    values.emplace(parameter.name, parameter[plan.part]);
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

// Set aside are folders <job>/damaged/<key>-<n> with the reason in a file beside the shards.
constexpr const char* kDamagedFolder = "damaged";
constexpr const char* kReasonFile = "reason.txt";
constexpr std::uint64_t kReasonLimitBytes = 64u << 10;

std::optional<std::pair<CheckpointKey, std::uint32_t>> parse_damaged(const JobId& job,
                                                                     const std::string& name) {
  const std::size_t dash = name.rfind('-');
  if (dash == name.npos) return std::nullopt;
  std::optional<CheckpointKey> key = CheckpointKey::parse(job, name.substr(0, dash));
  std::uint32_t number = 0;
  const char* end = name.data() + name.size();
  auto [next, failure] = std::from_chars(name.data() + dash + 1, end, number);
  if (!key || failure != std::errc{} || next != end) return std::nullopt;
  return std::pair(*key, number);
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

// None, if there is nothing at `path`.
Result<std::vector<Entry>> folders_in(const storage::FileSystem& files, const Path& path) {
  Result<std::vector<Entry>> entries = files.list(path);
  if (!entries && entries.error().code == ErrorCode::not_found) return std::vector<Entry>{};
  if (entries)
    std::erase_if(*entries, [](const Entry& entry) { return entry.kind != EntryKind::folder; });
  return entries;
}

}  // namespace

std::vector<CheckpointKey> expired(std::vector<CheckpointKey> keys, const Retention& retention) {
  std::sort(keys.begin(), keys.end());
  std::size_t newest = std::max<std::size_t>(1, retention.newest);
  std::vector<CheckpointKey> gone;
  for (auto begin = keys.begin(); begin != keys.end();) {
    const auto end = std::find_if(begin, keys.end(),
                                  [&](const CheckpointKey& key) { return key.job != begin->job; });
    const auto furthest = std::ranges::max_element(begin, end, {}, &CheckpointKey::step);
    for (auto key = begin; key != end; ++key) {
      bool is_new = static_cast<std::size_t>(end - key) <= newest;
      bool is_marked = retention.every_steps != 0 && key->step % retention.every_steps == 0;
      bool is_floor = retention.durable == *key;
      bool is_furthest =
          key == furthest &&
          (!retention.durable || retention.durable->job != key->job || *retention.durable < *key);
      bool is_kept = std::count(retention.keep.begin(), retention.keep.end(), *key) > 0;
      if (!is_new && !is_marked && !is_floor && !is_furthest && !is_kept) gone.push_back(*key);
    }
    begin = end;
  }
  return gone;
}

bool is_damage(ErrorCode code) {
  // not_found: a file of it; invalid_argument: of another model, or no file where one should be.
  return code == ErrorCode::corrupted || code == ErrorCode::not_found ||
         code == ErrorCode::invalid_argument || code == ErrorCode::io_error;
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
    for (TensorPart part : kTensorParts) needed += parameter[part].size_bytes();
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
    manifest.parameters.push_back({parameter.name, ElementType::f32, parameter.shape});
  int number = 0;
  for (const ShardPlan& plan : plan_shards(state, options_.shard_bytes)) {
    if (!manifest.shards.empty() && manifest.shards.back().part != plan.part) number = 0;
    Result<ShardRecord> shard = write_shard(*files_, temporary, state, plan, number++);
    if (!shard) return shard.error();
    auto index = static_cast<std::int32_t>(manifest.shards.size());
    for (std::size_t i : plan.parameters)
      manifest.parameters[i].shards[static_cast<std::size_t>(plan.part)] = index;
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
  Result<std::vector<Entry>> folders = folders_in(*files_, root_ / job.text());
  if (!folders) return folders.error().within("checkpoints");
  std::vector<CheckpointKey> keys;
  for (const Entry& folder : *folders)
    if (std::optional<CheckpointKey> key = CheckpointKey::parse(job, folder.name))
      keys.push_back(*key);
  std::sort(keys.begin(), keys.end());
  return keys;
}

Result<std::vector<CheckpointKey>> CheckpointStore::list() const {
  Result<std::vector<Entry>> folders = folders_in(*files_, root_);
  if (!folders) return folders.error().within("checkpoints");
  std::vector<CheckpointKey> all;
  for (const Entry& folder : *folders) {
    std::optional<JobId> job = parse_job(folder.name);
    if (!job) continue;
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

Result<void> CheckpointStore::verify(const CheckpointKey& key, const ReadProgress& progress) const {
  Result<Checkpoint> checkpoint = open(key);
  if (!checkpoint) return checkpoint.error();
  return checkpoint->verify(progress);
}

Result<std::vector<CheckpointKey>> CheckpointStore::remove_of(const JobId& job,
                                                              std::optional<std::uint64_t> step) {
  auto keys = list(job);
  if (!keys) return keys;
  std::erase_if(*keys, [&](const CheckpointKey& key) { return step && key.step != *step; });
  if (keys->empty())
    return Error{ErrorCode::not_found,
                 "no checkpoint" + (step ? " of step " + std::to_string(*step) : std::string()) +
                     " of this job is here"};
  for (const CheckpointKey& key : *keys)
    if (auto removed = remove(key); !removed) return removed.error();
  return keys;
}

Result<Damaged> CheckpointStore::set_aside(const CheckpointKey& key, const std::string& reason) {
  const std::string what =
      "cannot set the checkpoint of step " + std::to_string(key.step) + " aside";
  const Path from = path_of(key);
  const Path folder = from.parent_path() / kDamagedFolder;
  if (!files_->exists(from))
    return Error{ErrorCode::not_found, what + ": " + from.string() + " is not there"};
  if (Result<void> done = files_->create_folder(folder); !done) return done.error().within(what);
  std::uint32_t number = 1;
  while (files_->exists(folder / (key.text() + "-" + std::to_string(number)))) ++number;
  const Path to = folder / (key.text() + "-" + std::to_string(number));
  if (Result<void> done = files_->rename(from, to); !done) return done.error().within(what);
  // The new name first: a crash between the two leaves both names or the old one, never none.
  for (const Path& changed : {folder, from.parent_path()})
    if (Result<void> done = files_->sync_folder(changed); !done) return done.error().within(what);
  // For people, who have it from the log too: a full disk is no reason to leave it in the way.
  const std::string text = reason + "\n";
  (void)files_->write_atomic(to / kReasonFile, {as_bytes(text)});
  return Damaged{key, to, reason};
}

Result<std::vector<Damaged>> CheckpointStore::damaged(const JobId& job) const {
  const Path folder = root_ / job.text() / kDamagedFolder;
  Result<std::vector<Entry>> entries = folders_in(*files_, folder);
  if (!entries) return entries.error().within("damaged checkpoints");
  std::vector<std::pair<std::pair<CheckpointKey, std::uint32_t>, std::string>> found;
  for (const Entry& entry : *entries)
    if (auto parsed = parse_damaged(job, entry.name)) found.emplace_back(*parsed, entry.name);
  std::sort(found.begin(), found.end());
  std::vector<Damaged> list;
  for (const auto& [key, name] : found) {
    Result<Bytes> bytes = files_->read(folder / name / kReasonFile, kReasonLimitBytes);
    std::string reason = bytes ? std::string(as_text(*bytes)) : "its reason was not kept";
    while (reason.ends_with('\n')) reason.pop_back();
    list.push_back({key.first, folder / name, std::move(reason)});
  }
  return list;
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
  Result<std::vector<Entry>> jobs = folders_in(*files_, root_);
  if (!jobs) return jobs.error().within("checkpoints");
  for (const Entry& job : *jobs) {
    if (!parse_job(job.name)) continue;
    Result<std::vector<Entry>> entries = files_->list(root_ / job.name);
    if (!entries) return entries.error().within("checkpoints");
    for (const Entry& entry : *entries)
      if (entry.name.starts_with(".tmp-") || entry.name.starts_with(".trash-"))
        if (Result<void> done = files_->remove(root_ / job.name / entry.name); !done) return done;
  }
  return {};
}

}  // namespace gpunode::snapshot
