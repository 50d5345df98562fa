#include "actors/checkpoint/checkpoint_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/mailbox.hpp"
#include "actors/messages.hpp"
#include "runtime/base/log.hpp"

namespace gpunode::checkpoint {
namespace {

struct State {
  static inline const char* name = "checkpoint";
  CheckpointOptions options;
  caf::actor job;
  std::optional<snapshot::CheckpointStore> store;
};
using Self = caf::stateful_actor<State>;

snapshot::CheckpointMeta meta_of(const CheckpointOptions& options, const WriteCheckpoint& order) {
  snapshot::CheckpointMeta meta;
  meta.key = {options.job, order.generation, order.rollback_epoch, order.step};
  meta.job_name = options.spec.name;
  meta.view_id = order.view_id;
  meta.model = {options.model->kind(), options.model->config()};
  meta.sampler_seed = options.spec.train.seed;
  meta.sampler_position = order.step * options.spec.inner_steps() * options.spec.train.batch;
  meta.sample_sum = order.running.hash_sum;
  meta.sample_count = order.running.sample_count;
  meta.state_digest = order.state_digest;
  meta.unix_seconds =
      std::chrono::duration_cast<std::chrono::seconds>(options.clock->wall().time_since_epoch())
          .count();
  return meta;
}

std::uint64_t epoch_of(std::uint64_t generation, std::uint64_t rollbacks) {
  return view::checkpoint_epoch(static_cast<std::uint32_t>(generation),
                                static_cast<std::uint32_t>(rollbacks));
}

job::Checkpoint checkpoint_of(const WriteCheckpoint& order) {
  return {order.step, order.state_digest, order.running,
          epoch_of(order.generation, order.rollback_epoch)};
}

Result<std::string> write(State& state, const WriteCheckpoint& order) {
  snapshot::CheckpointMeta meta = meta_of(state.options, order);
  auto written = state.store->write(meta, state_view_of(*state.options.model, order.state.view));
  std::string path = state.store->path_of(meta.key).string();
  if (!written) {
    // A restarted member may reach a step whose checkpoint it wrote in an earlier life.
    if (written.error().code == ErrorCode::already_exists) return path;
    return written.error();
  }
  snapshot::Retention retention{.newest = state.options.spec.checkpoint.keep, .every_steps = 0};
  auto removed = state.store->apply(state.options.job, retention);
  if (!removed) log::warning("checkpoint", "cannot remove old ones: " + removed.error().message());
  return path;
}

// The newest of the job with this step; a later generation or rollback is newer.
Result<snapshot::Checkpoint> find(const CheckpointOptions& options, std::uint64_t step) {
  snapshot::CheckpointStore store(*options.files, options.root);
  auto keys = store.list(options.job);
  if (!keys) return keys.error();
  for (auto key = keys->rbegin(); key != keys->rend(); ++key)
    if (key->step == step) return store.open(*key);
  return Error{ErrorCode::not_found, "no checkpoint of step " + std::to_string(step)};
}

Result<SharedBytes> read_back(const CheckpointOptions& options, std::uint64_t step) {
  auto checkpoint = find(options, step);
  if (!checkpoint) return checkpoint.error();
  std::size_t count = options.model->parameter_count();
  Bytes bytes(3 * count * sizeof(float));
  std::span<float> all(reinterpret_cast<float*>(bytes.data()), 3 * count);
  snapshot::StateTarget target;
  std::size_t at = 0;
  for (const model::ParameterSpec& spec : options.model->parameters()) {
    std::size_t size = spec.element_count();
    target.parameters.push_back({spec.name,
                                 {spec.shape.begin(), spec.shape.end()},
                                 all.subspan(at, size),
                                 all.subspan(count + at, size),
                                 all.subspan(2 * count + at, size)});
    at += size;
  }
  if (auto read = checkpoint->read_into(target); !read) return read.error();
  return SharedBytes::from(std::move(bytes));
}

caf::behavior behaviour(Self* self, caf::actor job, std::shared_ptr<CheckpointOptions> options) {
  State& state = self->state;
  state.options = std::move(*options);
  state.job = std::move(job);
  state.store.emplace(*state.options.files, state.options.root);
  expect_known_messages(self);
  // It does not outlive its job, however that ended.
  self->set_down_handler([self](const caf::down_msg&) { self->quit(); });
  self->monitor(self->state.job);
  return {
      [self](const WriteCheckpoint& order) {
        Time begin = self->state.options.clock->now();
        Result<std::string> path = write(self->state, order);
        self->send(self->state.job,
                   CheckpointWritten{checkpoint_of(order), order.copy, std::move(path),
                                     self->state.options.clock->now() - begin});
      },
      [self](const ReadCheckpoint& order) {
        self->send(self->state.job, CheckpointRead{order.step, order.token,
                                                   read_back(self->state.options, order.step)});
      },
      [self](const Shutdown&) { self->quit(); },
  };
}

}  // namespace

job::Checkpoint newest_checkpoint(const CheckpointOptions& options) {
  snapshot::CheckpointStore store(*options.files, options.root);
  auto keys = store.list(options.job);
  if (!keys) return {};
  for (auto key = keys->rbegin(); key != keys->rend(); ++key) {
    auto checkpoint = store.open(*key);
    if (!checkpoint) continue;
    const snapshot::CheckpointMeta& meta = checkpoint->manifest().meta;
    return {meta.key.step,
            meta.state_digest,
            {meta.sample_sum, meta.sample_count},
            epoch_of(meta.key.generation, meta.key.rollback_epoch)};
  }
  return {};
}

snapshot::StateView state_view_of(const model::Model& model, ByteView state) {
  std::size_t count = model.parameter_count();
  GPUNODE_CHECK(state.size() == 3 * count * sizeof(float), "a state has three values a parameter");
  std::span<const float> all(reinterpret_cast<const float*>(state.data()), 3 * count);
  snapshot::StateView view;
  std::size_t at = 0;
  for (const model::ParameterSpec& spec : model.parameters()) {
    std::size_t size = spec.element_count();
    view.parameters.push_back({spec.name,
                               {spec.shape.begin(), spec.shape.end()},
                               all.subspan(at, size),
                               all.subspan(count + at, size),
                               all.subspan(2 * count + at, size)});
    at += size;
  }
  return view;
}

caf::actor spawn_checkpoints(caf::actor_system& system, caf::actor job, CheckpointOptions options) {
  return system.spawn<caf::detached>(behaviour, std::move(job),
                                     std::make_shared<CheckpointOptions>(std::move(options)));
}

}  // namespace gpunode::checkpoint
