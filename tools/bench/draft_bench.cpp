// Texts for which a smaller model guesses, on the CPU's backend: tokens a second of one to eight texts with a
// draft, by those without one in the same run. The model has GPT-2's shape (124 million) and random
// weights; the draft its first layers, in int8. A trained pair agrees as it was trained to, a random one
// by how little the later layers add: --later scales what they do.
#include <chrono>
#include <cstdio>
#include <map>
#include <string>

#include "actors/inference/text_engine.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "kernels/model/weight_layout.hpp"
#include "kernels/tensor/buffer.hpp"
#include "runtime/base/clock.hpp"
#include "tools/bench/benchmarks.hpp"
#include "tools/bench/flags.hpp"
#include "tools/bench/median.hpp"

namespace gpunode::bench {
namespace {

using Steady = std::chrono::steady_clock;

struct Options {
  int threads = 2, rounds = 3, tokens = 64, layers = 2;
  std::vector<int> texts = {1, 2, 4};
  std::vector<double> later = {0, 0.02, 0.05};
  double temperature = 0;
  std::size_t most = inference::TextDraft::kMostTexts;
};

std::unique_ptr<model::Model> gpt(int layers) {
  return *model::make_model("gpt", {{"layers", std::to_string(layers)},
                                    {"heads", "12"},
                                    {"channels", "768"},
                                    {"context", "1024"},
                                    {"vocabulary", "50257"}});
}

std::map<std::string, std::span<float>> by_name(const model::Model& model,
                                                std::vector<float>& weights) {
  std::map<std::string, std::span<float>> named;
  std::size_t first = 0;
  for (const model::ParameterSpec& one : model.parameters()) {
    named[one.name] = std::span(weights).subspan(first, one.element_count());
    first += one.element_count();
  }
  return named;
}

// A model with its program and weights in a format.
struct Loaded {
  std::unique_ptr<model::Model> model;
  tensor::Buffer image;
  std::unique_ptr<model::Program> program;

  static Result<Loaded> of(std::unique_ptr<model::Model> model, std::span<const float> weights,
                           ops::WeightFormat format, ops::Backend& backend) {
    Loaded loaded{std::move(model), {}, {}};
    auto layout = loaded.model->weight_layout(format);
    if (!layout) return layout.error();
    auto image =
        tensor::BufferPool(tensor::host_memory(), std::uint64_t{1} << 40).take(layout->bytes);
    if (!image) return image.error();
    loaded.image = *std::move(image);
    const MutableByteView bytes(loaded.image.as<std::byte>(), layout->bytes);
    std::size_t first = 0;
    for (std::size_t at = 0; at < layout->places.size(); ++at) {
      const std::size_t count = loaded.model->parameters()[at].element_count();
      auto placed =
          model::place_parameter(*loaded.model, *layout, at, weights.subspan(first, count), bytes);
      if (!placed) return placed.error();
      first += count;
    }
    auto program = loaded.model->program(backend, 1);
    if (!program) return program.error();
    loaded.program = *std::move(program);
    if (auto done = loaded.program->load_image(format, bytes); !done) return done.error();
    return loaded;
  }
};

// The model, whose later layers add `later` of what they would, and its draft.
struct Pair {
  Loaded big, draft;

