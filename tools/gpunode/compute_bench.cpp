#include "tools/gpunode/compute_bench.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <thread>

#include "actors/compute/trainer.hpp"
#include "kernels/graph/compile.hpp"
#include "kernels/graph/cost.hpp"
#include "kernels/graph/op.hpp"
#include "kernels/model/graph_model.hpp"
#include "kernels/ops/lane.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/dataset/table_dataset.hpp"
#include "runtime/dataset/text_dataset.hpp"

namespace gpunode::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

constexpr std::size_t kMostRounds = 200, kFewestRounds = 3;

// Whether there is time for another round.
bool goes_on(std::size_t rounds, Clock::time_point begin, std::chrono::milliseconds time) {
  if (rounds < kFewestRounds) return true;
  return rounds < kMostRounds && Clock::now() - begin < time;
}

// --- peaks ---

// The best of many rounds of `work` on a lane of its own.
template <class Work>
Result<double> best_time(ops::Backend& backend, std::chrono::milliseconds each, Work work) {
  auto stream = backend.open_stream();
  if (!stream) return stream.error();
  tensor::BufferPool pool(backend.memory(), backend.capabilities().memory_bytes);
  tensor::Workspace workspace(pool);
  double best = 0;
  const auto begin = Clock::now();
  for (std::size_t round = 0; goes_on(round, begin, each); ++round) {
    const auto started = Clock::now();
    auto done = work(**stream, workspace);
    if (done) done = (*stream)->synchronise();
    if (!done) return done.error();
    const double took = seconds_since(started);
    if (best == 0 || took < best) best = took;
  }
  return best;
}

Result<Peaks> peaks_of_one(ops::Backend& backend, std::chrono::milliseconds each) {
  const bool on_host = backend.capabilities().host_accessible;
  const std::int64_t side = on_host ? 1024 : 8192;
  const std::size_t copied = on_host ? std::size_t{128} << 20 : std::size_t{1} << 30;
  const auto count = static_cast<std::size_t>(side * side);
  tensor::BufferPool pool(backend.memory(), backend.capabilities().memory_bytes);
  auto memory = pool.take(std::max(2 * copied, 3 * count * sizeof(float)));
  if (!memory) return memory.error();
  auto* at = memory->as<float>();
  const auto cleared = best_time(backend, std::chrono::milliseconds(0), [&](auto& stream, auto&) {
    return backend.clear(stream, at, memory->size());
  });
  if (!cleared) return cleared.error();
  const tensor::Shape square{side, side};
  const auto product = best_time(backend, each, [&](auto& stream, auto& workspace) {
    return backend.operations().matmul(
        stream, workspace,
        {.a = {at, square}, .b = {at + count, square}, .c = {at + 2 * count, square}});
  });
  if (!product) return product.error();
  auto* bytes = memory->as<std::byte>();
  const auto copy = best_time(backend, each, [&](auto& stream, auto&) {
    return backend.copy(stream, bytes, bytes + copied, copied);
  });
  if (!copy) return copy.error();
  const auto s = static_cast<double>(side);
  return Peaks{2 * s * s * s / *product, 2 * static_cast<double>(copied) / *copy};
}

// --- operations ---

// A sample of these fields: numbers from 0 to 1, one of two tokens or classes.
std::vector<std::uint8_t> sample_of(const std::vector<SampleField>& fields, std::uint64_t seed) {
  std::vector<std::uint8_t> bytes;
  for (const SampleField& field : fields)
    for (std::uint32_t at = 0; at < field.count; ++at) {
      const std::uint64_t drawn = mix(seed, bytes.size());
      const float number = static_cast<float>(drawn % 1000) / 1000;
      const auto whole = static_cast<std::int32_t>(drawn % 2);
      std::uint8_t place[4] = {static_cast<std::uint8_t>(97 + drawn % 26)};
      const std::size_t size = field.dtype == SampleDtype::u8 ? 1 : 4;
      if (field.dtype == SampleDtype::f32) std::memcpy(place, &number, size);
      if (field.dtype == SampleDtype::i32) std::memcpy(place, &whole, size);
      bytes.insert(bytes.end(), place, place + size);
    }
  return bytes;
}

