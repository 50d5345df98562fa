// The training state of one job on one member, and what is done with it in a step: gradients of
// slices, the update, the state's bytes. No mailbox; the clock is handed in; the trainer actor owns
// one and calls it from its thread only. Steps count from 1; step 0 is the initial state.
//
// Behind its parameter_count elements a gradient has a tail, the loss and its weight, so that the
// exchange sums these by the same tree. State, gradients and sums lie in the memory of the
// device that computes (device.hpp); the host has what leaves for other members and disks. Several
// devices (replica.hpp) share the slices, each taking more of them when it is through, and their
// sums are added in the tree's order; which one computes what shows nowhere but in the time. One that
// is drained takes no more, and gives back its memory between two blocks; what it has computed is
// kept. In mode `local` a step is a round of inner steps, whose slices the devices share, the sum is
// one of changed weights (local_round.hpp), and the first moment is the outer momentum; the second
// stays zero.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "actors/compute/device_floats.hpp"
#include "actors/compute/group_sum.hpp"
#include "actors/compute/local_round.hpp"
#include "actors/compute/partial_store.hpp"
#include "actors/compute/replica.hpp"
#include "actors/ingest/prefetcher.hpp"
#include "actors/ingest/slice_reader.hpp"
#include "kernels/model/fingerprint.hpp"
#include "kernels/model/model.hpp"
#include "kernels/model/optimizer.hpp"
#include "kernels/model/outer_step.hpp"
#include "runtime/collective/data_fingerprint.hpp"
#include "runtime/collective/float_pool.hpp"
#include "runtime/collective/shared_floats.hpp"
#include "runtime/collective/step_times.hpp"
#include "runtime/collective/tree.hpp"
#include "runtime/job/job_actions.hpp"
#include "runtime/job/job_spec.hpp"
#include "runtime/telemetry/span_ring.hpp"

namespace gpunode::compute {

// The job's own settings as the optimizer understands them.
model::AdamwOptions adamw_options(const job::TrainSpec& spec);

// The most samples that a slice has.
inline std::size_t samples_per_slice(const job::TrainSpec& spec) {
  return (spec.batch + spec.slices - 1) / spec.slices;
}

struct StepReport {
  double loss = 0;           // mean a token, of the training batch
  double gradient_norm = 0;  // before clipping
  double learning_rate = 0;
  bool skipped = false;  // the sum was not finite: the state did not change
  Digest state;          // of the whole state after the step
  // Between the host's memory and its devices' since the step before was applied; all that was
  // copied counts, a checkpoint and other jobs of these devices too.
  ops::HostTraffic host_traffic;
  // What the update took: the optimizer, the program's taking over of the weights, the digest.
  Duration optimizing{}, loading{}, digesting{};
};

struct HeldOutLoss {
  double loss = 0;                 // mean a token
  std::optional<double> accuracy;  // share of tokens whose target has the largest score, if known
  // Samples that it is the mean of, and those of the whole held-out part. Fewer where that is
  // longer than kEvaluatedTokens: then they are spread evenly over it.
  std::uint64_t samples = 0;
  std::uint64_t held_out_samples = 0;
};

// Elements [first, first + count) of a wanted node's sum are final; others may still be written.
// Which Compute asked for it is known to the caller.
struct SumRange : job::PartialRange {
  bool ends_block = false;  // the last one that this call of compute_some tells
};
using TellRange = std::function<void(SumRange)>;

// How many slices a member computes at once, layer by layer, and what that takes. More of them at
// once: larger blocks of which each part leaves as soon as its layer is through, for more memory.
struct SliceMemory {
  std::size_t slices = 1;
  std::uint64_t activation_bytes = 0;  // of all these slices
  std::uint64_t gradient_bytes = 0;    // of the stages that are under way in them
};
// As many slices as there are, if `budget_bytes` holds them, but at least one a worker.
SliceMemory slice_memory(const model::Model& model, const job::TrainSpec& spec, int workers,
                         std::uint64_t budget_bytes);

// Where the sums of a step go from the device. Those that stay there come to the host only if
// somebody reads them, and are told whole.
enum class SumsGo : std::uint8_t {
  to_members,  // range by range, as they become final
  nowhere,     // there is no other member: the sum is the total
  by_devices   // kept, and not told at all, for carry()
};

class Trainer {
 public:
  struct Options {
    std::shared_ptr<const model::Model> model;
    std::vector<NodeDevice*> devices;  // at least one; they outlive the trainer
    std::string user = {};             // who uses them: the job's id
    job::JobSpec spec;
    std::optional<ingest::SliceReader> reader;
    const Clock* clock = nullptr;
    int workers = 1;  // threads a device
    // For slices under way: their activations and the gradients of a layer or two of each.
    std::uint64_t slice_budget_bytes = kSliceBudgetBytes;
    std::uint64_t evaluated_tokens = kEvaluatedTokens;
    std::shared_ptr<telemetry::SpanRing> spans =
        {};  // what was done when, for `job trace`; may be null
    // Whether the reader's data is the job's. Slow: the trainer's thread calls it first. May be
    // empty.
    std::function<Result<void>()> check_data = {};
  };
  static constexpr std::uint64_t kSliceBudgetBytes = std::uint64_t{1} << 30;
  static constexpr std::uint64_t kStageBudgetBytes = std::uint64_t{1} << 30;
  static constexpr std::uint64_t kEvaluatedTokens = std::uint64_t{1} << 20;
  // What update_speculatively() takes of memory; 0: the next state is not made beside the one that
  // stands.
  static std::uint64_t staged_bytes(const job::JobSpec& spec, const model::Model& model,
                                    std::uint64_t budget_bytes);
  // Fails with: out_of_memory (names what the job needs), unsupported, internal; and as all that
  // uses a device, with device_lost.
  static Result<std::unique_ptr<Trainer>> create(Options options);
  ~Trainer();

