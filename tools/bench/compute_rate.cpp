// The measurements of compute_rate.hpp that are of models: a slice's memory, and its calls one by one.
#include "tools/bench/compute_rate.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>

#include "runtime/base/rng.hpp"
#include "tools/bench/compute_team.hpp"
#include "tools/bench/median.hpp"

namespace gpunode::bench {
namespace {

using Clock = std::chrono::steady_clock;
using graph::ValueId;

constexpr std::uint64_t kSeed = 11;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One in [-1, 1).
float uniform(std::uint64_t counter) {
  return static_cast<float>(mix(kSeed, counter) >> 40) * 0x1.0p-23f - 1.0f;
}

// Samples that a model can read: tokens and labels within its vocabulary.
std::vector<std::uint8_t> random_sample(const model::GraphModel& model, std::uint64_t number) {
  std::vector<std::uint8_t> bytes;
  std::uint64_t counter = number << 32;
  const auto append = [&](const auto& value) {
    const auto* first = reinterpret_cast<const std::uint8_t*>(&value);
    bytes.insert(bytes.end(), first, first + sizeof value);
  };
  for (const SampleField& field : model.sample_fields())
    for (std::uint32_t element = 0; element < field.count; ++element, ++counter) {
      const std::uint64_t token = mix(kSeed, counter) % model.vocabulary();
      if (field.dtype == SampleDtype::f32) append(uniform(counter));
      if (field.dtype == SampleDtype::i32) append(static_cast<std::int32_t>(token));
      if (field.dtype == SampleDtype::u8) append(static_cast<std::uint8_t>(token));
    }
  return bytes;
}

// Weights made ready for products in bf16 by whoever calls for them first, which is not timed.
class KeptWeights final : public graph::PackedOperands {
 public:
  explicit KeptWeights(tensor::BufferPool& pool) : pool_(pool) {}
  Result<ByteView> of(const graph::Call& call, std::size_t operand, bool transpose_b) override {
    const tensor::ConstTensor weight = call.in(operand);
    const std::size_t bytes = ops::packed_bytes(weight.shape[0], weight.shape[1]);
    std::lock_guard lock(mutex_);
    const auto [kept, is_new] = kept_.try_emplace({weight.data, transpose_b});
    if (is_new) {
      auto memory = pool_.take(bytes);
      if (!memory) return memory.error();
      kept->second = *std::move(memory);
      auto done = call.ops.pack_product(
          call.stream, call.workspace,
          {.b = weight, .transpose_b = transpose_b, .out = {kept->second.as<std::byte>(), bytes}});
      if (done) done = call.stream.synchronise();
      if (!done) return done.error();
    }
    return ByteView(kept->second.as<std::byte>(), bytes);
  }

 private:
  tensor::BufferPool& pool_;
  std::mutex mutex_;
  std::map<std::pair<const float*, bool>, tensor::Buffer> kept_;
};

std::string type_of(Precision precision) {
  return precision == Precision::fp32 ? "f32" : std::string(to_string(precision));
}

// What the slices under way share: the graph and the weights.
struct Shared {
  const model::GraphModel& model;
  ops::Backend& backend;
  model::SharedExecutable executable;
  tensor::BufferPool pool;
  tensor::Buffer parameters{}, constants{};
  KeptWeights packed{pool};

  Shared(const model::GraphModel& of, ops::Backend& on)
      : model(of), backend(on), pool(on.memory(), on.capabilities().memory_bytes) {}

  const graph::Graph& graph() const { return executable->graph(); }
  // Small random weights: what an operation takes does not depend on them.
  Result<void> place(tensor::Stream& stream) {
    std::vector<float> values(graph().parameter_count);
    for (std::size_t at = 0; at < values.size(); ++at) values[at] = 0.02f * uniform(at % 65521);
    if (auto grown = pool.grow(parameters, values.size() * sizeof(float)); !grown) return grown;
    if (auto grown = pool.grow(constants, graph().constant_count * sizeof(float) + 1); !grown)
      return grown;
    const auto bytes = std::as_bytes(std::span(values));
    if (auto done = backend.upload(stream, bytes, parameters.data()); !done) return done;
    for (const graph::Constant& one : graph().constants)
      if (auto done = backend.upload(stream, std::as_bytes(std::span(*one.contents)),
                                     constants.as<float>() + graph()[one.value].first);
          !done)
        return done;
    return stream.synchronise();
  }
};

// One slice under way: a thread's own memory.
class Slice {
 public:
  explicit Slice(Shared& shared) : shared_(shared), workspace_(shared.pool) {}

