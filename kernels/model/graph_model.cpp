#include "kernels/model/graph_model.hpp"

#include <cmath>
#include <numbers>

#include "kernels/graph/op.hpp"
#include "kernels/model/detail/graph_program.hpp"
#include "kernels/model/weight_layout.hpp"
#include "kernels/tensor/exact_math.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::model {
namespace {

// More than any machine has: the largest settings have more bytes than 64 bits count.
constexpr std::uint64_t kMost = std::uint64_t{1} << 50;

// One standard normal value for each counter: Box and Muller's transform of two uniform ones.
double normal_value(std::uint64_t seed, std::uint64_t element) {
  const auto uniform = [&](std::uint64_t counter) {  // in (0, 1)
    return (static_cast<double>(mix(seed, counter) >> 11) + 0.5) * 0x1.0p-53;
  };
  const double radius = std::sqrt(-2.0 * tensor::exact_log(uniform(2 * element)));
  return radius * tensor::exact_cos(2.0 * std::numbers::pi * uniform(2 * element + 1));
}

// What the plan of a slice says by `bytes_of`; what grows with the samples grows in proportion.
template <class BytesOf>
std::uint64_t planned_bytes(const GraphModel& model, graph::Purpose purpose, std::size_t samples,
                            const BytesOf& bytes_of) {
  constexpr std::size_t kPlanned = 64;  // shapes stay within what 64 bits count
  const auto executable = compile(model, purpose, std::min(samples, kPlanned));
  if (!executable) return kMost;
  const std::uint64_t bytes = bytes_of((*executable)->plan());
  if (samples <= kPlanned) return std::min(bytes, kMost);
  const std::uint64_t one = bytes / kPlanned + 1;
  return samples > kMost / one ? kMost : samples * one;
}

}  // namespace

Result<void> GraphModel::prepare() {
  constexpr std::int64_t kMostPositions = 1 << 24;
  if (context() < 1 || context() > kMostPositions)
    return {ErrorCode::invalid_argument, "context() is " + std::to_string(context()) +
                                             ": a sample has 1 to " +
                                             std::to_string(kMostPositions) + " positions"};
  graph::Builder builder({.samples = 1, .positions = context()});
  forward(builder);
  if (auto finished = builder.finish(); !finished) return finished.error();
  const auto executable = compile(*this, graph::Purpose::train, 1);
  if (!executable) return executable.error();
  const graph::Graph& graph = (*executable)->graph();
  const tensor::Shape& logits = graph[graph.logits].shape;
  if (logits.rank() == 0 || static_cast<std::size_t>(logits[logits.rank() - 1]) != vocabulary())
    return {ErrorCode::invalid_argument,
            "its logits are " + logits.text() + ", but vocabulary() is " +
                std::to_string(vocabulary()) + ": that is how many each row has"};
  for (const graph::Declared& one : builder.declared()) {
    const graph::Value& value = graph[one.value];
    ParameterSpec spec{value.name,
                       {},
                       one.decay,
                       value.differentiable ? ParameterKind::trained : ParameterKind::buffer,
                       one.momentum};
    for (int at = 0; at < value.shape.rank(); ++at) spec.shape.push_back(value.shape[at]);
    parameters_.push_back(std::move(spec));
    initials_.push_back(one.initial);
  }
  if (graph.represented != graph::kNone)
    representation_ = static_cast<std::size_t>(graph[graph.represented].shape[2]);
  parameter_count_ = graph.parameter_count;
  constant_bytes_ = graph.constant_count * sizeof(float);
  stages_ = graph.made_final;
  forward_stages_ = graph.read_first;
  return {};
}

Result<void> GraphModel::read_text(std::span<const Token>, std::span<const InputPart>) const {
  return {ErrorCode::unsupported, name() + " does not represent texts"};
}

