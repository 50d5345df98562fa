// Continuing texts on the CPU's backend: the time of a token of one text, tokens a second of a prompt
// and of sixteen texts together, each with the weights of GPT-2 (124 million) and of a Llama of 0.5
// billion, drawn at random, in each format. The bound is how fast the same cores read memory, measured between the
// rounds: a token reads every weight of a product once.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/decoder.hpp"
#include "kernels/model/model_code.hpp"
#include "kernels/model/registry.hpp"
#include "kernels/model/weight_layout.hpp"
#include "kernels/tensor/buffer.hpp"
#include "tools/bench/benchmarks.hpp"
#include "tools/bench/flags.hpp"
#include "tools/bench/median.hpp"

namespace gpunode::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  int threads = 2, rounds = 5, tokens = 64, prompt = 256, texts = 16;
  std::string model;                 // empty: all
  std::vector<std::string> weights;  // formats; none: all
  bool require = false;
};

struct Shape {
  const char* name;
  const char* kind;
  model::Settings settings;
};
const Shape kShapes[] = {{"gpt2-124m",
                          "gpt",
                          {{"layers", "12"},
                           {"heads", "12"},
                           {"channels", "768"},
                           {"context", "1024"},
                           {"vocabulary", "50257"}}},
                         {"llama-0.5b",
                          "llama",
                          {{"layers", "24"},
                           {"heads", "14"},
                           {"kv_heads", "2"},
                           {"channels", "896"},
                           {"hidden", "4864"},
                           {"context", "1024"},
                           {"vocabulary", "151936"},
                           {"tied", "1"}}}};
constexpr double kTogether = 4.0;  // of one text's tokens, for sixteen together

// Of the read bandwidth, for a token of one text. In int8 it is llama.cpp's share of q8_0 by 0.9.
double bound_of(ops::WeightFormat format) {
  if (format == ops::WeightFormat::int8) return 0.66 / 0.9;
  return format == ops::WeightFormat::int4 ? 0 : 0.85;
}

double seconds_of(const auto& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Bytes a second that `threads` read at once, of memory that no cache holds.
double read_bandwidth(int threads) {
  static const std::vector<std::uint64_t> memory(std::size_t{32} << 20, 1);
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(threads) * 16);
  const std::size_t part = memory.size() / static_cast<std::size_t>(threads);
  const double seconds = seconds_of([&] {
    std::vector<std::jthread> team;
    for (int thread = 0; thread < threads; ++thread)
      team.emplace_back([&, thread] {
        const std::uint64_t* from = memory.data() + static_cast<std::size_t>(thread) * part;
        std::uint64_t lanes[16] = {};
        for (std::size_t at = 0; at + 16 <= part; at += 16)
          for (std::size_t lane = 0; lane < 16; ++lane) lanes[lane] += from[at + lane];
        sums[static_cast<std::size_t>(thread) * 16] =
            std::accumulate(std::begin(lanes), std::end(lanes), std::uint64_t{0});
      });
  });
  return static_cast<double>(memory.size() * sizeof(memory[0])) / seconds;
}

// Of the factors of products, of which a token reads every one; not of tables that it reads a row of.
double product_bytes(const model::Model& model, const model::WeightLayout& layout) {
  std::size_t bytes = 0;
  for (std::size_t at = 0; at < layout.places.size(); ++at) {
    const model::ParameterSpec& one = model.parameters()[at];
    if (one.shape.size() == 2 && one.name != "position_table") bytes += layout.places[at].bytes;
  }
  return static_cast<double>(bytes);
}

struct Figures {
  std::vector<double> token_seconds, bandwidth, prompt_rate, together_rate;
};

class Run {
 public:
  Run(const Options& options, const model::Model& model, std::span<const float> weights)
      : options_(options),
        backend_(cpu::open_backend({.threads = options.threads})),
        model_(&model),
        weights_(weights) {}

  Result<void> open(ops::WeightFormat format) {
    auto program = model_->program(*backend_, 1);
    if (!program) return program.error();
    program_ = *std::move(program);
    auto layout = model_->weight_layout(format);
    if (!layout) return layout.error();
    layout_ = *std::move(layout);
    auto image =
        tensor::BufferPool(tensor::host_memory(), std::uint64_t{1} << 40).take(layout_.bytes);
    if (!image) return image.error();
    image_ = *std::move(image);
    const MutableByteView bytes(image_.as<std::byte>(), layout_.bytes);
    std::size_t first = 0;
    for (std::size_t at = 0; at < layout_.places.size(); ++at) {
      const std::size_t count = model_->parameters()[at].element_count();
      auto placed =
          model::place_parameter(*model_, layout_, at, weights_.subspan(first, count), bytes);
      if (!placed) return placed;
      first += count;
    }
    if (auto loaded = program_->load_image(format, bytes); !loaded) return loaded;
    auto decoder =
        model::make_decoder(*model_, *program_,
                            {.texts = static_cast<std::size_t>(options_.texts),
                             .rows = static_cast<std::size_t>(std::max(options_.prompt, 64)),
                             .cache_bytes = std::uint64_t{2} << 30});
    if (!decoder) return decoder.error();
    decoder_ = *std::move(decoder);
    return {};
  }