  Result<void> open(std::size_t samples) {
    auto stream = shared_.backend.open_stream();
    if (!stream) return stream.error();
    stream_ = std::move(*stream);
    const graph::MemoryPlan& plan = shared_.executable->plan();
    const std::size_t gradient_bytes = shared_.graph().parameter_count * sizeof(float);
    for (auto [buffer, bytes] : {std::pair{&slice_, plan.slice_bytes},
                                 {&scratch_, plan.scratch_bytes + 1},
                                 {&gradient_, gradient_bytes}})
      if (auto grown = shared_.pool.grow(*buffer, bytes); !grown) return grown;
    if (auto done = workspace_.reserve(plan.workspace_bytes); !done) return done;
    // Also the first touch of its pages.
    if (auto done = shared_.backend.clear(*stream_, gradient_.data(), gradient_bytes); !done)
      return done;
    return read(samples);
  }

  Result<void> run_stages(std::size_t first, std::size_t end) {
    for (std::size_t stage = first; stage < end; ++stage)
      if (auto done =
              shared_.executable->run(stage, shared_.backend, *stream_, workspace_, places(stage));
          !done)
        return done;
    return stream_->synchronise();
  }
  Result<void> run_once(std::size_t node) {
    if (auto done = queue(node); !done) return done;
    return stream_->synchronise();
  }
  // The median time of a call. Operands that the call overwrites are put back before each, so that
  // repeating it does not drive their values to where arithmetic is slow.
  Result<double> time_call(std::size_t node, double seconds) {
    const bool host = shared_.backend.capabilities().host_accessible;
    const int calls = host ? 1 : 16;  // queued at once, so that launching hides
    auto overwritten = keep_overwritten(node);
    if (!overwritten) return overwritten.error();
    std::vector<double> times;
    constexpr std::size_t kFewest = 3, kMost = 1000;
    bool warm = false;  // the first one is not counted
    for (double total = 0; times.size() < kFewest || (total < seconds && times.size() < kMost);) {
      for (const Kept& kept : *overwritten)
        if (auto done = shared_.backend.copy(*stream_, kept.copy.data(), kept.place, kept.bytes);
            !done)
          return done.error();
      if (auto done = stream_->synchronise(); !done) return done.error();
      const auto start = Clock::now();
      for (int call = 0; call < calls; ++call)
        if (auto done = queue(node); !done) return done.error();
      if (auto done = stream_->synchronise(); !done) return done.error();
      const double taken = since(start);
      if (warm) times.push_back(taken / calls);
      if (warm) total += taken;
      warm = true;
    }
    return median(times);
  }

 private:
  struct Kept {
    void* place;
    std::size_t bytes;
    tensor::Buffer copy;
  };

  graph::Places places(std::size_t stage) const {
    const graph::Graph& graph = shared_.graph();
    const std::size_t first =
        stage < graph.forward_stages ? 0 : graph.made_final[stage - graph.forward_stages].first;
    return {.slice = slice_.as<std::byte>(),
            .scratch = scratch_.as<std::byte>(),
            .parameters = shared_.parameters.as<float>(),
            .constants = shared_.constants.as<float>(),
            .gradient = gradient_.as<float>() + first,
            .packed = &shared_.packed};
  }

  Result<void> queue(std::size_t node) {
    return shared_.executable->run_node(node, shared_.backend, *stream_, workspace_,
                                        places(shared_.graph().nodes[node].stage));
  }