// A compiled graph with all that it reads in the device's memory.
class Slice {
 public:
  static Result<std::unique_ptr<Slice>> open(const model::GraphModel& model, ops::Backend& backend,
                                             std::size_t samples) {
    graph::Builder builder({.samples = static_cast<std::int64_t>(samples),
                            .positions = model.context(),
                            .training = true});
    model.forward(builder);
    auto forward = builder.finish();
    if (!forward) return forward.error();
    auto executable = graph::compile(std::move(*forward), graph::Purpose::train);
    if (!executable) return executable.error();
    if (const auto lacks = (*executable)->missing(backend.operations()); !lacks.empty())
      return Error{ErrorCode::unsupported,
                   backend.device().name + " lacks the operation " + std::string(lacks.front())};
    std::unique_ptr<Slice> slice(new Slice(*executable, backend));
    if (auto done = slice->place(model, samples); !done) return done.error();
    return slice;
  }

  const graph::Graph& graph() const { return executable_->graph(); }
  // Seconds that the node takes, until it has run.
  Result<double> time(std::size_t node) {
    const auto begin = Clock::now();
    auto done = executable_->run_node(node, backend_, *stream_, workspace_, places_);
    if (done) done = stream_->synchronise();
    if (!done) return done.error();
    return seconds_since(begin);
  }

 private:
  Slice(std::shared_ptr<const graph::Executable> executable, ops::Backend& backend)
      : executable_(std::move(executable)),
        backend_(backend),
        pool_(backend.memory(), backend.capabilities().memory_bytes),
        workspace_(pool_) {}

  Result<void> place(const model::GraphModel& model, std::size_t samples) {
    auto stream = backend_.open_stream();
    if (!stream) return stream.error();
    stream_ = std::move(*stream);
    const graph::MemoryPlan& plan = executable_->plan();
    const std::size_t sizes[] = {
        plan.slice_bytes, plan.scratch_bytes, model.parameter_count() * sizeof(float),
        graph().constant_count * sizeof(float), model.parameter_count() * sizeof(float)};
    for (const std::size_t size : sizes) {
      auto taken = pool_.take(std::max<std::size_t>(size, 64));
      if (!taken) return taken.error();
      memory_.push_back(std::move(*taken));
    }
    places_ = {.slice = memory_[0].as<std::byte>(),
               .scratch = memory_[1].as<std::byte>(),
               .parameters = memory_[2].as<float>(),
               .constants = memory_[3].as<float>(),
               .gradient = memory_[4].as<float>()};
    if (auto done = workspace_.reserve(plan.workspace_bytes); !done) return done;
    std::vector<float> weights(model.parameter_count());
    model.initialise(1, weights);
    auto done =
        backend_.upload(*stream_, std::as_bytes(std::span(weights)), memory_[2].as<float>());
    for (const graph::Constant& one : graph().constants)
      if (done)
        done = backend_.upload(*stream_, std::as_bytes(std::span(*one.contents)),
                               memory_[3].as<float>() + graph()[one.value].first);
    if (done) done = place_inputs(model, samples);
    return done ? stream_->synchronise() : done;
  }

