#include "actors/checkpoint/newest_checkpoints.hpp"

#include <algorithm>

namespace gpunode::checkpoint {
namespace {

void set(telemetry::Registry& metrics, const JobId& job, const std::string& name, double step,
         double age) {
  const telemetry::Labels labels{{"job", name}, {"job_id", job.text()}};
  metrics
      .gauge("gpunode_job_checkpoint_step", "Step of the job's newest checkpoint on this node",
             labels)
      .set(step);
  metrics
      .gauge("gpunode_job_checkpoint_age_seconds",
             "Time since the job's newest checkpoint on this node was made", labels)
      .set(age);
}

}  // namespace

// One that cannot be read is left to the job, which says so; an older one is not taken for it.
void NewestCheckpoints::look() {
  const auto keys = store_.list();
  if (!keys) return;
  std::map<JobId, Seen> found;
  for (auto key = keys->begin(); key != keys->end(); ++key) {
    if (key + 1 != keys->end() && (key + 1)->job == key->job) continue;  // an older one
    if (const auto known = newest_.find(key->job);
        known != newest_.end() && known->second.key == *key) {
      found.insert(*known);
    } else if (const auto checkpoint = store_.open(*key)) {
      const snapshot::CheckpointMeta& meta = checkpoint->manifest().meta;
      found.insert({key->job, {*key, meta.job_name, meta.unix_seconds}});
    }
  }
  newest_ = std::move(found);
}

void NewestCheckpoints::record(telemetry::Registry& metrics,
                               std::chrono::system_clock::time_point now) {
  std::lock_guard lock(mutex_);
  const auto before = newest_;
  look();
  for (const auto& [job, seen] : before)
    if (!newest_.contains(job))
      set(metrics, job, seen.job_name, telemetry::Gauge::kUnknown, telemetry::Gauge::kUnknown);
  for (const auto& [job, seen] : newest_) {
    const std::chrono::duration<double> since =
        now.time_since_epoch() - std::chrono::seconds(seen.unix_seconds);
    // It may have been made by another node, whose clock is ahead.
    set(metrics, job, seen.job_name, static_cast<double>(seen.key.step),
        std::max(0.0, since.count()));
  }
}

}  // namespace gpunode::checkpoint
