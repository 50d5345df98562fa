#include "kernels/model/detail/gpt_program.hpp"

#include <algorithm>

namespace gpunode::model {
namespace {

// Evaluation takes samples in groups of this many, so that its memory stays small and its bits do
// not depend on how many a caller passes at once.
constexpr std::size_t kEvaluationGroup = 4;

// What is carved for so many samples. More than any machine has, where that is so: the largest
// settings have more bytes than 64 bits count.
template <class Carve>
std::uint64_t bytes_for(std::size_t samples, const Carve& carve) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 50;
  const auto bytes_of = [&](std::size_t count) {
    Carver carver(nullptr);
    carve(carver, static_cast<std::int64_t>(count));
    return std::uint64_t{carver.used_bytes()};
  };
  return samples > kMost / bytes_of(1) ? kMost : bytes_of(samples);
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
    program->workers_.push_back({std::move(*stream), tensor::Workspace(program->pool_)});
  }
  program->make_slots(static_cast<std::size_t>(workers));
  auto stream = backend.open_stream();
  if (!stream) return stream.error();
  program->stream_ = std::move(*stream);
  auto memory = program->pool_.take(model.parameter_count() * sizeof(float));
  if (!memory) return memory.error().within("weights of " + model.name());
  program->weight_memory_ = std::move(*memory);
  const auto view =
      viewer_of(program->weight_memory_.as<const float>(), {0, model.parameter_count()});
  const GptParameters<GptPlace>& at = model.places();
  program->weights_ = {
      view(at.token_table), view(at.position_table), {}, view(at.norm_weight), view(at.norm_bias)};
  for (const auto& block : at.blocks) program->weights_.blocks.push_back(block.mapped(view));
  return std::unique_ptr<Program>(std::move(program));
}

std::uint64_t Gpt::slot_bytes(std::size_t samples_per_slice) const {
  return bytes_for(samples_per_slice, [&](Carver& carver, std::int64_t samples) {
    carve_activations(carver, config_, samples);
  });
}

std::uint64_t Gpt::working_bytes(int workers, std::size_t samples_per_slice) const {
  const std::uint64_t scratch = bytes_for(
      samples_per_slice,
      [&](Carver& carver, std::int64_t samples) { carve_scratch(carver, config_, samples); });
  return static_cast<std::uint64_t>(workers) *
         (scratch + slot_bytes(samples_per_slice) + workspace_bytes(config_));
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
  if (auto ready = require_loaded(); !ready) return ready;
  if (parameters.size() != model_.parameter_count() || part.first > parameters.size() ||
      part.count > parameters.size() - part.first)
    return {ErrorCode::invalid_argument, "the part lies outside the parameters"};
  if (auto done = backend_.upload(*stream_, parameters.subspan(part.first, part.count),
                                  weight_memory_.as<float>() + part.first);
      !done)
    return done;
  return stream_->synchronise();
}

Result<void> GptProgram::require_loaded() const {
  if (loaded_) return {};
  return {ErrorCode::wrong_state, "no weights are loaded yet: call load first"};
}

GptProgram::WorkerScratch& GptProgram::scratch_of(int worker) {
  GPUNODE_CHECK(worker >= 0 && static_cast<std::size_t>(worker) < workers_.size(),
                "worker " + std::to_string(worker) + " of " + std::to_string(workers_.size()));
  return workers_[static_cast<std::size_t>(worker)];
}

GptProgram::Slot& GptProgram::slot_at(std::size_t slot) {
  GPUNODE_CHECK(slot < slots_.size(),
                "slot " + std::to_string(slot) + " of " + std::to_string(slots_.size()));
  return slots_[slot];
}

void GptProgram::make_slots(std::size_t count) {
  slots_.resize(std::max(slots_.size(), count));
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
  auto carved = carve_into(slot.memory, pool_, [&](Carver& carver) {
    slot.activations = carve_activations(carver, config, static_cast<std::int64_t>(samples.size()));
  });
  if (!carved) return carved.error().within("activations of " + model_.name());
  slot.samples = samples.size();
  return {};
}

