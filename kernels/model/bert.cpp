#include "kernels/model/bert.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/model/registry.hpp"
#include "kernels/model/text_model.hpp"
#include "kernels/ops/cross_entropy.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::model {
namespace {

using graph::Builder;
using graph::Dtype;
using graph::normal;
using graph::ValueId;

constexpr float kDeviation = 0.02f;
constexpr double kDrawn = 0.15, kHidden = 0.8, kReplaced = 0.1;  // the latter two of the drawn

constexpr std::int64_t kLast = kVocabularyLimit - 1;
constexpr IntegerKey<BertConfig> kBertKeys[] = {
    {"layers", &BertConfig::layers, 1, 1000},
    {"heads", &BertConfig::heads, 1, 1000},
    {"channels", &BertConfig::channels, 1, 65536},
    {"hidden", &BertConfig::hidden, 1, 1048576},
    {"context", &BertConfig::context, 2, 65536},
    {"vocabulary", &BertConfig::vocabulary, 2, kVocabularyLimit},
    {"segments", &BertConfig::segments, 1, 1024},
    {"mask", &BertConfig::mask, -1, kLast},
    {"mask_seed", &BertConfig::mask_seed, 0, std::int64_t{1} << 62},
    {"padding", &BertConfig::padding, -1, kLast},
    {"opening", &BertConfig::opening, -1, kLast},
    {"separator", &BertConfig::separator, -1, kLast}};
constexpr RealKey<BertConfig> kBertReals[] = {{"epsilon", &BertConfig::epsilon, 1e-30, 1e-2}};

// In [0, 1), from the upper bits.
double unit(std::uint64_t draw) {
  return static_cast<double>(draw >> 11) * 0x1.0p-53;
}

}  // namespace

void Bert::forward(Builder& g) const {
  const std::int64_t C = config_.channels, F = config_.hidden, V = config_.vocabulary;
  const std::int64_t T = g.positions();
  const auto norm = [&](const std::string& name, ValueId x) {
    const ValueId weight = g.parameter(name + ".weight", {C}, graph::constant(1));
    const ValueId bias = g.parameter(name + ".bias", {C}, graph::constant(0));
    return g.layernorm(x, weight, bias, static_cast<float>(config_.epsilon));
  };
  const auto gelu = [&g](ValueId x) { return g.gelu(x, ops::GeluForm::erf); };
  const ValueId tokens = g.input("tokens", Dtype::i32, {T});
  const ValueId segments = g.input("segments", Dtype::i32, {T});
  const ValueId lengths = g.input("lengths", Dtype::i32, {});
  const ValueId targets = g.input("targets", Dtype::i32, {T});
  const ValueId token_table = g.parameter("token_table", {V, C}, normal(kDeviation));
  const ValueId position_table =
      g.parameter("position_table", {config_.context, C}, normal(kDeviation));
  const ValueId segment_table =
      g.parameter("segment_table", {config_.segments, C}, normal(kDeviation));
  ValueId x = g.embedding(tokens, token_table, position_table, segments, segment_table);
  x = norm("norm", x);  // (B, T, C)
  for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
    g.scope("blocks." + std::to_string(layer) + ".");
    g.pause();
    ValueId y = g.attention(linear(g, {"attention", 3 * C, C, kDeviation}, x),
                            {.heads = config_.heads, .causal = false, .lengths = lengths});
    x = norm("norm1", g.add(x, linear(g, {"projection", C, C, kDeviation}, y)));
    g.pause();
    y = gelu(linear(g, {"expand", F, C, kDeviation}, x));
    x = norm("norm2", g.add(x, linear(g, {"reduce", C, F, kDeviation}, y)));
  }
  g.represent(x);
  g.scope("head.");
  g.pause();
  x = norm("norm", gelu(linear(g, {"transform", C, C, kDeviation}, x)));
  g.predict(g.linear(x, token_table, g.parameter("bias", {V}, graph::constant(0))), targets);
}

