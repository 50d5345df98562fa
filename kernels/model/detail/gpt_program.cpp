#include "kernels/model/detail/gpt_program.hpp"

#include <algorithm>

namespace gpunode::model {
namespace {

// Evaluation takes samples in groups of this many, so that its memory stays small and its bits do
// not depend on how many a caller passes at once.
constexpr std::size_t kEvaluationGroup = 4;

GptActivations carve_slot(Carver& carver, const Gpt& model, std::size_t samples) {
  return carve_activations(carver, model.shape(), static_cast<std::int64_t>(samples),
                           model.shape().context);
}

// What is carved for so many samples. More than any machine has, where that is so: the largest
// settings have more bytes than 64 bits count.
template <class Carve>
std::uint64_t bytes_for(std::size_t samples, const Carve& carve) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 50;
  const auto bytes_of = [&](std::size_t count) {
    Carver carver(nullptr);
    carve(carver, count);
    return std::uint64_t{carver.used_bytes()};
  };
  return samples > kMost / bytes_of(1) ? kMost : bytes_of(samples);
}

Result<void> grow(tensor::Buffer& buffer, std::size_t bytes, tensor::BufferPool& pool) {
  if (buffer.size() >= bytes) return {};
  buffer = tensor::Buffer();
  auto memory = pool.take(bytes);
  if (!memory) return memory.error();
  buffer = std::move(*memory);
  return {};
}

std::size_t workspace_bytes(const GptConfig& config) {
  return ops::attention_workspace_bytes(config.context, config.channels / config.heads);
}

}  // namespace

GptProgram::GptProgram(const Gpt& model, ops::Backend& backend)
    : model_(model),
      backend_(backend),
      pool_(backend.memory(), backend.capabilities().memory_bytes) {}

Result<std::unique_ptr<Program>> GptProgram::open(const Gpt& model, ops::Backend& backend,
                                                  int workers) {
  const auto missing = backend.operations().missing();
  if (!missing.empty() || !backend.capabilities().host_accessible) {
    std::string names;
    for (std::string_view name : missing) names += (names.empty() ? "" : ", ") + std::string(name);
    return {ErrorCode::unsupported, backend.device().name + " cannot run " + model.name() +
                                        " yet (missing: " + names + "): use the CPU"};
  }
  if (workers < 1 || workers > 1024)
    return {ErrorCode::invalid_argument, "a program has 1 to 1024 workers"};
  auto program = std::make_unique<GptProgram>(model, backend);
  for (int worker = 0; worker < workers; ++worker) {
    auto stream = backend.open_stream();
    if (!stream) return stream.error();
    program->workers_.push_back(
        std::make_unique<WorkerScratch>(std::move(*stream), program->pool_));
  }
  program->make_slots(static_cast<std::size_t>(workers));
  auto stream = backend.open_stream();
  if (!stream) return stream.error();
  program->stream_ = std::move(*stream);
  auto memory = program->pool_.take(model.parameter_count() * sizeof(float));
  if (!memory) return memory.error().within("weights of " + model.name());
  program->weight_memory_ = std::move(*memory);
  program->weights_ = views_of<const float>(model, program->weight_memory_.as<const float>());
  return std::unique_ptr<Program>(std::move(program));
}

std::uint64_t GptProgram::slot_bytes(const Gpt& model, std::size_t samples) {
  return bytes_for(samples,
                   [&](Carver& carver, std::size_t count) { carve_slot(carver, model, count); });
}

std::uint64_t GptProgram::working_bytes(const Gpt& model, int workers, std::size_t samples) {
  const std::uint64_t scratch = bytes_for(samples, [&](Carver& carver, std::size_t count) {
    carve_scratch(carver, model.shape(), static_cast<std::int64_t>(count), model.shape().context);
  });
  return static_cast<std::uint64_t>(workers) *
         (scratch + slot_bytes(model, samples) + workspace_bytes(model.shape()));
}

Result<void> GptProgram::load(std::span<const float> parameters) {
  if (parameters.size() != model_.parameter_count())
    return {ErrorCode::invalid_argument, std::to_string(parameters.size()) + " parameters given, " +
                                             model_.name() + " has " +
                                             std::to_string(model_.parameter_count())};
  if (auto done = backend_.upload(*stream_, parameters, weight_memory_.as<float>()); !done)
    return done;
  loaded_ = true;
  return stream_->synchronise();
}

Result<void> GptProgram::load_part(std::span<const float> parameters, ElementRange part) {
  if (auto ready = require_loaded(*this); !ready) return ready;
  if (parameters.size() != model_.parameter_count() || part.first > parameters.size() ||
      part.count > parameters.size() - part.first)
    return {ErrorCode::invalid_argument, "the part lies outside the parameters"};
  if (auto done = backend_.upload(*stream_, parameters.subspan(part.first, part.count),
                                  weight_memory_.as<float>() + part.first);
      !done)
    return done;
  return stream_->synchronise();
}

