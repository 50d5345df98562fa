#include "actors/checkpoint/checkpoint_shelf.hpp"

#include <cstdio>

#include "actors/named_tensors.hpp"
#include "runtime/base/fault_point.hpp"
#include "runtime/base/log.hpp"

namespace gpunode::checkpoint {
namespace {

constexpr auto kSayEvery = std::chrono::seconds(10);

snapshot::CheckpointMeta meta_of(const CheckpointOptions& options, const WriteCheckpoint& order) {
  snapshot::CheckpointMeta meta;
  meta.key = {options.job, order.history, order.step};
  meta.job_name = options.spec.name;
  meta.model = {options.model->kind(), options.model->config()};
  meta.sample_sum = order.running.hash_sum;
  meta.sample_count = order.running.sample_count;
  meta.state_digest = order.state_digest;
  meta.unix_seconds =
      std::chrono::duration_cast<std::chrono::seconds>(options.clock->wall().time_since_epoch())
          .count();
  return meta;
}

view::CheckpointName name_of(const snapshot::CheckpointKey& key) {
  return {key.history, key.step};
}

snapshot::CheckpointKey key_of(const JobId& job, const view::CheckpointName& name) {
  return {job, name.history, name.step};
}

std::string gigabytes(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", static_cast<double>(bytes) / 1e9);
  return text;
}

// Of a state as the trainer gives it: weights, first and second moments.
std::size_t state_elements(const model::Model& model) {
  return 3 * model.parameter_count();
}

}  // namespace

CheckpointShelf::CheckpointShelf(CheckpointOptions options)
    : options_(std::move(options)), store_(*options_.files, options_.root) {
  note_damaged();
  lost_.clear();  // of earlier lives
}

// Takes up what stands aside and was not known to.
void CheckpointShelf::note_damaged() {
  auto damaged = store_.damaged(options_.job);
  if (!damaged) return;  // no news
  for (const snapshot::Damaged& one : *damaged) {
    DamagedCheckpoint told{name_of(one.key), one.path.string(), one.reason};
    if (aside_.emplace(one.path, told).second) lost_.push_back(std::move(told));
  }
}

bool CheckpointShelf::has_lost() {
  note_damaged();
  return !lost_.empty();
}

void CheckpointShelf::lose(const Key& key, const Error& why) {
  intact_.erase(key);
  DamagedCheckpoint told{name_of(key), store_.path_of(key).string(), why.message()};
  if (snapshot::is_damage(why.code)) {
    auto aside = store_.set_aside(key, why.message());
    if (aside) {
      told.path = aside->path.string();
      aside_.emplace(aside->path, told);
      return lost_.push_back(std::move(told));
    }
    if (aside.error().code == ErrorCode::not_found) {  // another hand took it
      const std::size_t before = lost_.size();
      note_damaged();
      if (lost_.size() == before) lost_.push_back(std::move(told));
      return;
    }
    told.reason += "; " + aside.error().message();
  }
  in_place_[key] = told;
  lost_.push_back(std::move(told));
}

Result<void> CheckpointShelf::give_up(const view::CheckpointName& after,
                                      const std::string& reason) {
  auto keys = store_.list(options_.job);
  if (!keys) return keys.error();
  for (const Key& key : *keys) {
    if (key.history != after.history || key.step <= after.step) continue;
    auto aside = store_.set_aside(key, reason);
    intact_.erase(key);
    if (aside) {
      in_place_.erase(key);
      aside_.emplace(aside->path,
                     DamagedCheckpoint{name_of(key), aside->path.string(), aside->reason});
    } else if (aside.error().code != ErrorCode::not_found) {  // another hand took it
      return aside.error();
    }
  }
  return {};
}

// Reads every byte, unless that was done before.
Result<job::Checkpoint> CheckpointShelf::check(const Key& key) {
  auto checkpoint = store_.open(key);
  if (!checkpoint) return checkpoint.error();
  if (!intact_.contains(key)) {
    const std::string what =
        options_.spec.name + ": the checkpoint of step " + std::to_string(key.step);
    Time said = options_.clock->now();
    const auto say = [&](std::uint64_t read, std::uint64_t all) {
      if (options_.clock->now() < said + kSayEvery) return;
      said = options_.clock->now();
      log::info("checkpoint",
                what + " is looked through: " + gigabytes(read) + " of " + gigabytes(all) + " GB");
    };
    if (auto whole = checkpoint->verify(say); !whole) return whole.error();
    intact_.insert(key);
  }
  const snapshot::CheckpointMeta& meta = checkpoint->manifest().meta;
  const view::CheckpointName name = name_of(key);
  return job::Checkpoint{
      name.step, meta.state_digest, {meta.sample_sum, meta.sample_count}, name.history};
}

// A part of the job that gave way to another may have left later names than the one that stands.
Result<std::vector<CheckpointShelf::Key>> CheckpointShelf::keys() const {
  auto keys = store_.list(options_.job);
  if (!keys) return keys.error();
  std::stable_partition(keys->begin(), keys->end(), [this](const Key& key) {
    const view::CheckpointName name = name_of(key);
    return !view_.descends_from(name.history, name.step);
  });
  return keys;
}

CheckpointsFound CheckpointShelf::find() {
  note_damaged();
  CheckpointsFound found;
  auto keys = this->keys();
  if (!keys) found.failed = keys.error();
  for (; keys && !keys->empty(); keys->pop_back()) {
    const Key& key = keys->back();
    if (in_place_.contains(key)) continue;
    auto intact = check(key);
    if (intact) {
      found.newest = *intact;
      break;
    }
    lose(key, intact.error());
  }
  newest_ = found.newest;
  found.lost = std::exchange(lost_, {});
  for (const auto& [path, one] : aside_) found.damaged.push_back(one);
  for (const auto& [key, one] : in_place_) found.damaged.push_back(one);
  return found;
}

// Whether the checkpoint of this name is intact and of the state that is to be written.
Result<void> CheckpointShelf::check_same(const snapshot::CheckpointMeta& meta) {
  auto there = check(meta.key);
  if (!there) return there.error();
  if (there->state_digest == meta.state_digest) return {};
  return Error{ErrorCode::corrupted, "it holds the state " + there->state_digest.text() +
                                         ", and the job's after this step is " +
                                         meta.state_digest.text()};
}

Result<std::string> CheckpointShelf::write(const WriteCheckpoint& order) {
  const snapshot::CheckpointMeta meta = meta_of(options_, order);
  const std::string path = store_.path_of(meta.key).string();
  const ByteView bytes = order.state.view;
  if (bytes.size() != state_elements(*options_.model) * sizeof(float))
    return Error{ErrorCode::corrupted, "a state of " + std::to_string(bytes.size()) +
                                           " bytes is none of this job's model"};
  const std::span all(reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float));
  const snapshot::StateView state = named_tensors(*options_.model, all);
  auto written = store_.write(meta, state);
  // A restarted member may reach a step whose checkpoint it wrote in an earlier life.
  if (!written && written.error().code == ErrorCode::already_exists) {
    auto same = check_same(meta);
    if (same) return path;
    lose(meta.key, same.error());
    written = store_.write(meta, state);
  }
  if (!written) return written.error();
  intact_.insert(meta.key);
  snapshot::Retention retention{.newest = options_.spec.checkpoint.keep};
  if (order.durable.step > 0) retention.durable = key_of(options_.job, order.durable);
  retention.keep.push_back(meta.key);  // whatever later names others have left
  for (const auto& [key, one] : in_place_) retention.keep.push_back(key);
  for (const view::CheckpointName& name : order.kept)
    retention.keep.push_back(key_of(options_.job, name));
  auto removed = store_.apply(options_.job, retention);
  if (!removed)
    log::warning("checkpoint", options_.spec.name +
                                   ": cannot remove old checkpoints: " + removed.error().message());
  else
    for (const Key& key : *removed) intact_.erase(key);
  return path;
}

Result<SharedBytes> CheckpointShelf::read(std::uint64_t step) {
  auto keys = this->keys();
  if (!keys) return keys.error();
  for (auto key = keys->rbegin(); key != keys->rend(); ++key) {
    if (key->step != step || in_place_.contains(*key)) continue;
    auto state = read(*key);
    if (!state) lose(*key, state.error());
    return state;
  }
  const Error gone{ErrorCode::not_found,
                   "no checkpoint of step " + std::to_string(step) + " is here"};
  const HistoryId history = newest_.step == step ? newest_.history : HistoryId{};
  lost_.push_back({{history, step}, options_.root.string(), gone.message()});
  return gone;
}

Result<SharedBytes> CheckpointShelf::read(const Key& key) const {
  auto checkpoint = store_.open(key);
  if (!checkpoint) return checkpoint.error();
  fault_point("checkpoint.read", key.step);
  const std::size_t count = state_elements(*options_.model);
  Bytes bytes(count * sizeof(float));
  const std::span all(reinterpret_cast<float*>(bytes.data()), count);
  if (auto read = checkpoint->read_into(named_tensors(*options_.model, all)); !read)
    return read.error();
  return SharedBytes::from(std::move(bytes));
}

}  // namespace gpunode::checkpoint
