// The graph of each model as text, held against a file, so that a reader sees what is computed and
// a reviewer what has changed; and that passes for speed change no bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/graph/compile.hpp"
#include "kernels/graph/graph_text.hpp"
#include "kernels/model/graph_model.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::model {
namespace {

constexpr std::uint64_t kLeastVocabulary = 5;  // of the models below

struct Described {
  const char* file;
  const char* kind;
  Settings settings;
};
const Described kModels[] = {
    {"bert.txt",
     "bert",
     {{"layers", "2"},
      {"heads", "2"},
      {"channels", "64"},
      {"hidden", "128"},
      {"context", "16"},
      {"segments", "5"}}},
    {"gpt.txt", "gpt", {{"layers", "2"}, {"heads", "2"}, {"channels", "64"}, {"context", "16"}}},
    {"llama.txt",
     "llama",
     {{"layers", "2"}, {"heads", "4"}, {"channels", "64"}, {"hidden", "176"}, {"context", "16"}}},
    {"mlp.txt", "mlp", {{"features", "12"}, {"classes", "5"}, {"hidden", "48"}}},
    {"resnet.txt",
     "resnet",
     {{"height", "6"}, {"width", "7"}, {"channels", "2"}, {"classes", "5"}, {"filters", "8"}}},
    {"resnet-18.txt",
     "resnet",
     {{"height", "40"},
      {"width", "33"},
      {"channels", "3"},
      {"classes", "5"},
      {"groups", "4"},
      {"blocks", "2"},
      {"filters", "4"},
      {"stem", "7"}}}};

const GraphModel& graph_model(const Model& model) {
  return dynamic_cast<const GraphModel&>(model);
}

std::shared_ptr<const graph::Executable> compiled(const GraphModel& model, std::int64_t samples,
                                                  graph::Passes passes) {
  graph::Builder builder({.samples = samples, .positions = model.context()});
  model.forward(builder);
  return *graph::compile(*builder.finish(), graph::Purpose::train, passes);
}

TEST(ModelGraph, IsWhatTheFileShows) {
  for (const Described& one : kModels) {
    const auto model = make_model(one.kind, one.settings);
    ASSERT_TRUE(model) << model.error().detail;
    const std::string text = graph::text_of(compiled(graph_model(**model), 2, {})->graph());
    const std::string path = std::string(GPUNODE_SOURCE_DIR "/tests/parity/graphs/") + one.file;
    std::ifstream file(path);
    std::stringstream expected;
    expected << file.rdbuf();
    const std::string written = testing::TempDir() + one.file;
    if (expected.str() != text) std::ofstream(written) << text;
    EXPECT_TRUE(expected.str() == text)
        << "the graph of " << one.kind << " is another one; if it is meant: cp " << written << " "
        << path;
  }
}

// Losses and gradients of one slice, stage by stage, by the calling thread.
std::vector<float> results(const graph::Executable& executable, ops::Backend& backend,
                           const std::vector<float>& weights) {
  const graph::Graph& graph = executable.graph();
  auto pool = tensor::BufferPool(backend.memory(), std::uint64_t{1} << 32);
  auto slice = *pool.take(executable.plan().slice_bytes);
  auto scratch = *pool.take(executable.plan().scratch_bytes);
  tensor::Workspace workspace(pool);
  EXPECT_TRUE(workspace.reserve(executable.plan().workspace_bytes));
  std::vector<float> constants(graph.constant_count);
  for (const graph::Constant& one : graph.constants)
    std::ranges::copy(*one.contents,
                      constants.begin() + static_cast<std::ptrdiff_t>(graph[one.value].first));
  graph::Places places{.slice = slice.as<std::byte>(),
                       .scratch = scratch.as<std::byte>(),
                       .parameters = weights.data(),
                       .constants = constants.data()};
  for (const graph::ValueId id : graph.inputs) {
    auto* tokens = static_cast<std::int32_t*>(executable.place_of(id, places));
    for (std::size_t at = 0; at < graph[id].element_count(); ++at) {
      const auto value = static_cast<std::int32_t>(mix(id + 1, at) % kLeastVocabulary);
      if (graph[id].dtype == graph::Dtype::i32)
        tokens[at] = value;
      else
        reinterpret_cast<float*>(tokens)[at] = static_cast<float>(value);
    }
  }
  std::vector<float> out(graph.parameter_count);
  auto stream = std::move(*backend.open_stream());
  for (std::size_t stage = 0; stage < executable.stages(); ++stage) {
    if (stage >= graph.forward_stages)
      places.gradient = out.data() + graph.made_final[stage - graph.forward_stages].first;
    EXPECT_TRUE(executable.run(stage, backend, *stream, workspace, places));
    if (stage + 1 != graph.forward_stages) continue;
    const auto* losses = static_cast<const float*>(executable.place_of(graph.losses, places));
    out.insert(out.end(), losses, losses + graph[graph.losses].element_count());
  }
  return out;
}

TEST(ModelGraph, AFusedGraphGivesTheBitsOfItsParts) {
  const auto backend = cpu::open_backend();
  for (const Described& one : kModels) {
    const auto model = make_model(one.kind, one.settings);
    ASSERT_TRUE(model);
    std::vector<float> weights((*model)->parameter_count());
    (*model)->initialise(5, weights);
    const auto parts = compiled(graph_model(**model), 3, {.fuse = false});
    const auto fused = compiled(graph_model(**model), 3, {.fuse = true});
    EXPECT_LT(fused->graph().nodes.size(), parts->graph().nodes.size());
    const auto expected = results(*parts, *backend, weights),
               got = results(*fused, *backend, weights);
    ASSERT_EQ(expected.size(), got.size());
    EXPECT_EQ(std::memcmp(expected.data(), got.data(), got.size() * sizeof(float)), 0) << one.kind;
  }
}

}  // namespace
}  // namespace gpunode::model