Result<void> require_loaded(const GptProgram& program) {
  if (program.loaded()) return {};
  return {ErrorCode::wrong_state, "no weights are loaded yet: call load first"};
}

GptProgram::WorkerScratch& GptProgram::scratch_of(int worker) {
  GPUNODE_CHECK(worker >= 0 && static_cast<std::size_t>(worker) < workers_.size(),
                "worker " + std::to_string(worker) + " of " + std::to_string(workers_.size()));
  return *workers_[static_cast<std::size_t>(worker)];
}

GptProgram::Slot& GptProgram::slot_at(std::size_t slot) {
  GPUNODE_CHECK(slot < slots_.size(),
                "slot " + std::to_string(slot) + " of " + std::to_string(slots_.size()));
  return *slots_[slot];
}

void GptProgram::make_slots(std::size_t count) {
  while (slots_.size() < count) slots_.push_back(std::make_unique<Slot>());
}

GptBatch GptProgram::Slot::batch() const {
  const tensor::Shape& shape = activations.embedded.shape;
  return {{tokens.data(), {shape[0], shape[1]}}, {targets.data(), {shape[0], shape[1]}}};
}

Result<void> GptProgram::prepare(Slot& slot, std::span<const Sample> samples) {
  const GptConfig& config = model_.shape();
  slot.tokens.clear();
  slot.targets.clear();
  for (const Sample& sample : samples) {
    if (sample.bytes.size() != model_.sample_bytes())
      return {ErrorCode::invalid_argument, "sample " + std::to_string(sample.index) + " has " +
                                               std::to_string(sample.bytes.size()) + " bytes, " +
                                               model_.name() + " reads " +
                                               std::to_string(model_.sample_bytes())};
    const auto largest = *std::max_element(sample.bytes.begin(), sample.bytes.end());
    if (largest >= config.vocabulary)
      return {ErrorCode::invalid_argument,
              "sample " + std::to_string(sample.index) + " holds byte " + std::to_string(largest) +
                  ", but vocabulary = " + std::to_string(config.vocabulary) + ": raise it to 256"};
    slot.tokens.insert(slot.tokens.end(), sample.bytes.begin(), sample.bytes.end() - 1);
    slot.targets.insert(slot.targets.end(), sample.bytes.begin() + 1, sample.bytes.end());
  }
  if (slot.samples == samples.size()) return {};
  slot.samples = 0;
  Carver count(nullptr);
  carve_slot(count, model_, samples.size());
  if (auto grown = grow(slot.memory, count.used_bytes(), pool_); !grown)
    return grown.error().within("activations of " + model_.name());
  Carver carver(slot.memory.as<float>());
  slot.activations = carve_slot(carver, model_, samples.size());
  slot.samples = samples.size();
  return {};
}

Result<void> GptProgram::prepare(WorkerScratch& worker, std::size_t samples) {
  const GptConfig& config = model_.shape();
  if (auto done = worker.workspace.reserve(workspace_bytes(config)); !done) return done.error();
  if (worker.samples == samples) return {};
  worker.samples = 0;
  const auto B = static_cast<std::int64_t>(samples);
  Carver count(nullptr);
  carve_scratch(count, config, B, config.context);
  if (auto grown = grow(worker.memory, count.used_bytes(), pool_); !grown)
    return grown.error().within("scratch of " + model_.name());
  Carver carver(worker.memory.as<float>());
  worker.scratch = carve_scratch(carver, config, B, config.context);
  worker.samples = samples;
  return {};
}

Result<void> GptProgram::forward_stage(WorkerScratch& worker, Slot& slot, std::size_t stage,
                                       bool keep_gradient, double& loss) {
  const std::size_t layers = weights_.blocks.size();
  OperationSequence sequence(backend_.operations(), *worker.stream, worker.workspace);
  if (stage == 0) {
    forward_of_embedding(sequence, weights_, slot.batch(), slot.activations);
  } else if (stage > 2 * layers) {
    forward_of_head(sequence, weights_, slot.batch(), slot.activations, keep_gradient);
  } else {
    const std::size_t layer = (stage - 1) / 2;
    if (stage % 2 == 1)
      forward_of_attention(sequence, model_.shape(), layer, weights_.blocks[layer],
                           slot.activations);
    else
      forward_through_network(sequence, weights_.blocks[layer], slot.activations.blocks[layer]);
  }
  if (auto done = sequence.finish(); !done || stage <= 2 * layers) return done;
  const tensor::Tensor& losses = slot.activations.losses;
  loss = 0;
  for (std::int64_t token = 0; token < losses.element_count(); ++token) loss += losses.data[token];
  return {};
}