void GraphModel::initialise(std::uint64_t seed, std::span<float> parameters) const {
  GPUNODE_CHECK(parameters.size() == parameter_count_, "initialise: wrong number of parameters");
  std::size_t element = 0;
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    const graph::Initial& initial = initials_[index];
    for (const std::size_t end = element + parameters_[index].element_count(); element < end;
         ++element)
      parameters[element] =
          initial.kind == graph::Initial::Kind::constant
              ? initial.value
              : static_cast<float>(double{initial.value} * normal_value(seed, element));
  }
}

std::uint64_t GraphModel::slot_bytes(std::size_t samples_per_slice) const {
  return planned_bytes(*this, graph::Purpose::train, samples_per_slice,
                       [](const graph::MemoryPlan& plan) { return plan.slice_bytes; });
}

std::uint64_t GraphModel::working_bytes(int workers, std::size_t samples_per_slice) const {
  std::uint64_t packed = 0;
  if (precision_ == Precision::bf16)
    if (const auto executable = compile(*this, graph::Purpose::train, 1))
      packed = packed_weight_bytes((*executable)->graph());
  const auto all = [](const graph::MemoryPlan& plan) {
    return plan.slice_bytes + plan.scratch_bytes + plan.workspace_bytes;
  };
  // An evaluation keeps its own slices, and has their scores on the host besides.
  const std::uint64_t scores =
      sizeof(float) * kEvaluationGroup * tokens_per_sample() * vocabulary();
  const std::uint64_t each = planned_bytes(*this, graph::Purpose::train, samples_per_slice, all) +
                             planned_bytes(*this, graph::Purpose::forward, kEvaluationGroup, all) +
                             scores;
  return constant_bytes_ + packed + static_cast<std::uint64_t>(workers) * each;
}

double GraphModel::slice_flops(std::size_t samples_per_slice) const {
  const auto executable = compile(*this, graph::Purpose::train, samples_per_slice);
  return executable ? graph::cost_of((*executable)->graph()).flops : 0;
}

Result<WeightLayout> GraphModel::weight_layout(ops::WeightFormat format) const {
  if (format == ops::WeightFormat::fp32) return flat_layout(*this);
  const auto executable = compile(*this, graph::Purpose::forward, 1, format);
  if (!executable) return executable.error();
  const graph::Graph& graph = (*executable)->graph();
  WeightLayout layout{
      .format = format, .places = {}, .bytes = graph.parameter_count * sizeof(float)};
  for (const graph::ValueId id : graph.parameters) {
    const graph::Value& value = graph[id];
    const int rank = value.shape.rank();
    layout.places.push_back({.first = value.first * sizeof(float),
                             .format = value.format,
                             .inner = rank == 0 ? 1 : value.shape[rank - 1],
                             .bytes = value.bytes()});
  }
  return layout;
}

Result<std::unique_ptr<Program>> GraphModel::program(ops::Backend& backend, int workers) const {
  return GraphProgram::open(*this, backend, workers);
}

Result<SharedExecutable> compile(const GraphModel& model, graph::Purpose purpose,
                                 std::size_t samples, ops::WeightFormat weights,
                                 bool independent_rows) {
  graph::Builder builder({.samples = static_cast<std::int64_t>(samples),
                          .positions = model.context(),
                          .training = purpose == graph::Purpose::train});
  model.forward(builder);
  auto forward = builder.finish();
  if (!forward) return forward.error();
  return graph::compile(std::move(*forward), purpose,
                        {.precision = independent_rows ? Precision::fp32 : model.precision(),
                         .independent_rows = independent_rows,
                         .weights = weights});
}

graph::ValueId linear(graph::Builder& builder, const LinearShape& shape, graph::ValueId x) {
  const graph::ValueId weight =
      builder.parameter(shape.name + ".weight", {shape.N, shape.K}, graph::normal(shape.deviation));
  const graph::ValueId bias =
      shape.with_bias ? builder.parameter(shape.name + ".bias", {shape.N}, graph::constant(0))
                      : graph::kNone;
  return builder.linear(x, weight, bias);
}

}  // namespace gpunode::model