  static Result<Pair> of(const Options& options, double later, ops::Backend& backend) {
    auto big = gpt(12), draft = gpt(options.layers);
    std::vector<float> weights(big->parameter_count()), few(draft->parameter_count());
    big->initialise(1, weights);
    const auto named = by_name(*big, weights);
    for (const auto& [name, values] : named)
      if (name.starts_with("blocks.") && std::stoi(name.substr(7)) >= options.layers &&
          (name.find("projection") != std::string::npos ||
           name.find("reduce") != std::string::npos))
        for (float& value : values) value *= static_cast<float>(later);
    for (const auto& [name, values] : by_name(*draft, few))
      std::ranges::copy(named.at(name), values.begin());
    auto first = Loaded::of(std::move(big), weights, ops::WeightFormat::fp32, backend);
    if (!first) return first.error();
    auto second = Loaded::of(std::move(draft), few, ops::WeightFormat::int8, backend);
    if (!second) return second.error();
    return Pair{*std::move(first), *std::move(second)};
  }
};

struct Figure {
  double rate = 0;  // tokens a second
  inference::TextDraft::Counts drafted;
};

Result<Figure> measure(const Options& options, Pair& pair, int texts, bool drafted) {
  const SystemClock clock;
  inference::TextEngine::Options of{.model = pair.big.model.get(),
                                    .tokenizer = tokenizer::Tokenizer::of_bytes(),
                                    .clock = &clock,
                                    .cache_bytes = std::uint64_t{1} << 28};
  if (drafted) {
    of.draft = pair.draft.model.get();
    of.draft_program = pair.draft.program.get();
    of.draft_texts = options.most;
  }
  auto engine = inference::TextEngine::open(*pair.big.program, of);
  if (!engine) return engine.error();
  double rate = 0;
  for (const bool counts : {false, true}) {  // the first one makes the graphs
    const auto begun = Steady::now();
    for (int text = 0; text < texts; ++text)
      (*engine)->begin({.request = {.prompt = "Once upon a time " + std::to_string(text),
                                    .max_tokens = static_cast<std::uint32_t>(options.tokens),
                                    .temperature = options.temperature,
                                    .seed = static_cast<std::uint64_t>(text)},
                        .deadline = Time::max(),
                        .client = {},
                        .done = [](const Result<inference::GenerateAnswer>&) {}});
    while (!(*engine)->is_idle())
      if (auto done = (*engine)->pass(); !done) return done.error();
    if (counts)
      rate = texts * options.tokens / std::chrono::duration<double>(Steady::now() - begun).count();
  }
  return Figure{rate, drafted ? (*engine)->draft()->counts() : inference::TextDraft::Counts{}};
}

Result<void> compare(const Options& options, Pair& pair, double later) {
  for (const int texts : options.texts) {
    std::vector<double> with, without, share;
    for (int round = 0; round < options.rounds; ++round) {
      const auto plain = measure(options, pair, texts, false);
      if (!plain) return plain.error();
      const auto drafted = measure(options, pair, texts, true);
      if (!drafted) return drafted.error();
      without.push_back(plain->rate);
      with.push_back(drafted->rate);
      share.push_back(drafted->drafted.guessed == 0
                          ? 0.0
                          : static_cast<double>(drafted->drafted.right) /
                                static_cast<double>(drafted->drafted.guessed));
    }
    std::printf(
        "later layers %.3f, %d texts: %5.1f tokens/s without a draft, %5.1f with one, %.2f x; "
        "%3.0f %% "
        "of what it proposed was right\n",
        later, texts, median(without), median(with), median(with) / median(without),
        100 * median(share));
    std::fflush(stdout);
  }
  return {};
}

}  // namespace

int draft(int argc, char** argv) {
  Options options;
  CLI::App flags;
  flags.add_option("--threads", options.threads)->check(CLI::Range(1, 64));
  flags.add_option("--rounds", options.rounds)->check(CLI::Range(1, 100));
  flags.add_option("--tokens", options.tokens)->check(CLI::Range(4, 512));
  flags.add_option("--layers", options.layers)->check(CLI::Range(1, 12));
  flags.add_option("--texts", options.texts)->delimiter(',')->check(CLI::Range(1, 16));
  flags.add_option("--later", options.later)->delimiter(',')->check(CLI::Range(0.0, 1.0));
  flags.add_option("--temperature", options.temperature)->check(CLI::Range(0.0, 10.0));
  flags.add_option("--most", options.most)->check(CLI::Range(1, 8));
  if (!parsed(flags, argc, argv)) {
    std::fprintf(stderr,
                 "usage: gpunode-bench draft [--threads N] [--rounds N] [--tokens N] [--layers N] "
                 "[--texts LIST] [--later LIST] [--temperature T] [--most TEXTS]\n");
    return 2;
  }
  const auto backend = cpu::open_backend({.threads = options.threads});
  for (const double later : options.later) {
    auto pair = Pair::of(options, later, *backend);
    Result<void> done;
    if (!pair) done = pair.error();
    if (done) done = compare(options, *pair, later);
    if (done) continue;
    std::fprintf(stderr, "draft: %s\n", done.error().message().c_str());
    return 1;
  }
  return 0;
}

}  // namespace gpunode::bench