  std::uint64_t element_count() const { return model_->parameter_count() + model::kTailElements; }
  std::uint64_t step() const { return step_; }  // applied steps
  const collective::Tree& tree() const { return tree_; }

  // Begins a step, or changes what is wanted of it; what was computed for it is kept.
  void want(std::uint64_t step, std::vector<collective::TreeNode> cover,
            SumsGo sums_go = SumsGo::to_members);
  // With sums that go by_devices, once all is computed: moves them by the group, and gives the total
  // of the step. Fails with what GroupSum fails with; the sums can be told as ever then.
  Result<job::Carried> carry(ops::DeviceGroup& group, const job::Carry& how);
  // The sums that were to go by_devices are told, and those that are still to come.
  Result<void> tell_kept(const TellRange& tell);
  // Gives up what was computed for the step in work: members disagreed about its sum.
  void discard_kept();
  // Tells what is complete already, then computes the next block of slices and tells each range of
  // a wanted sum as soon as it is final, from any worker's thread. Call until idle(). Fails with:
  // internal, out_of_memory.
  Result<void> compute_some(const TellRange& tell);
  bool idle() const { return local_ ? local_->idle() : store_.missing().empty(); }
  // On which steps are carried, of those that are left.
  NodeDevice& first_device() const { return replicas_.front()->use().device(); }
  const SliceMemory& slice_memory() const { return slice_memory_; }  // of one device
  // What the current step has taken so far.
  const collective::ComputeTimes& times() const { return times_; }

  // Elements [from, from + count) of the total of step() + 1 are here; others may still be
  // written to, and whether the step will be committed is open. Makes ready beside the state what
  // follows from them, and takes forward of the next step as far as its weights are made. Needs not
  // be told, shows nowhere but in the time that the next steps take, and is thrown away if the step
  // turns out otherwise. Fails with: internal, out_of_memory.
  Result<void> update_speculatively(std::uint64_t step, const collective::SharedFloats& total,
                                    std::uint64_t from, std::uint64_t count);

  // Whether update_speculatively() ever does anything.
  bool speculates() const { return staged_bytes(spec_, *model_, kStageBudgetBytes) > 0; }

  // Applies the total of step() + 1. Fails with: internal, out_of_memory.
  Result<StepReport> apply(std::uint64_t step, const collective::SharedFloats& total);

  // The state as bytes: weights, first and second moments, fp32 little-endian. A copy. Fails with:
  // internal.
  Result<SharedBytes> state_bytes();
  // Replaces the state; wants the same length, or nothing for the initial state (step 0).
  // Fails with: corrupted, internal.
  Result<void> install(std::uint64_t step, ByteView state);
  Result<Digest> state_digest();  // block_digest_of() state_bytes(). Fails with: internal.

  // Loss on the held-out part, in disjoint samples: on all of it up to kEvaluatedTokens, else on so
  // many tokens of it, so that a job's end takes no longer with more data.
  // Fails with: not_found (no held-out part), internal, out_of_memory.
  Result<HeldOutLoss> evaluate();

