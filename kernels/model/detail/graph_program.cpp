#include "kernels/model/detail/graph_program.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/model/detail/input_range.hpp"
#include "kernels/model/weight_layout.hpp"

namespace gpunode::model {
namespace {

std::string names_of(const std::vector<std::string_view>& missing) {
  std::string names;
  for (std::string_view name : missing) names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

// Targets that have a part in the loss.
std::size_t counted_targets(ByteView targets) {
  std::size_t count = 0;
  for (; !targets.empty(); targets = targets.subspan(sizeof(std::int32_t))) {
    std::int32_t target = 0;
    std::memcpy(&target, targets.data(), sizeof target);
    count += target != ops::kNoTarget;
  }
  return count;
}

}  // namespace

GraphProgram::GraphProgram(const GraphModel& model, ops::Backend& backend)
    : model_(model),
      backend_(backend),
      pool_(backend.memory(), backend.capabilities().memory_bytes),
      staging_pool_(backend.staging_memory(), backend.capabilities().memory_bytes) {}

Result<std::unique_ptr<Program>> GraphProgram::open(const GraphModel& model, ops::Backend& backend,
                                                    int workers) {
  if (workers < 1 || workers > 1024)
    return {ErrorCode::invalid_argument, "a program has 1 to 1024 workers"};
  auto program = std::make_unique<GraphProgram>(model, backend);
  auto first = program->executable_for(graph::Purpose::train, 1);
  if (!first) return first.error();
  const auto missing = (*first)->missing(backend);
  if (!missing.empty())
    return {ErrorCode::unsupported,
            backend.device().name + " cannot run " + model.name() + " in " +
                std::string(to_string(model.precision())) + " (missing: " + names_of(missing) +
                "): use " +
                (model.precision() == Precision::tf32 ? "precision fp32 or bf16" : "the CPU")};
  for (int worker = 0; worker < workers; ++worker) {
    auto stream = backend.open_stream();
    if (!stream) return stream.error();
    program->workers_.push_back(
        {.workspace = tensor::Workspace(program->pool_), .stream = std::move(*stream)});
  }
  program->make_slots(static_cast<std::size_t>(workers));
  auto stream = backend.open_stream();
  if (!stream) return stream.error();
  program->stream_ = std::move(*stream);
  if (auto done = program->packed_.place((*first)->graph(), program->pool_, backend.capabilities());
      !done)
    return done.error();
  if (auto done = program->place_constants(*first); !done) return done.error();
  return std::unique_ptr<Program>(std::move(program));
}

Result<void> GraphProgram::place_constants(SharedExecutable executable) {
  first_ = std::move(executable);
  const graph::Graph& graph = first_->graph();
  if (graph.constants.empty()) return {};
  auto memory = pool_.take(graph.constant_count * sizeof(float));
  if (!memory) return memory.error().within("constants of " + model_.name());
  constant_memory_ = std::move(*memory);
  for (const graph::Constant& one : graph.constants) {
    float* place = constant_memory_.as<float>() + graph[one.value].first;
    const auto bytes = std::as_bytes(std::span(*one.contents));
    if (auto done = backend_.upload(*stream_, bytes, place); !done) return done;
  }
  return stream_->synchronise();
}

Result<SharedExecutable> GraphProgram::with_constants(Result<SharedExecutable> made) const {
  if (!made || !first_) return made;
  const graph::Graph &mine = first_->graph(), &other = (*made)->graph();
  if (!std::ranges::equal(
          mine.parameters, other.parameters, [&](graph::ValueId one, graph::ValueId two) {
            return mine[one].name == other[two].name && mine[one].shape == other[two].shape;
          }))
    return Error{ErrorCode::invalid_argument,
                 model_.name() +
                     ": its forward pass declares other parameters depending on how "
                     "many samples or tokens it reads at once"};
  if (std::ranges::equal(first_->graph().constants, (*made)->graph().constants,
                         [](const graph::Constant& mine, const graph::Constant& other) {
                           return mine.contents == other.contents ||
                                  *mine.contents == *other.contents;
                         }))
    return made;
  return Error{ErrorCode::invalid_argument,
               model_.name() +
                   ": the constants of its forward pass depend on how many samples or "
                   "tokens it reads at once"};
}

Result<SharedExecutable> GraphProgram::executable_for(graph::Purpose purpose, std::size_t samples) {
  std::lock_guard lock(mutex_);
  SharedExecutable& known = graphs_[{purpose, samples, format_}];
  if (known) return known;
  if (purpose == graph::Purpose::train && format_ != ops::WeightFormat::fp32)
    return Error{ErrorCode::wrong_state, "weights in " + std::string(to_string(format_)) +
                                             " only answer; to train, load them in fp32"};
  auto made = with_constants(compile(model_, purpose, samples, format_));
  if (made) known = *made;
  return made;
}

Result<void> GraphProgram::load(std::span<const float> parameters) {
  if (parameters.size() != model_.parameter_count())
    return {ErrorCode::invalid_argument, std::to_string(parameters.size()) + " parameters given, " +
                                             model_.name() + " has " +
                                             std::to_string(model_.parameter_count())};
  weights_ = parameters;
  format_ = ops::WeightFormat::fp32;
  packed_.make_stale({0, parameters.size()});
  return {};
}

Result<void> GraphProgram::load_image(ops::WeightFormat format, ByteView image) {
  const auto layout = model_.weight_layout(format);
  if (!layout) return layout.error();
  if (image.size() != layout->bytes)
    return {ErrorCode::invalid_argument,
            "an image of " + std::to_string(image.size()) + " bytes, and " + model_.name() +
                " in " + std::string(to_string(format)) + " has " + std::to_string(layout->bytes)};
  weights_ = {reinterpret_cast<const float*>(image.data()), image.size() / sizeof(float)};
  format_ = format;
  packed_.make_stale({0, model_.parameter_count()});
  return {};
}

Result<void> GraphProgram::load_part(std::span<const float> parameters, ElementRange part) {
  if (auto ready = require_loaded(); !ready) return ready;
  if (parameters.size() != model_.parameter_count() || part.first > parameters.size() ||
      part.count > parameters.size() - part.first)
    return {ErrorCode::invalid_argument, "the part lies outside the parameters"};
  weights_ = parameters;
  packed_.make_stale(part);
  return {};
}

Result<void> GraphProgram::require_loaded() const {
  if (!weights_.empty()) return {};
  return {ErrorCode::wrong_state, "no weights are loaded yet: call load first"};
}

GraphProgram::Worker& GraphProgram::worker_at(int worker) {
  GPUNODE_CHECK(worker >= 0 && static_cast<std::size_t>(worker) < workers_.size(),
                "worker " + std::to_string(worker) + " of " + std::to_string(workers_.size()));
  return workers_[static_cast<std::size_t>(worker)];
}

GraphProgram::Slot& GraphProgram::slot_at(std::size_t slot) {
  GPUNODE_CHECK(slot < slots_.size(),
                "slot " + std::to_string(slot) + " of " + std::to_string(slots_.size()));
  return slots_[slot];
}

void GraphProgram::make_slots(std::size_t count) {
  slots_.resize(std::max(slots_.size(), count));
}

Result<void> GraphProgram::prepare(Slot& slot, Result<SharedExecutable> executable,
                                   std::span<const Sample> samples, tensor::Stream& stream) {
  slot.samples = 0;
  slot.reached = nullptr;
  if (!executable) return executable.error();
  slot.executable = *std::move(executable);
  const std::size_t bytes = slot.executable->plan().slice_bytes;
  if (auto grown = pool_.grow(slot.memory, bytes); !grown)
    return grown.error().within("activations of " + model_.name());
  if (auto done = read_inputs(slot, samples, stream); !done) return done;
  slot.samples = samples.size();
  return {};
}

Result<void> GraphProgram::read_inputs(Slot& slot, std::span<const Sample> samples,
                                       tensor::Stream& stream) {
  const graph::Graph& graph = slot.executable->graph();
  std::vector<InputPart> parts;
  std::size_t total = 0;
  for (const graph::ValueId id : graph.inputs) total += graph[id].bytes();
  if (auto grown = staging_pool_.grow(slot.inputs, total); !grown)
    return grown.error().within("samples on their way to the device");
  auto* at = slot.inputs.as<std::byte>();
  std::vector<WholeRange> ranges;
  for (const graph::ValueId id : graph.inputs) {
    const graph::Value& input = graph[id];
    parts.push_back({input.name, input.dtype, at, input.element_count() / samples.size()});
    ranges.push_back(range_of(graph, id));
    const auto unfilled = input.dtype == graph::Dtype::i32 ? kUnfilled : 0;
    std::fill_n(reinterpret_cast<std::int32_t*>(at), input.element_count(), unfilled);
    at += input.bytes();
  }
  for (const Sample& sample : samples) {
    if (sample.bytes.size() != model_.sample_bytes())
      return {ErrorCode::invalid_argument, "sample " + std::to_string(sample.index) + " has " +
                                               std::to_string(sample.bytes.size()) + " bytes, " +
                                               model_.name() + " reads " +
                                               std::to_string(model_.sample_bytes())};
    if (auto done = model_.read(sample, parts); !done) return done;
    for (std::size_t input = 0; input < parts.size(); ++input)
      if (parts[input].dtype == graph::Dtype::i32)
        if (auto good = check_whole(parts[input], ranges[input], sample.index); !good)
          return good.error().within(model_.name());
    for (InputPart& part : parts)
      part.data = static_cast<std::byte*>(part.data) + part.count * sizeof(float);
  }
  at = slot.inputs.as<std::byte>();
  for (const graph::ValueId id : graph.inputs) {
    if (id == graph.targets) slot.counted = counted_targets({at, graph[id].bytes()});
    void* place = slot.executable->place_of(id, {.slice = slot.memory.as<std::byte>()});
    if (auto done = backend_.upload(stream, {at, graph[id].bytes()}, place); !done) return done;
    at += graph[id].bytes();
  }
  return {};
}

Result<void> GraphProgram::prepare(Worker& worker, const graph::Executable& executable) {
  const graph::MemoryPlan& plan = executable.plan();
  if (worker.workspace_bytes < plan.workspace_bytes) {
    worker.outgrown_workspaces.push_back(std::exchange(worker.workspace, tensor::Workspace(pool_)));
    if (auto done = worker.workspace.reserve(plan.workspace_bytes); !done) return done;
    worker.workspace_bytes = plan.workspace_bytes;
  }
  if (worker.scratch.size() < plan.scratch_bytes) {
    auto grown = pool_.take(plan.scratch_bytes);
    if (!grown) return grown.error().within("scratch of " + model_.name());
    worker.outgrown.push_back(std::exchange(worker.scratch, *std::move(grown)));
  }
  return {};
}

graph::Places GraphProgram::places_of(const Worker& worker, const Slot& slot) {
  return {.slice = slot.memory.as<std::byte>(),
          .scratch = worker.scratch.as<std::byte>(),
          .parameters = weights(),
          .constants = constants(),
          .packed = &packed_};
}

Result<void> GraphProgram::follow(Worker& worker, const Slot& slot) {
  if (!slot.reached || slot.worker == &worker) return {};
  return backend_.wait(*worker.stream, *slot.reached);
}

Result<void> GraphProgram::note_reached(Worker& worker, Slot& slot) {
  auto event = backend_.record(*worker.stream);
  if (!event) return event.error();
  slot.reached = std::move(*event);
  slot.worker = &worker;
  return {};
}

Result<void> GraphProgram::run(Worker& worker, Slot& slot, std::size_t stage,
                               const graph::Places& places) {
  if (auto done = follow(worker, slot); !done) return done;
  auto done = packed_.make_ready(*slot.executable, stage,
                                 {backend_, *worker.stream, worker.workspace, weights()});
  if (done)
    done = worker.replays.run({slot.executable.get(), stage, worker.workspace_bytes}, backend_,
                              *worker.stream, worker.workspace, places);
  return done ? note_reached(worker, slot) : done;
}

std::shared_ptr<const tensor::Event> GraphProgram::reached(std::size_t slot) const {
  return slots_[slot].reached;
}

// A worker that fails leaves the others to be waited for.
Result<void> GraphProgram::settle() {
  Result<void> first;
  for (Worker& worker : workers_) {
    if (auto done = worker.stream->synchronise(); !done && first) first = done;
    worker.outgrown.clear();
    worker.outgrown_workspaces.clear();
    worker.replays.settle();
  }
  return first;
}

Result<LossSum> GraphProgram::forward(int worker_number, std::size_t slot_number, std::size_t stage,
                                      std::span<const Sample> samples) {
  Slot& slot = slot_at(slot_number);
  if (samples.empty()) {
    slot.samples = 0;
    return LossSum{};
  }
  Worker& worker = worker_at(worker_number);
  if (auto ready = require_loaded(); !ready) return ready.error();
  if (stage == 0)
    if (auto done = prepare(slot, executable_for(graph::Purpose::train, samples.size()), samples,
                            *worker.stream);
        !done)
      return done.error();
  if (auto done = prepare(worker, *slot.executable); !done) return done.error();
  if (auto done = run(worker, slot, stage, places_of(worker, slot)); !done) return done.error();
  if (stage + 1 < slot.executable->graph().forward_stages) return LossSum{};
  const auto loss = loss_of(worker, slot);
  if (!loss) return loss.error();
  return LossSum{static_cast<float>(*loss), static_cast<float>(slot.counted)};
}

Result<void> GraphProgram::backward(int worker_number, std::size_t slot_number, std::size_t stage,
                                    std::span<float> part) {
  if (part.size() != model_.stages().at(stage).count)
    return {ErrorCode::invalid_argument, "the part's size is not the stage's"};
  Slot& slot = slot_at(slot_number);
  Worker& worker = worker_at(worker_number);
  if (slot.samples == 0) {
    auto done = backend_.clear(*worker.stream, part.data(), part.size_bytes());
    return done ? note_reached(worker, slot) : done;
  }
  if (auto done = prepare(worker, *slot.executable); !done) return done.error();
  graph::Places places = places_of(worker, slot);
  places.gradient = part.data();
  return run(worker, slot, slot.executable->graph().forward_stages + stage, places);
}

Result<LossSum> GraphProgram::gradient(int worker, std::span<const Sample> samples,
                                       std::span<float> gradient_sum) {
  if (auto ready = require_loaded(); !ready) return ready.error();
  if (gradient_sum.size() != model_.parameter_count())
    return {ErrorCode::invalid_argument, "the gradient's size is not the model's"};
  const auto slot = static_cast<std::size_t>(worker);
  Result<LossSum> loss = LossSum{};
  for (std::size_t stage = 0; stage < model_.forward_stages().size(); ++stage) {
    loss = forward(worker, slot, stage, samples);
    if (!loss) return loss;
  }
  const auto ranges = model_.stages();
  for (std::size_t stage = 0; stage < ranges.size(); ++stage) {
    const auto part = gradient_sum.subspan(ranges[stage].first, ranges[stage].count);
    if (auto done = backward(worker, slot, stage, part); !done) return done.error();
  }
  if (auto done = worker_at(worker).stream->synchronise(); !done) return done.error();
  return loss;
}

}  // namespace gpunode::model