  Result<void> place_inputs(const model::GraphModel& model, std::size_t samples) {
    std::vector<std::vector<float>> inputs;
    for (const graph::ValueId id : graph().inputs) inputs.emplace_back(graph()[id].element_count());
    for (std::size_t sample = 0; sample < samples; ++sample) {
      std::vector<model::InputPart> parts;
      for (std::size_t at = 0; at < inputs.size(); ++at) {
        const graph::Value& value = graph()[graph().inputs[at]];
        const std::size_t count = value.element_count() / samples;
        parts.push_back({value.name, value.dtype, inputs[at].data() + sample * count, count});
      }
      const auto bytes = sample_of(model.sample_fields(), sample);
      if (auto done = model.read({sample, bytes}, parts); !done) return done;
    }
    for (std::size_t at = 0; at < inputs.size(); ++at) {
      auto done = backend_.upload(*stream_, std::as_bytes(std::span(inputs[at])),
                                  executable_->place_of(graph().inputs[at], places_));
      if (!done) return done;
    }
    return stream_->synchronise();
  }

  std::shared_ptr<const graph::Executable> executable_;
  ops::Backend& backend_;
  tensor::BufferPool pool_;
  tensor::Workspace workspace_;
  std::unique_ptr<tensor::Stream> stream_;
  std::vector<tensor::Buffer> memory_;
  graph::Places places_;
};

// "(64, 768) x (3072, 768)": of the operands, the longest two.
std::string shapes_of(const graph::Graph& graph, const graph::Node& node) {
  std::string text;
  std::size_t shown = 0;
  for (const graph::ValueId id : node.in) {
    if (id == graph::kNone || shown == 2) continue;
    text += (shown++ > 0 ? " x " : "") + graph[id].shape.text();
  }
  return text;
}

// --- steps ---

// Samples of the model's kind, enough for a few steps.
Result<std::shared_ptr<const dataset::Dataset>> data_for(const model::Model& model) {
  const auto fields = model.sample_fields();
  if (fields.front().dtype == SampleDtype::f32) {
    std::string text;
    for (std::uint64_t row = 0; row < 64; ++row) {
      for (std::uint32_t at = 0; at < fields.front().count; ++at)
        text += "0." + std::to_string(mix(row, at) % 1000) + ",";
      text += std::to_string(row % 2) + "\n";
    }
    const ByteView bytes = as_bytes(text);
    auto table = dataset::TableDataset::create(
        std::make_shared<dataset::TextSource>(
            dataset::TextSource::from_memory({{"rows", Bytes(bytes.begin(), bytes.end())}})),
        0);
    if (!table) return table.error();
    return std::shared_ptr<const dataset::Dataset>(std::move(*table));
  }
  const std::uint32_t token_bytes = fields.front().dtype == SampleDtype::u8 ? 1 : 2;
  Bytes bytes(std::size_t{1} << 16);
  for (std::size_t at = 0; at < bytes.size(); ++at)  // the upper byte of a token stays small
    bytes[at] = static_cast<std::byte>(mix(3, at) % (token_bytes == 2 && at % 2 == 1 ? 4 : 96));
  auto text = dataset::TextDataset::create(
      std::make_shared<dataset::TextSource>(
          dataset::TextSource::from_memory({{"tokens", std::move(bytes)}})),
      {.context = fields.front().count - 1,
       .validation_fraction = 0,
       .token_bytes = token_bytes,
       .vocabulary = static_cast<std::uint32_t>(model.vocabulary())});
  if (!text) return text.error();
  return std::shared_ptr<const dataset::Dataset>(std::move(*text));
}

Result<void> one_step(compute::Trainer& trainer, std::vector<float>& total) {
  trainer.want(trainer.step() + 1, {trainer.tree().root()});
  const auto tell = [&](const compute::SumRange& range) {
    std::copy_n(range.sum->begin() + static_cast<std::ptrdiff_t>(range.first), range.count,
                total.begin() + static_cast<std::ptrdiff_t>(range.first));
  };
  do {
    if (auto done = trainer.compute_some(tell); !done) return done;
  } while (!trainer.idle());
  const auto report = trainer.apply(trainer.step() + 1, total);
  return report ? Result<void>() : report.error();
}

}  // namespace