  Result<std::vector<Kept>> keep_overwritten(std::size_t at) {
    const graph::Graph& graph = shared_.graph();
    const graph::Node& node = graph.nodes[at];
    const auto place = [&](ValueId id) {
      return shared_.executable->operand_place(node, id, places(node.stage));
    };
    std::vector<Kept> kept;
    for (const ValueId in : node.in) {
      const bool written = in != graph::kNone && std::ranges::any_of(node.out, [&](ValueId out) {
                             return out != graph::kNone && place(out) == place(in);
                           });
      if (!written) continue;
      auto copy = shared_.pool.take(graph[in].bytes());
      if (!copy) return copy.error();
      kept.push_back({place(in), graph[in].bytes(), std::move(*copy)});
      if (auto done = shared_.backend.copy(*stream_, kept.back().place, kept.back().copy.data(),
                                           kept.back().bytes);
          !done)
        return done.error();
    }
    return kept;
  }

  Result<void> read(std::size_t samples) {
    const graph::Graph& graph = shared_.graph();
    std::vector<std::vector<std::byte>> inputs;
    for (const ValueId id : graph.inputs) inputs.emplace_back(graph[id].bytes());
    for (std::size_t sample = 0; sample < samples; ++sample) {
      std::vector<model::InputPart> parts;
      for (std::size_t at = 0; at < inputs.size(); ++at) {
        const graph::Value& value = graph[graph.inputs[at]];
        parts.push_back({value.name, value.dtype,
                         inputs[at].data() + value.bytes() / samples * sample,
                         value.element_count() / samples});
      }
      const auto bytes = random_sample(shared_.model, sample);
      if (auto done = shared_.model.read({sample, bytes}, parts); !done) return done;
    }
    for (std::size_t at = 0; at < inputs.size(); ++at) {
      void* place = shared_.executable->place_of(graph.inputs[at], places(0));
      if (auto done = shared_.backend.upload(*stream_, inputs[at], place); !done) return done;
    }
    return stream_->synchronise();
  }

  Shared& shared_;
  std::unique_ptr<tensor::Stream> stream_;
  tensor::Workspace workspace_;
  tensor::Buffer slice_{}, scratch_{}, gradient_{};
};

std::string shapes_of(const graph::Graph& graph, const graph::Node& node) {
  std::string text;
  for (const ValueId id : node.in)
    if (id != graph::kNone) text += (text.empty() ? "" : " ") + graph[id].shape.text();
  return text;
}

// The lines of a model: for each node the line that it belongs to, or none.
struct Lines {
  std::vector<CallRate> rates;
  std::vector<std::size_t> first_node;  // of each line
  bool slice = false;
};

Lines lines_of(const std::string& name, const graph::Graph& graph, const ComputeOptions& options) {
  Lines lines;
  std::map<std::string, std::size_t> line_of;
  for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
    const graph::Node& node = graph.nodes[at];
    CallRate rate{.op = std::string(graph::row_of(node.op).name),
                  // As the job asks; a device computes in it what it can, and all else in float32.
                  .dtype = type_of(node.attributes.precision),
                  .shapes = shapes_of(graph, node),
                  .cost = graph::cost_of(graph, node)};
    const std::string line = name + " " + rate.op + " " + rate.dtype + " " + rate.shapes;
    if (!options.wants(rate.op, line)) continue;
    const auto [place, is_new] = line_of.emplace(line, lines.rates.size());
    if (is_new) {
      lines.rates.push_back(std::move(rate));
      lines.first_node.push_back(at);
    }
    ++lines.rates[place->second].calls;
  }
  lines.slice = options.wants("slice", name + " slice " + type_of(options.precision));
  return lines;
}

// Adds what one thread measured to what all do.
void add(CallRate& rate, double seconds, int threads) {
  rate.seconds += seconds / threads;
  rate.flops_per_second += rate.cost.flops / seconds;
  rate.bytes_per_second += rate.cost.bytes / seconds;
}

std::vector<CallRate> slice_lines(const graph::Graph& graph, Precision precision) {
  std::vector<CallRate> lines(3);
  const char* const names[] = {"forward", "backward", "slice"};
  for (std::size_t at = 0; at < 3; ++at) {
    lines[at].op = names[at];
    lines[at].dtype = type_of(precision);
    lines[at].calls = 1;
  }
  for (const graph::Node& node : graph.nodes) {
    lines[node.stage < graph.forward_stages ? 0 : 1].cost += graph::cost_of(graph, node);
    lines[2].cost += graph::cost_of(graph, node);
  }
  return lines;
}

// The times of forward and backward, in the same runs: medians.
Result<std::array<double, 3>> time_slice(Slice& slice, const graph::Graph& graph, double seconds) {
  std::vector<double> forward, backward, both;
  constexpr double kEnough = 5;  // seconds, after which one run will do
  const auto more = [&](double total) {
    return both.empty() || total < std::max(seconds, both.size() < 3 ? kEnough : 0);
  };
  for (double total = 0; more(total);) {
    const auto start = Clock::now();
    if (auto done = slice.run_stages(0, graph.forward_stages); !done) return done.error();
    const auto middle = Clock::now();
    const std::size_t end = graph.forward_stages + graph.backward_stages;
    if (auto done = slice.run_stages(graph.forward_stages, end); !done) return done.error();
    both.push_back(since(start));
    backward.push_back(since(middle));
    forward.push_back(both.back() - backward.back());
    total += both.back();
  }
  return std::array{median(forward), median(backward), median(both)};
}

}  // namespace