Result<void> GptProgram::prepare(WorkerScratch& worker, std::size_t samples) {
  const GptConfig& config = model_.shape();
  if (auto done = worker.workspace.reserve(workspace_bytes(config)); !done) return done.error();
  if (worker.samples == samples) return {};
  worker.samples = 0;
  auto carved = carve_into(worker.memory, pool_, [&](Carver& carver) {
    worker.scratch = carve_scratch(carver, config, static_cast<std::int64_t>(samples));
  });
  if (!carved) return carved.error().within("scratch of " + model_.name());
  worker.samples = samples;
  return {};
}

GptPass GptProgram::pass_of(WorkerScratch& worker, Slot& slot) {
  return {.sequence = {backend_.operations(), *worker.stream, worker.workspace},
          .config = model_.shape(),
          .weights = weights_,
          .batch = slot.batch(),
          .activations = slot.activations,
          .scratch = worker.scratch};
}

Result<double> GptProgram::forward_stage(WorkerScratch& worker, Slot& slot, std::size_t stage,
                                         bool keep_gradient) {
  const std::size_t layers = weights_.blocks.size();
  GptPass pass = pass_of(worker, slot);
  if (stage == 0)
    pass.forward_of_embedding();
  else if (stage > 2 * layers)
    pass.forward_of_head(keep_gradient);
  else if (stage % 2 == 1)
    pass.forward_of_attention((stage - 1) / 2);
  else
    pass.forward_of_network((stage - 1) / 2);
  if (auto done = pass.sequence.finish(); !done) return done.error();
  double loss = 0;
  if (stage <= 2 * layers) return loss;
  const tensor::Tensor& losses = slot.activations.losses;
  for (std::int64_t token = 0; token < losses.element_count(); ++token) loss += losses.data[token];
  return loss;
}

Result<float> GptProgram::forward(int worker_number, std::size_t slot_number, std::size_t stage,
                                  std::span<const Sample> samples) {
  Slot& slot = slot_at(slot_number);
  if (samples.empty()) {
    slot.samples = 0;
    return 0.0f;
  }
  WorkerScratch& worker = scratch_of(worker_number);
  if (auto ready = require_loaded(); !ready) return ready.error();
  if (stage == 0)
    if (auto done = prepare(slot, samples); !done) return done.error();
  if (auto done = prepare(worker, samples.size()); !done) return done.error();
  const auto loss = forward_stage(worker, slot, stage, true);
  if (!loss) return loss.error();
  return static_cast<float>(*loss);
}

Result<void> GptProgram::backward(int worker_number, std::size_t slot_number, std::size_t stage,
                                  std::span<float> part) {
  const GptParameters<GptPlace>& at = model_.places();
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
  GptPass pass = pass_of(worker, slot);
  const auto view = viewer_of(part.data(), range);
  if (stage == 3 * layers) {
    pass.backward_of_embedding(view(at.token_table), view(at.position_table));
    return pass.sequence.finish();
  }
  if (stage == 0) pass.backward_of_head(view(at.norm_weight), view(at.norm_bias));
  const std::size_t layer = layers - 1 - stage / 3;
  const GptBlockGradients gradients = at.blocks[layer].mapped(view);
  if (stage % 3 == 0)
    pass.backward_of_reduce(layer, gradients);
  else if (stage % 3 == 1)
    pass.backward_of_expand(layer, gradients);
  else
    pass.backward_of_attention(layer, gradients);
  return pass.sequence.finish();
}

Result<float> GptProgram::gradient(int worker, std::span<const Sample> samples,
                                   std::span<float> gradient_sum) {
  if (auto ready = require_loaded(); !ready) return ready.error();
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
  if (auto ready = require_loaded(); !ready) return ready.error();
  double sum = 0;
  for (std::size_t first = 0; first < samples.size(); first += kEvaluationGroup) {
    const auto count = std::min(kEvaluationGroup, samples.size() - first);
    Slot& slot = slot_at(static_cast<std::size_t>(worker));
    if (auto done = prepare(slot, samples.subspan(first, count)); !done) return done.error();
    if (auto done = prepare(scratch_of(worker), count); !done) return done.error();
    for (std::size_t stage = 0; stage < model_.forward_stages().size(); ++stage) {
      const auto loss = forward_stage(scratch_of(worker), slot, stage, false);
      if (!loss) return loss.error();
      sum += *loss;
    }
  }
  return sum;
}

}  // namespace gpunode::model
