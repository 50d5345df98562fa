// What one device of a member holds of a job: the program, the training state, the one made beside
// it, and the threads that keep the device busy. A member with several devices has a replica on
// each: their slices differ, their states are the same bit for bit after every step, each having
// applied the same sum by itself. Owner: the trainer, which uses one from one thread at a time.
// Fails, where it fails, with: out_of_memory, internal.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "actors/compute/device_roster.hpp"
#include "actors/compute/device_state.hpp"
#include "actors/compute/layered_pass.hpp"
#include "actors/compute/staged_state.hpp"
#include "actors/compute/worker_pool.hpp"
#include "kernels/model/model.hpp"
#include "kernels/model/optimizer.hpp"
#include "runtime/base/clock.hpp"

namespace gpunode::compute {

class Replica {
 public:
  struct Options {
    const model::Model* model = nullptr;  // outlives the replica, as does the device
    NodeDevice* device = nullptr;
    std::string user;  // of the device: the job's id
    model::AdamwOptions optimizer;
    std::optional<model::AdamwOptions> inner_optimizer = {};  // of mode local
    collective::Tree tree = collective::Tree::of_slices(1);
    int workers = 1;
    std::size_t slices_at_once = 1;
  };
  // Fails with: as above, and unsupported.
  static Result<std::unique_ptr<Replica>> open(const Options& options);

  const std::string& name() const { return device_->backend().device().name; }
  DeviceUse& use() { return use_; }
  const DeviceUse& use() const { return use_; }
  Device& device() { return *device_; }
  WorkerPool& workers() { return workers_; }
  model::Program& program() { return *program_; }
  LayeredPass& pass() { return *pass_; }
  DeviceState& state() { return state_; }
  StagedState& staged() { return *staged_; }
  std::size_t slices_at_once() const { return slices_at_once_; }

  // The state's update by this total of a step, whose own sum, if it is one of this member's, is
  // `own`.
  Result<model::StepOutcome> update(std::uint64_t step, const collective::SharedFloats& total,
                                    const SharedSum& own, const model::SumOf& of);
  // What was staged of just this step becomes the state; nothing where it cannot.
  Result<std::optional<model::StepOutcome>> take_staged(std::uint64_t step,
                                                        const collective::SharedFloats& total);
  // Weights, or all three parts of the state; the program has the weights then.
  Result<void> install(std::span<const float> weights);
  Result<void> install(ByteView state);
  // Of mode local, whose vectors are the host's between inner steps: the program has these weights,
  // beside the state's; and an inner step of AdamW on `values`.
  Result<void> load_inner(std::span<const float> weights);
  Result<void> update_inner(std::uint64_t step, std::span<const float> sum, const model::SumOf& of,
                            const model::Adamw::Values& values);
  Result<Digest> digest() { return digest_of_state(*device_, state_); }

  // Bytes copied between the host and its device since the last call, whoever asked for them.
  ops::HostTraffic take_host_traffic();

  // How fast it was of late, in slices a second; 0: not known.
  double speed() const { return speed_; }
  void note_speed(std::size_t slices, Duration took);

 private:
  explicit Replica(const Options& options);
  Result<void> make_inner(const model::Model& model, const model::AdamwOptions& options);

  DeviceUse use_;
  WorkerPool workers_;
  std::size_t slices_at_once_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<model::Program> program_;
  std::unique_ptr<LayeredPass> pass_;
  std::unique_ptr<model::Adamw> optimizer_;
  DeviceState state_;
  std::unique_ptr<StagedState> staged_;
  std::unique_ptr<model::Adamw> inner_optimizer_;  // null but in mode local
  DeviceState inner_state_;                        // on a device of its own memory
  tensor::Buffer inner_sum_;
  tensor::Buffer total_;  // on a device of its own memory: a total of other members' sums
  double speed_ = 0;
  ops::HostTraffic told_traffic_;
};

}  // namespace gpunode::compute
