// What a test in another language asks of us: reads a model that transformers or torchvision wrote
// and some samples, and writes what it computes: scores as in evaluation, the gradient and what is
// measured for buffers as in training. The latter go out as a model's weights would, so that its
// tensors bear their names and layouts.
// usage: peer_probe MODEL SAMPLES OUT    SAMPLES: raw samples one behind the other
//   OUT/input.NAME (the graph's inputs, 4 bytes an element), OUT/logits (fp32, samples by positions
//   by vocabulary), OUT/loss (text: the sum), OUT/gradient/ and OUT/export/ (folders with
//   model.safetensors)
#include <cstdio>
#include <fstream>
#include <iterator>

#include "actors/checkpoint/stored_model.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/graph/compile.hpp"
#include "kernels/model/graph_model.hpp"
#include "runtime/base/check.hpp"
#include "runtime/storage/posix_file_system.hpp"

namespace gpunode {
namespace {

using model::Sample;
using storage::Path;

std::vector<Sample> split(const model::Model& model, std::span<const std::uint8_t> raw) {
  std::vector<Sample> samples;
  for (std::size_t at = 0; at + model.sample_bytes() <= raw.size(); at += model.sample_bytes())
    samples.push_back({samples.size(), raw.subspan(at, model.sample_bytes())});
  return samples;
}

// Fills the inputs of the graph from the samples, as a program does.
Result<void> read_inputs(const model::GraphModel& model, const graph::Executable& executable,
                         const graph::Places& places, std::span<const Sample> samples) {
  const graph::Graph& graph = executable.graph();
  for (std::size_t sample = 0; sample < samples.size(); ++sample) {
    std::vector<model::InputPart> parts;
    for (const graph::ValueId id : graph.inputs) {
      const std::size_t count = graph[id].element_count() / samples.size();
      auto* data = static_cast<float*>(executable.place_of(id, places));
      parts.push_back({graph[id].name, graph[id].dtype, data + sample * count, count});
    }
    if (auto done = model.read(samples[sample], parts); !done) return done;
  }
  return {};
}

void write(const Path& path, const void* data, std::size_t bytes) {
  std::ofstream(path, std::ios::binary)
      .write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
}

Result<void> write_logits(const model::GraphModel& model, ops::Backend& backend,
                          const std::vector<float>& weights, std::span<const Sample> samples,
                          const Path& out) {
  graph::Builder builder({.samples = static_cast<std::int64_t>(samples.size()),
                          .positions = model.context(),
                          .training = false});
  model.forward(builder);
  auto forward = builder.finish();
  if (!forward) return forward.error();
  const auto executable = graph::compile(std::move(*forward), graph::Purpose::forward);
  if (!executable) return executable.error();
  const graph::Executable& run = **executable;
  const graph::Graph& graph = run.graph();
  auto pool = tensor::BufferPool(backend.memory(), std::uint64_t{1} << 32);
  auto slice = *pool.take(run.plan().slice_bytes);
  auto scratch = *pool.take(run.plan().scratch_bytes);
  tensor::Workspace workspace(pool);
  if (auto done = workspace.reserve(run.plan().workspace_bytes); !done) return done.error();
  std::vector<float> constants(graph.constant_count);
  for (const graph::Constant& one : graph.constants)
    std::ranges::copy(*one.contents,
                      constants.begin() + static_cast<std::ptrdiff_t>(graph[one.value].first));
  const graph::Places places{.slice = slice.as<std::byte>(),
                             .scratch = scratch.as<std::byte>(),
                             .parameters = weights.data(),
                             .constants = constants.data()};
  if (auto done = read_inputs(model, run, places, samples); !done) return done.error();
  for (const graph::ValueId id : graph.inputs)
    write(out / ("input." + graph[id].name), run.place_of(id, places), graph[id].bytes());
  auto stream = backend.open_stream();
  if (!stream) return stream.error();
  for (std::size_t stage = 0; stage < run.stages(); ++stage)
    if (auto done = run.run(stage, backend, **stream, workspace, places); !done)
      return done.error();
  write(out / "logits", run.place_of(graph.logits, places), graph[graph.logits].bytes());
  return {};
}

Result<void> probe(const Path& path, const Path& samples_path, const Path& out) {
  storage::PosixFileSystem files;
  auto stored = checkpoint::load_stored_model(files, path);
  if (!stored) return stored.error();
  std::ifstream input(samples_path, std::ios::binary);
  const std::vector<std::uint8_t> raw{std::istreambuf_iterator<char>(input), {}};
  const auto samples = split(*stored->model, raw);
  const auto backend = cpu::open_backend();
  const auto* model = dynamic_cast<const model::GraphModel*>(stored->model.get());
  GPUNODE_CHECK(model != nullptr, "all kinds that others have are graphs");
  if (auto done = write_logits(*model, *backend, stored->weights, samples, out); !done) return done;
  auto program = model->program(*backend, 1);
  if (!program) return program.error();
  if (auto done = (*program)->load(stored->weights); !done) return done;
  if (auto saved = checkpoint::save_for_transformers(files, *stored, out / "export"); !saved)
    return saved.error();
  std::vector<float> gradient(stored->weights.size());
  const auto loss = (*program)->gradient(0, samples, gradient);
  if (!loss) return loss.error();
  stored->weights = std::move(gradient);
  if (auto saved = checkpoint::save_for_transformers(files, *stored, out / "gradient"); !saved)
    return saved.error();
  std::ofstream(out / "loss") << std::to_string(loss->loss) << '\n';
  return {};
}

}  // namespace
}  // namespace gpunode

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: peer_probe MODEL SAMPLES OUT\n"), 2;
  const auto done = gpunode::probe(argv[1], argv[2], argv[3]);
  if (!done) std::fprintf(stderr, "peer_probe: %s\n", done.error().message().c_str());
  return done ? 0 : 1;
}
