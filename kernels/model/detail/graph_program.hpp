// A graph model made ready on one device: where its weights lie there, scratch for each thread that computes
// (worker), and memory for each slice under way (slot). They share nothing but the weights. A graph
// is built for each number of samples that is met, and kept. Memory grows to the largest slice seen
// and then stays.
#pragma once

#include <map>
#include <mutex>
#include <tuple>

#include "kernels/model/detail/kept_graphs.hpp"
#include "kernels/model/detail/packed_weights.hpp"
#include "kernels/model/detail/stage_replays.hpp"
#include "kernels/model/graph_model.hpp"

namespace gpunode::model {

class GraphProgram final : public Program {
 public:
  static Result<std::unique_ptr<Program>> open(const GraphModel& model, ops::Backend& backend,
                                               int workers);
  GraphProgram(const GraphModel& model, ops::Backend& backend);

  Result<void> load(std::span<const float> parameters) override;
  Result<void> load_image(ops::WeightFormat format, ByteView image) override;
  Result<LossSum> gradient(int worker, std::span<const Sample> samples,
                           std::span<float> gradient_sum) override;
  void make_slots(std::size_t count) override;
  Result<void> load_part(std::span<const float> parameters, ElementRange part) override;
  Result<LossSum> forward(int worker, std::size_t slot, std::size_t stage,
                          std::span<const Sample> samples) override;
  Result<void> backward(int worker, std::size_t slot, std::size_t stage,
                        std::span<float> part) override;
  std::shared_ptr<const tensor::Event> reached(std::size_t slot) const override;
  Result<void> settle() override;
  Result<Evaluation> evaluate(int worker, std::span<const Sample> samples) override;
  Result<void> scores(int worker, std::span<const Sample> samples, std::span<float> out) override;
  Result<std::unique_ptr<Session>> session() override;
  Result<std::unique_ptr<Decoder>> decoder(const DecoderOptions& options) override;
  Result<std::unique_ptr<DecoderPart>> part(const ModelPart& part, ByteView image,
                                            const DecoderOptions& options) override;
  Result<std::unique_ptr<Encoder>> encoder() override;

  const GraphModel& model() const { return model_; }
  ops::Backend& backend() { return backend_; }
  tensor::BufferPool& pool() { return pool_; }
  const float* weights() const { return weights_.data(); }
  ops::WeightFormat format() const { return format_; }
  // Placed beside the weights when the program is opened, and the same in all graphs of a model.
  const float* constants() const { return constant_memory_.as<const float>(); }
  // `made`, if its constants are those. Fails with: invalid_argument, and what `made` failed with.
  Result<SharedExecutable> with_constants(Result<SharedExecutable> made) const;
  // What must have been done before the weights can be read. Fails with: wrong_state.
  Result<void> require_loaded() const;

 private:
  struct Worker {
    tensor::Workspace workspace;
    tensor::Buffer scratch{};
    std::size_t workspace_bytes = 0;
    // What was too small, and may be in use until the program settles.
    std::vector<tensor::Buffer> outgrown{};
    std::vector<tensor::Workspace> outgrown_workspaces{};
    StageReplays replays{};
    std::unique_ptr<tensor::Stream> stream{};  // goes first, and waits for what uses the memory
  };
  struct Slot {
    SharedExecutable executable;  // of the slice under way
    tensor::Buffer memory;
    tensor::Buffer inputs;  // as the host has read them, in its memory
    std::size_t samples = 0;
    std::size_t counted = 0;  // targets that have a part in the loss
    // Behind the stage that was asked for last, and by whom.
    std::shared_ptr<const tensor::Event> reached = nullptr;
    const Worker* worker = nullptr;
  };
  // `part` is null: all of the model, with the weights that are loaded.
  Result<std::unique_ptr<DecoderPart>> open_part(const ModelPart* part, ByteView image,
                                                 const DecoderOptions& options);
  Worker& worker_at(int worker);
  Slot& slot_at(std::size_t slot);
  Result<SharedExecutable> executable_for(graph::Purpose purpose, std::size_t samples);
  // Of a forward pass whose samples do not depend on one another.
  Result<SharedExecutable> answering_for(std::size_t samples);
  // Makes a slot ready for these samples, with their inputs in place; and a worker for a slot's
  // graph. Fail with: invalid_argument, out_of_memory.
  Result<void> prepare(Slot& slot, Result<SharedExecutable> executable,
                       std::span<const Sample> samples, tensor::Stream& stream);
  Result<void> read_inputs(Slot& slot, std::span<const Sample> samples, tensor::Stream& stream);
  Result<void> prepare(Worker& worker, const graph::Executable& executable);
  graph::Places places_of(const Worker& worker, const Slot& slot);
  // A stage of the slot's, behind its earlier ones. Returns before it has run.
  Result<void> run(Worker& worker, Slot& slot, std::size_t stage, const graph::Places& places);
  // What the worker's stream does next comes behind the slot's earlier stages.
  Result<void> follow(Worker& worker, const Slot& slot);
  Result<void> note_reached(Worker& worker, Slot& slot);
  Result<void> place_constants(SharedExecutable executable);
  // Runs a forward pass of these samples. Fails with: what prepare() and run() fail with.
  Result<void> run_forward(Worker& worker, Slot& slot, Result<SharedExecutable> executable,
                           std::span<const Sample> samples);
  // Of the slot's slice, after its last forward stage: a value as floats; the sum over the losses;
  // how many targets have the largest score of their row.
  Result<std::vector<float>> values_of(graph::ValueId id, Worker& worker, const Slot& slot);
  Result<double> loss_of(Worker& worker, const Slot& slot);
  Result<std::uint64_t> correct_of(Worker& worker, const Slot& slot);

  const GraphModel& model_;
  ops::Backend& backend_;
  tensor::BufferPool pool_, staging_pool_;  // of the device's memory, and the host's for copies
  std::span<const float> weights_;          // the owner's; of an image its words
  ops::WeightFormat format_ = ops::WeightFormat::fp32;
  tensor::Buffer constant_memory_;
  PackedWeights packed_;
  SharedExecutable first_;  // whose constants these are
  std::unique_ptr<tensor::Stream> stream_;
  std::vector<Worker> workers_;
  std::vector<Slot> slots_;  // a worker's own at least
  std::mutex mutex_;         // of the graphs
  std::map<std::tuple<graph::Purpose, std::size_t, ops::WeightFormat>, SharedExecutable> graphs_;
  KeptGraphs<std::pair<std::size_t, ops::WeightFormat>> answering_;
};

}  // namespace gpunode::model