 private:
  explicit Trainer(const Options& options);
  Result<HeldOutLoss> evaluate_here();
  Result<void> make_parts(const Options& options);
  Result<SharedSum> join(std::span<const SharedSum> children);
  Replica& first() { return *replicas_.front(); }
  Result<void> on_all(const std::function<Result<void>(Replica& replica)>& task);
  bool takes_slices(const Replica& replica) const;
  Result<void> let_drained_go();
  void plan_ahead();
  collective::ComputeTimes spent(Time since, Duration starved, std::size_t slices) const;
  using OnSlice = std::function<void(std::uint32_t slice, const collective::DataFingerprint&)>;
  // Slices of a store, and what is told of them.
  struct Order {
    PartialStore& store;
    std::uint64_t data_step = 0;
    TellRange tell;
    OnSlice on_slice;
    Time begin{};
    Duration waiting{};  // for data, before
  };
  struct Block;
  Result<Block> next_block(Replica& replica, const Order& order, std::size_t capacity);
  Result<void> compute_on(Replica& replica, const Order& order, Block& block);
  void keep(const Order& order, Block& block);
  Result<void> compute_block(Order order);
  Result<void> compute_on_all(Order order);
  Result<void> compute_missing(const Order& order);
  Result<void> tell_complete(const TellRange& tell);
  Result<collective::SharedFloats> share(const SharedSum& sum);
  bool stays_on(Replica& replica, const Order& order) const {
    return sums_go_ != SumsGo::to_members && &order.store == &store_ &&
           (sums_go_ == SumsGo::by_devices || !replica.device().shares_memory());
  }
  Result<void> tell_shared(const Order& order, const Block& block, Duration starved);
  Result<void> tell_whole(const TellRange& tell, const NodeSum& whole);
  void close_shared(const Device* device);
  LocalRound::Options local_options();
  Result<void> read_back();
  model::OuterStep outer_step() const;
  Result<void> inner_update(std::uint64_t step, std::span<const float> gradient,
                            std::uint64_t samples, std::span<float> weights, Moments& moments);
  Result<void> compute_local(const TellRange& tell);
  Result<SliceSums> sum_slices(std::uint64_t data_step, const std::vector<std::uint32_t>& slices,
                               std::span<const float> weights);
  // A step's application on one device.
  struct Applying {
    model::StepOutcome outcome;
    bool staged = false;
    Digest state;
    Duration optimizing{}, loading{}, digesting{};
  };
  SharedSum own_sum(const collective::SharedFloats& total) const;
  Result<void> compare_states(std::uint64_t step, std::span<const Applying> applied);
  Result<Applying> apply_on(Replica& replica, std::uint64_t step,
                            const collective::SharedFloats& total,
                            const std::optional<model::StepOutcome>& outer);
  model::StepOutcome update_locally(std::span<const float> change);
  Result<model::StepOutcome> copy_to(Replica& replica, const model::StepOutcome& outer);
  // What a sum is over, by its tail and so many samples.
  model::SumOf over(std::span<const float> sum, std::uint64_t samples) const {
    return {.weight = sum.back(), .samples = static_cast<double>(samples)};
  }
  // trainer_speculation.cpp
  Result<void> forward_ahead();
  void begin_ahead();
  Result<void> load_rest();
  Result<void> drop_ahead();
  Result<std::vector<ingest::Slice>> take_ahead(std::uint64_t data_step,
                                                std::span<const std::uint32_t> slices);

  std::shared_ptr<const model::Model> model_;
  job::JobSpec spec_;
  collective::Tree tree_;
  std::optional<ingest::SliceReader> reader_;
  const Clock* clock_;
  PartialStore store_;
  PartialStore inner_store_;           // of an inner step
  std::unique_ptr<LocalRound> local_;  // null but in mode local
  std::unique_ptr<ingest::Prefetcher> prefetcher_;
  SliceMemory slice_memory_;
  std::vector<std::unique_ptr<Replica>> replicas_;  // never none
  std::unique_ptr<WorkerPool> drivers_;             // a thread a device, where there are several
  std::mutex share_mutex_;                          // over what the devices' threads take from
  // Of mode local, whose arithmetic between inner steps is the host's: weights and outer velocity.
  std::vector<float> host_weights_, velocity_;
  std::uint64_t step_ = 0;
  collective::ComputeTimes times_, ahead_times_;
  std::set<std::uint32_t> own_slices_;  // of step own_step_, guessed for the next one
  std::uint64_t own_step_ = 0;
  std::shared_ptr<collective::FloatPool> pool_;
  SumsGo sums_go_ = SumsGo::to_members;
  std::vector<NodeSum> kept_;  // for carry(), or carried
  SharedSum carried_;          // the total that came by devices, of the step in work
  std::vector<std::weak_ptr<DeviceFloats>> shared_;  // sums that others may hold

  // The next step, before the one in work is committed. The program has the weights that stand up
  // to where `stages_loaded_` says that it has the staged ones.
  struct Ahead {
    std::uint64_t data_step = 0;
    std::vector<std::uint32_t> slices;
    std::vector<ingest::Slice> data;  // what the samples refer to
    std::vector<std::vector<model::Sample>> samples;
  };
  bool clipped_ = false;                    // the last step
  std::vector<std::uint32_t> first_block_;  // slices that the step in work began with
  std::optional<Ahead> ahead_;
  std::size_t stages_loaded_ = 0;
  std::uint64_t evaluated_tokens_;
};

// What the model reads of a slice, which must stay where it is meanwhile.
std::vector<model::Sample> samples_of(const ingest::Slice& slice);

// The fingerprint of this job's computing: of as many samples as a slice has, spread over its data.
// Fails with: what compute_fingerprint fails with.
Result<model::Fingerprint> fingerprint_of(const job::TrainSpec& spec, const model::Model& model,
                                          ops::Backend& backend, const dataset::Dataset& data);

// fp32 sums through the backend's own kernel, for the exchange and the partial store.
collective::AddFn add_of(ops::Backend& backend);

}  // namespace gpunode::compute