Result<float> GptProgram::forward(int worker_number, std::size_t slot_number, std::size_t stage,
                                  std::span<const Sample> samples) {
  Slot& slot = slot_at(slot_number);
  if (samples.empty()) {
    slot.samples = 0;
    return 0.0f;
  }
  WorkerScratch& worker = scratch_of(worker_number);
  if (auto ready = require_loaded(*this); !ready) return ready.error();
  if (stage == 0)
    if (auto done = prepare(slot, samples); !done) return done.error();
  if (auto done = prepare(worker, samples.size()); !done) return done.error();
  double loss = 0;
  if (auto done = forward_stage(worker, slot, stage, true, loss); !done) return done.error();
  return static_cast<float>(loss);
}

Result<void> GptProgram::backward(int worker_number, std::size_t slot_number, std::size_t stage,
                                  std::span<float> part) {
  const GptOffsets& at = model_.offsets();
  const std::size_t layers = at.blocks.size();
  const ElementRange range = model_.stages().at(stage);
  if (part.size() != range.count)
    return {ErrorCode::invalid_argument, "the part's size is not the stage's"};
  Slot& slot = slot_at(slot_number);
  if (slot.samples == 0) {
    std::fill(part.begin(), part.end(), 0.0f);
    return {};
  }
  WorkerScratch& worker = scratch_of(worker_number);
  if (auto done = prepare(worker, slot.samples); !done) return done.error();
  OperationSequence sequence(backend_.operations(), *worker.stream, worker.workspace);
  const auto element = [&](std::size_t offset) { return part.data() + (offset - range.first); };
  const std::int64_t C = model_.shape().channels;
  if (stage == 0)
    backward_of_head(sequence, weights_, slot.activations, worker.scratch,
                     {element(at.norm_weight), {C}}, {element(at.norm_bias), {C}});
  if (stage == 3 * layers) {
    backward_of_embedding(sequence, slot.batch(), slot.activations,
                          {element(at.token_table), {model_.shape().vocabulary, C}},
                          {element(at.position_table), {model_.shape().context, C}});
    return sequence.finish();
  }
  const std::size_t layer = layers - 1 - stage / 3;
  const auto& weights = weights_.blocks[layer];
  const auto gradients = block_views_of(model_, layer, part.data(), range);
  if (stage % 3 == 0)
    backward_of_reduce(sequence, layer, weights, slot.activations, gradients);
  else if (stage % 3 == 1)
    backward_of_expand(sequence, layer, weights, slot.activations, worker.scratch, gradients);
  else
    backward_of_attention(sequence, model_.shape(), layer, weights, slot.activations,
                          worker.scratch, gradients);
  return sequence.finish();
}

Result<float> GptProgram::gradient(int worker, std::span<const Sample> samples,
                                   std::span<float> gradient_sum) {
  if (auto ready = require_loaded(*this); !ready) return ready.error();
  if (gradient_sum.size() != model_.parameter_count())
    return {ErrorCode::invalid_argument, "the gradient's size is not the model's"};
  const auto slot = static_cast<std::size_t>(worker);
  Result<float> loss = 0.0f;
  for (std::size_t stage = 0; stage < model_.forward_stages().size(); ++stage) {
    loss = forward(worker, slot, stage, samples);
    if (!loss) return loss;
  }
  const auto ranges = model_.stages();
  for (std::size_t stage = 0; stage < ranges.size(); ++stage) {
    const auto part = gradient_sum.subspan(ranges[stage].first, ranges[stage].count);
    if (auto done = backward(worker, slot, stage, part); !done) return done.error();
  }
  return loss;
}

Result<double> GptProgram::evaluate(int worker, std::span<const Sample> samples) {
  if (auto ready = require_loaded(*this); !ready) return ready.error();
  double sum = 0;
  for (std::size_t first = 0; first < samples.size(); first += kEvaluationGroup) {
    const auto count = std::min(kEvaluationGroup, samples.size() - first);
    Slot& slot = slot_at(static_cast<std::size_t>(worker));
    if (auto done = prepare(slot, samples.subspan(first, count)); !done) return done.error();
    if (auto done = prepare(scratch_of(worker), count); !done) return done.error();
    double loss = 0;
    for (std::size_t stage = 0; stage < model_.forward_stages().size(); ++stage)
      if (auto done = forward_stage(scratch_of(worker), slot, stage, false, loss); !done)
        return done.error();
    sum += loss;
  }
  return sum;
}

Result<std::unique_ptr<Session>> GptProgram::session() {
  return open_gpt_session(*this);
}

}  // namespace gpunode::model