bool ComputeOptions::wants(const std::string& op, const std::string& line) const {
  return (ops.empty() || std::ranges::find(ops, op) != ops.end()) &&
         line.find(filter) != std::string::npos;
}

Result<ModelRates> measure_model(const std::string& name, const model::GraphModel& model,
                                 std::size_t samples, ops::Backend& backend,
                                 const ComputeOptions& options) {
  Shared shared(model, backend);
  auto executable = model::compile(model, graph::Purpose::train, samples);
  if (!executable) return executable.error();
  shared.executable = std::move(*executable);
  const graph::Graph& graph = shared.graph();
  const auto missing = shared.executable->missing(backend);
  if (!missing.empty())
    return Error{ErrorCode::unsupported, backend.device().name + " cannot run " + name +
                                             ": it lacks " + std::string(missing.front())};
  Lines lines = lines_of(name, graph, options);
  ModelRates rates;
  if (lines.slice) rates.slice = slice_lines(graph, options.precision);
  if (lines.rates.empty() && !lines.slice) return rates;
  auto stream = backend.open_stream();
  if (!stream) return stream.error();
  if (auto done = shared.place(**stream); !done) return done.error();

  const auto threads = static_cast<std::size_t>(options.threads);
  std::vector<std::vector<double>> calls(threads);
  std::vector<std::array<double, 3>> slices(threads);
  auto done = as_team(options.threads, [&](int number, const auto& meet) -> Result<void> {
    const auto me = static_cast<std::size_t>(number);
    Slice slice(shared);
    if (auto opened = slice.open(samples); !opened) return opened;
    for (std::size_t node = 0, line = 0; node < graph.nodes.size(); ++node) {
      if (line < lines.first_node.size() && lines.first_node[line] == node) {
        meet();
        auto time = slice.time_call(node, options.seconds);
        if (!time) return time.error();
        calls[me].push_back(*time);
        meet();
        ++line;
      } else if (auto ran = slice.run_once(node); !ran) {
        return ran;
      }
    }
    meet();
    if (rates.slice.empty()) return {};
    auto times = time_slice(slice, graph, options.seconds);
    if (!times) return times.error();
    slices[me] = *times;
    return {};
  });
  if (!done) return done.error();
  for (std::size_t thread = 0; thread < threads; ++thread) {
    for (std::size_t line = 0; line < lines.rates.size(); ++line)
      add(lines.rates[line], calls[thread][line], options.threads);
    for (std::size_t line = 0; line < rates.slice.size(); ++line)
      add(rates.slice[line], slices[thread][line], options.threads);
  }
  rates.calls = std::move(lines.rates);
  return rates;
}

}  // namespace gpunode::bench
