#include "kernels/model/detail/gpt_program.hpp"

#include <algorithm>

namespace gpunode::model {
namespace {

// Evaluation takes samples in groups of this many, so that its memory stays small and its bits do
// not depend on how many a caller passes at once.
constexpr std::size_t kEvaluationGroup = 4;

std::size_t workspace_bytes(const GptConfig& config) {
  return ops::attention_workspace_bytes(config.context, config.channels / config.heads);
}

}  // namespace

GptProgram::GptProgram(const Gpt& model, ops::Backend& backend)
    : model_(model),
      backend_(backend),
      pool_(backend.memory(), backend.capabilities().memory_bytes) {}

Result<std::unique_ptr<Program>> GptProgram::open(const Gpt& model, ops::Backend& backend,
                                                  int lanes) {
  const auto missing = backend.operations().missing();
  if (!missing.empty() || !backend.capabilities().host_accessible) {
    std::string names;
    for (std::string_view name : missing) names += (names.empty() ? "" : ", ") + std::string(name);
    return {ErrorCode::unsupported, backend.device().name + " cannot run " + model.name() +
                                        " yet (missing: " + names + "): use the CPU"};
  }
  if (lanes < 1 || lanes > 1024)
    return {ErrorCode::invalid_argument, "a program has 1 to 1024 lanes"};
  auto program = std::make_unique<GptProgram>(model, backend);
  for (int lane = 0; lane < lanes; ++lane) {
    auto stream = backend.open_stream();
    if (!stream) return stream.error();
    program->lanes_.push_back(std::make_unique<Lane>(std::move(*stream), program->pool_));
  }
  auto stream = backend.open_stream();
  if (!stream) return stream.error();
  program->stream_ = std::move(*stream);
  auto memory = program->pool_.take(model.parameter_count() * sizeof(float));
  if (!memory) return memory.error().within("weights of " + model.name());
  program->weight_memory_ = std::move(*memory);
  program->weights_ = views_of<const float>(model, program->weight_memory_.as<const float>());
  return std::unique_ptr<Program>(std::move(program));
}

std::uint64_t GptProgram::working_bytes(const Gpt& model, int lanes, std::size_t samples) {
  Carver carver(nullptr);
  carve_activations(carver, model.shape(), static_cast<std::int64_t>(samples),
                    model.shape().context);
  carve_scratch(carver, model.shape(), static_cast<std::int64_t>(samples), model.shape().context);
  return static_cast<std::uint64_t>(lanes) * (carver.used_bytes() + workspace_bytes(model.shape()));
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

Result<void> require_loaded(const GptProgram& program) {
  if (program.loaded()) return {};
  return {ErrorCode::wrong_state, "no weights are loaded yet: call load first"};
}

GptProgram::Lane& GptProgram::lane_at(int lane) {
  GPUNODE_CHECK(lane >= 0 && static_cast<std::size_t>(lane) < lanes_.size(),
                "lane " + std::to_string(lane) + " of " + std::to_string(lanes_.size()));
  return *lanes_[static_cast<std::size_t>(lane)];
}

Result<GptBatch> GptProgram::prepare(Lane& lane, std::span<const Sample> samples) {
  const GptConfig& config = model_.shape();
  const auto B = static_cast<std::int64_t>(samples.size()), T = config.context;
  lane.tokens.clear();
  lane.targets.clear();
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
    lane.tokens.insert(lane.tokens.end(), sample.bytes.begin(), sample.bytes.end() - 1);
    lane.targets.insert(lane.targets.end(), sample.bytes.begin() + 1, sample.bytes.end());
  }
  if (lane.samples != samples.size()) {
    Carver count(nullptr);
    carve_activations(count, config, B, T);
    carve_scratch(count, config, B, T);
    if (lane.memory.size() < count.used_bytes()) {
      lane.samples = 0;
      lane.memory = tensor::Buffer();
      auto memory = pool_.take(count.used_bytes());
      if (!memory) return memory.error().within("activations of " + model_.name());
      lane.memory = std::move(*memory);
    }
    Carver carver(lane.memory.as<float>());
    lane.activations = carve_activations(carver, config, B, T);
    lane.scratch = carve_scratch(carver, config, B, T);
    lane.samples = samples.size();
  }
  if (auto done = lane.workspace.reserve(workspace_bytes(config)); !done) return done.error();
  return GptBatch{{lane.tokens.data(), {B, T}}, {lane.targets.data(), {B, T}}};
}

Result<double> GptProgram::forward_loss(Lane& lane, const GptBatch& batch,
                                        OperationSequence& sequence, bool keep_gradient) {
  forward(sequence, model_.shape(), weights_, batch, lane.activations, keep_gradient);
  if (auto done = sequence.finish(); !done) return done.error();
  double sum = 0;
  const tensor::Tensor& losses = lane.activations.losses;
  for (std::int64_t token = 0; token < losses.element_count(); ++token) sum += losses.data[token];
  return sum;
}

Result<float> GptProgram::gradient(int lane_number, std::span<const Sample> samples,
                                   std::span<float> gradient_sum) {
  if (auto ready = require_loaded(*this); !ready) return ready.error();
  if (gradient_sum.size() != model_.parameter_count())
    return {ErrorCode::invalid_argument, "the gradient's size is not the model's"};
  if (samples.empty()) {
    std::fill(gradient_sum.begin(), gradient_sum.end(), 0.0f);
    return 0.0f;
  }
  Lane& lane = lane_at(lane_number);
  auto batch = prepare(lane, samples);
  if (!batch) return batch.error();
  OperationSequence sequence(backend_.operations(), *lane.stream, lane.workspace);
  auto loss = forward_loss(lane, *batch, sequence, true);
  if (!loss) return loss.error();
  GptViews<float> gradients = views_of<float>(model_, gradient_sum.data());
  backward(sequence, model_.shape(), weights_, *batch, lane.activations, lane.scratch, gradients);
  if (auto done = sequence.finish(); !done) return done.error();
  return static_cast<float>(*loss);
}

Result<double> GptProgram::evaluate(int lane_number, std::span<const Sample> samples) {
  if (auto ready = require_loaded(*this); !ready) return ready.error();
  Lane& lane = lane_at(lane_number);
  double sum = 0;
  for (std::size_t first = 0; first < samples.size(); first += kEvaluationGroup) {
    const auto count = std::min(kEvaluationGroup, samples.size() - first);
    auto batch = prepare(lane, samples.subspan(first, count));
    if (!batch) return batch.error();
    OperationSequence sequence(backend_.operations(), *lane.stream, lane.workspace);
    auto loss = forward_loss(lane, *batch, sequence, false);
    if (!loss) return loss.error();
    sum += *loss;
  }
  return sum;
}

Result<std::unique_ptr<Session>> GptProgram::session() {
  return open_gpt_session(*this);
}

}  // namespace gpunode::model