Result<Peaks> measure_peaks(ops::Backend& backend, int threads, std::chrono::milliseconds each) {
  std::vector<Result<Peaks>> found(static_cast<std::size_t>(std::max(1, threads)), Peaks{});
  {
    std::vector<std::jthread> running;
    for (auto& one : found)
      running.emplace_back([&backend, &one, each] { one = peaks_of_one(backend, each); });
  }
  Peaks sum;
  for (const auto& one : found) {
    if (!one) return one.error();
    sum.flops_per_second += one->flops_per_second;
    sum.bytes_per_second += one->bytes_per_second;
  }
  return sum;
}

Result<std::vector<OperationRate>> measure_operations(const model::Model& model,
                                                      ops::Backend& backend, std::size_t samples,
                                                      std::chrono::milliseconds time) {
  const auto* as_graph = dynamic_cast<const model::GraphModel*>(&model);
  if (!as_graph) return Error{ErrorCode::unsupported, model.name() + " is no graph"};
  auto slice = Slice::open(*as_graph, backend, samples);
  if (!slice) return slice.error();
  const graph::Graph& graph = (*slice)->graph();
  std::vector<std::vector<double>> times(graph.nodes.size());
  const auto begin = Clock::now();
  for (std::size_t round = 0; goes_on(round, begin, time); ++round)
    for (std::size_t node = 0; node < times.size(); ++node) {
      const auto took = (*slice)->time(node);
      if (!took) return took.error();
      times[node].push_back(*took);
    }
  std::map<std::pair<std::string, std::string>, OperationRate> rates;
  for (std::size_t at = 0; at < times.size(); ++at) {
    const graph::Node& node = graph.nodes[at];
    const std::string name(graph::row_of(node.op).name), shapes = shapes_of(graph, node);
    OperationRate& rate = rates[{name, shapes}];
    const graph::Cost cost = graph::cost_of(graph, node);
    rate = {name,
            shapes,
            rate.calls + 1,
            rate.seconds + median(times[at]),
            rate.flops + cost.flops,
            rate.bytes + cost.bytes};
  }
  std::vector<OperationRate> out;
  for (auto& [key, rate] : rates) out.push_back(std::move(rate));
  std::ranges::stable_sort(out, std::greater(), &OperationRate::seconds);
  return out;
}

Result<StepRate> measure_step(std::shared_ptr<const model::Model> model, ops::Backend& backend,
                              const StepShape& shape, std::chrono::milliseconds time) {
  auto data = data_for(*model);
  if (!data) return data.error();
  job::JobSpec spec;
  spec.train.batch = static_cast<std::uint32_t>(shape.batch);
  spec.train.slices = static_cast<std::uint32_t>(shape.slices);
  spec.train.steps = 1'000'000;
  compute::NodeDevice device("device", backend);
  SystemClock clock;
  auto trainer = compute::Trainer::create(
      {.model = model,
       .devices = {&device},
       .user = "the benchmark",
       .spec = spec,
       .reader = ingest::SliceReader(*data, {spec.train.seed, spec.train.batch, spec.train.slices}),
       .clock = &clock,
       .workers = shape.threads});
  if (!trainer) return trainer.error();
  std::vector<float> total((*trainer)->element_count());
  std::vector<double> times;
  const auto begin = Clock::now();
  while (goes_on(times.size(), begin, time)) {
    const auto started = Clock::now();
    if (auto done = one_step(**trainer, total); !done) return done.error();
    times.push_back(seconds_since(started));
  }
  StepRate rate{.seconds = median(times),
                .tokens = static_cast<double>(shape.batch * model->tokens_per_sample())};
  if (const auto* as_graph = dynamic_cast<const model::GraphModel*>(model.get())) {
    auto slice = Slice::open(*as_graph, backend, shape.batch / shape.slices);
    if (!slice) return slice.error();
    rate.flops = static_cast<double>(shape.slices) * graph::cost_of((*slice)->graph()).flops;
  }
  return rate;
}

}  // namespace gpunode::cli