  Result<void> round(Figures& figures) {
    figures.bandwidth.push_back(read_bandwidth(options_.threads));
    const auto prompt = read(1, options_.prompt, 0);
    if (!prompt) return prompt.error();
    figures.prompt_rate.push_back(options_.prompt / *prompt);
    double all = 0, together = 0;
    for (int token = 0; token < options_.tokens; ++token) {
      const auto one = read(1, 1, token);
      if (!one) return one.error();
      all += *one;
    }
    figures.token_seconds.push_back(all / options_.tokens);
    for (int token = 0; token < options_.tokens / 4; ++token) {
      const auto some = read(options_.texts, 1, token);
      if (!some) return some.error();
      together += *some;
    }
    figures.together_rate.push_back(options_.texts * (options_.tokens / 4) / together);
    return {};
  }

  double bytes() const { return product_bytes(*model_, layout_); }

 private:
  // The first texts read so many tokens more, from a position on; seconds.
  Result<double> read(int texts, int tokens, int position) {
    const std::size_t most = decoder_->pages() / static_cast<std::size_t>(options_.texts);
    std::vector<model::Token> some(static_cast<std::size_t>(tokens));
    for (std::size_t at = 0; at < some.size(); ++at)
      some[at] = static_cast<model::Token>((at * 131 + static_cast<std::size_t>(position)) %
                                           model_->vocabulary());
    std::vector<std::vector<std::int32_t>> pages(static_cast<std::size_t>(texts));
    std::vector<model::TextPart> parts;
    for (std::size_t text = 0; text < pages.size(); ++text) {
      pages[text].resize(most);
      std::iota(pages[text].begin(), pages[text].end(), static_cast<std::int32_t>(text * most));
      parts.push_back(
          {.tokens = some, .position = static_cast<std::size_t>(position), .pages = pages[text]});
    }
    scores_.resize(parts.size() * model_->vocabulary());
    Result<void> done;
    const double seconds = seconds_of([&] { done = decoder_->read(parts, scores_); });
    if (!done) return done.error();
    return seconds;
  }

  const Options& options_;
  std::unique_ptr<ops::Backend> backend_;
  const model::Model* model_;
  std::span<const float> weights_;
  model::WeightLayout layout_;
  tensor::Buffer image_;
  std::unique_ptr<model::Program> program_;
  std::unique_ptr<model::Decoder> decoder_;
  std::vector<float> scores_;
};

// Whether the bars are reached.
Result<bool> measure(const Options& options, const std::string& name, ops::WeightFormat format,
                     Run run) {
  if (auto opened = run.open(format); !opened) return opened.error();
  Figures figures, first;
  if (auto done = run.round(first); !done) return done.error();
  for (int round = 0; round < options.rounds; ++round)
    if (auto done = run.round(figures); !done) return done.error();
  const double token = median(figures.token_seconds), bandwidth = median(figures.bandwidth);
  const double share = run.bytes() / token / bandwidth;
  const double together = median(figures.together_rate) * token;
  std::printf(
      "%-11s %s a token %6.2f ms: %4.1f GB/s of %4.1f, %3.0f %%; prompt of %d: %5.0f tokens/s; %d "
      "texts: %5.0f tokens/s, %.1f x one\n",
      name.c_str(), std::string(to_string(format)).c_str(), token * 1e3, run.bytes() / token / 1e9,
      bandwidth / 1e9, share * 100, options.prompt, median(figures.prompt_rate), options.texts,
      median(figures.together_rate), together);
  return share >= bound_of(format) && together >= kTogether;
}

}  // namespace

int decode(int argc, char** argv) {
  Options options;
  CLI::App flags;
  flags.add_option("--model", options.model);
  flags.add_option("--weights", options.weights)->delimiter(',');
  flags.add_option("--threads", options.threads)->check(CLI::Range(1, 64));
  flags.add_option("--rounds", options.rounds)->check(CLI::Range(1, 100));
  flags.add_option("--tokens", options.tokens)->check(CLI::Range(4, 512));
  flags.add_option("--prompt", options.prompt)->check(CLI::Range(1, 1024));
  flags.add_option("--texts", options.texts)->check(CLI::Range(1, 64));
  flags.add_flag("--require", options.require);
  if (!parsed(flags, argc, argv)) {
    std::fprintf(stderr,
                 "usage: gpunode-bench decode [--model gpt2-124m|llama-0.5b] [--weights "
                 "fp32,bf16,int8,int4] "
                 "[--threads N] [--rounds N] [--tokens N] [--prompt N] [--texts N] [--require]\n");
    return 2;
  }
  bool reached = true;
  for (const Shape& shape : kShapes) {
    if (!options.model.empty() && options.model != shape.name) continue;
    const auto model = *model::make_model(shape.kind, shape.settings);
    std::vector<float> weights(model->parameter_count());
    model->initialise(1, weights);
    for (const ops::WeightFormat format : ops::kWeightFormats) {
      const auto& asked = options.weights;
      if (!asked.empty() && std::ranges::find(asked, to_string(format)) == asked.end()) continue;
      const auto done = measure(options, shape.name, format, Run(options, *model, weights));
      if (!done) {
        std::fprintf(stderr, "%s: %s\n", shape.name, done.error().message().c_str());
        return 1;
      }
      reached = reached && *done;
    }
  }
  return options.require && !reached ? 1 : 0;
}

}  // namespace gpunode::bench
