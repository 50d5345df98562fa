#include "runtime/job/loader.hpp"

namespace gpunode::job {

namespace {
constexpr Duration kLoadsFor = std::chrono::seconds(60);  // more than usual, from a disk

// A state on a slow disk: 16 MiB a second.
Duration time_to_load(std::uint64_t bytes) {
  return std::chrono::milliseconds(bytes >> 14);
}
}  // namespace

void Loader::begin(Loading loading, Duration extra) {
  loading_ = std::move(loading);
  job_.progress.begin_load();
  watchdog_.dropped(Watchdog::Work::apply);
  watchdog_.asked(Watchdog::Work::install, job_.now, extra);
}

void Loader::load(FetchedState fetched, Actions& out) {
  const StateMeta& meta = fetched.meta;
  begin(
      {{meta.step, meta.digest, meta.data_fingerprint, fetched.history}, meta.result_digest, false},
      time_to_load(meta.size_bytes));
  out.push_back(InstallState{meta.step, std::move(fetched.bytes)});
}

void Loader::restore(const Checkpoint& checkpoint, Actions& out) {
  begin({checkpoint, {}, checkpoint.step > 0}, kLoadsFor);
  out.push_back(RestoreState{checkpoint.step});
}

std::optional<Checkpoint> Loader::at_hand() const {
  const view::View& view = job_.view();
  const Checkpoint& kept = job_.checkpoint;
  if (kept.step == view.base_step && kept.step > 0 && kept.state_digest == view.state_digest &&
      view.descends_from(kept.history, kept.step))
    return kept;
  if (view.base_step == 0 && view.restores)
    return Checkpoint{0, job_.options.initial_state_digest, {}, {}};
  return std::nullopt;
}

bool Loader::on_loaded(std::uint64_t step) {
  if (!loading_ || loading_->state.step != step) return false;
  job_.progress.load(loading_->state, loading_->result_digest);
  loading_.reset();
  // The views may have gone on meanwhile, to a history that this state is no part of.
  if (job_.view().descends_from(job_.progress.history(), step))
    job_.progress.follow(job_.view().history());
  watchdog_.done(Watchdog::Work::install, job_.now);
  return true;
}

// Of one that it could not find the driver knows the step alone.
bool Loader::on_lost(const view::CheckpointName& name) {
  if (!loading_ || !loading_->from_disk || loading_->state.step != name.step) return false;
  loading_.reset();
  job_.progress.end_load();
  watchdog_.progressed(Watchdog::Work::install);  // this was the answer
  watchdog_.dropped(Watchdog::Work::install);
  return true;
}

}  // namespace gpunode::job