std::optional<std::int32_t> Bert::drawn(std::uint64_t sample, std::size_t position,
                                        std::int32_t token) const {
  if (is_special(token)) return std::nullopt;
  const auto seed = static_cast<std::uint64_t>(config_.mask_seed);
  const std::uint64_t draw = mix(mix(seed, sample), position);
  if (unit(draw) >= kDrawn) return std::nullopt;
  const double kind = unit(mix(draw, 1));
  if (kind < kHidden) return static_cast<std::int32_t>(mask());
  if (kind >= kHidden + kReplaced) return token;
  return static_cast<std::int32_t>(mix(draw, 2) % vocabulary());
}

std::vector<SampleField> Bert::sample_fields() const {
  const auto count = static_cast<std::uint32_t>(config_.context);
  if (reads_bytes()) return {{"text", SampleDtype::u8, count}};
  return {{"tokens", SampleDtype::i32, count}};
}

Result<void> Bert::read(const Sample& sample, std::span<const InputPart> inputs) const {
  const std::span<std::int32_t> tokens = inputs[0].tokens(), segments = inputs[1].tokens();
  const std::span<std::int32_t> targets = inputs[3].tokens();
  if (reads_bytes())
    std::ranges::copy(sample.bytes, tokens.begin());
  else
    std::memcpy(tokens.data(), sample.bytes.data(), tokens.size_bytes());
  std::size_t length = tokens.size();
  while (length > 1 && tokens[length - 1] == config_.padding) --length;
  inputs[2].tokens()[0] = static_cast<std::int32_t>(length);
  std::int32_t segment = 0;
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    const std::int32_t token = tokens[at];
    if (token < 0 || token >= config_.vocabulary)
      return {ErrorCode::invalid_argument,
              "sample " + std::to_string(sample.index) + " holds " + std::to_string(token) +
                  " at its position " + std::to_string(at) +
                  ", but vocabulary = " + std::to_string(config_.vocabulary)};
    segments[at] = at < length ? segment : 0;
    if (token == config_.separator && segment + 1 < config_.segments) ++segment;
    const auto shown = at < length ? drawn(sample.index, at, token) : std::nullopt;
    targets[at] = shown ? token : -1;
    if (shown) tokens[at] = *shown;
  }
  return {};
}

Result<void> Bert::read_text(std::span<const Token> text, std::span<const InputPart> inputs) const {
  std::ranges::copy(text, inputs[0].tokens().begin());
  std::int32_t segment = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    inputs[1].tokens()[at] = segment;
    if (text[at] == config_.separator && segment + 1 < config_.segments) ++segment;
  }
  inputs[2].tokens()[0] = static_cast<std::int32_t>(text.size());
  std::ranges::fill(inputs[3].tokens(), ops::kNoTarget);
  return {};
}

std::string Bert::name() const {
  return "bert " + std::to_string(config_.layers) + "x" + std::to_string(config_.channels);
}

Settings Bert::config() const {
  return settings_of(kBertKeys, config_, kBertReals);
}

Result<std::unique_ptr<Bert>> Bert::open(BertConfig config) {
  const auto refused = [](std::string text) {
    return Error{ErrorCode::invalid_argument, std::move(text)};
  };
  if (config.channels % config.heads != 0)
    return refused("heads = " + std::to_string(config.heads) + " does not divide channels = " +
                   std::to_string(config.channels) + ": choose a divisor");
  for (const std::int64_t token : {config.mask, config.padding, config.opening, config.separator})
    if (token >= config.vocabulary)
      return refused("token " + std::to_string(token) + " of mask, padding, opening or separator " +
                     "is outside vocabulary = " + std::to_string(config.vocabulary));
  std::unique_ptr<Bert> model(new Bert(config));
  if (auto done = model->prepare(); !done) return done.error();
  return model;
}

Result<std::unique_ptr<Model>> make_bert(const Settings& settings) {
  const auto config = read_settings(kBertKeys, settings, kBertReals);
  if (!config) return config.error();
  auto made = Bert::open(*config);
  if (!made) return made.error();
  return std::unique_ptr<Model>(std::move(*made));
}

}  // namespace gpunode::model
