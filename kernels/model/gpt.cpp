#include "kernels/model/gpt.hpp"

#include <cmath>

#include "kernels/model/registry.hpp"

namespace gpunode::model {
namespace {

using graph::Builder;
using graph::constant;
using graph::normal;
using graph::ValueId;

constexpr float kDeviation = 0.02f;

constexpr IntegerKey<GptConfig> kGptKeys[] = {
    {"layers", &GptConfig::layers, 1, 1000},
    {"heads", &GptConfig::heads, 1, 1000},
    {"channels", &GptConfig::channels, 1, 65536},
    {"context", &GptConfig::context, 1, 65536},
    {"vocabulary", &GptConfig::vocabulary, 2, kVocabularyLimit},
    {"expansion", &GptConfig::expansion, 1, 64}};

// x (..., C) -> (..., C)
ValueId norm(Builder& g, const std::string& name, std::int64_t C, ValueId x) {
  const ValueId weight = g.parameter(name + ".weight", {C}, constant(1));
  const ValueId bias = g.parameter(name + ".bias", {C}, constant(0));
  return g.layernorm(x, weight, bias);
}

}  // namespace

void Gpt::forward(Builder& g) const {
  const auto [L, H, C, T, V, expansion] = config_;
  const std::int64_t F = expansion * C;
  const float residual = kDeviation / std::sqrt(2.0f * static_cast<float>(L));
  const Inputs inputs = inputs_of(g);
  const ValueId token_table = g.parameter("token_table", {V, C}, normal(kDeviation));
  const ValueId position_table = g.parameter("position_table", {T, C}, normal(kDeviation));
  ValueId x = g.embedding(inputs.tokens, token_table, position_table);  // (B, T, C)
  for (std::int64_t layer = 0; layer < L; ++layer) {
    g.scope("blocks." + std::to_string(layer) + ".");
    g.pause();
    ValueId y = norm(g, "norm1", C, x);
    y = g.attention(linear(g, {"attention", 3 * C, C, kDeviation}, y), {.heads = H});
    x = g.add(x, linear(g, {"projection", C, C, residual}, y));
    g.pause();
    y = norm(g, "norm2", C, x);
    y = g.gelu(linear(g, {"expand", F, C, kDeviation}, y));
    g.pause();
    x = g.add(x, linear(g, {"reduce", C, F, residual}, y));
  }
  g.scope("");
  g.pause();
  x = norm(g, "norm", C, g.predicting(x));
  g.predict(g.linear(x, token_table), inputs.targets);
}

std::string Gpt::name() const {
  return "gpt " + std::to_string(config_.layers) + "x" + std::to_string(config_.channels);
}

Settings Gpt::config() const {
  return settings_of(kGptKeys, config_);
}

Result<std::unique_ptr<Gpt>> Gpt::open(GptConfig config) {
  if (config.channels % config.heads != 0)
    return {ErrorCode::invalid_argument,
            "heads = " + std::to_string(config.heads) + " does not divide channels = " +
                std::to_string(config.channels) + ": choose a divisor"};
  std::unique_ptr<Gpt> model(new Gpt(config));
  if (auto done = model->prepare(); !done) return done.error();
  return model;
}

Result<std::unique_ptr<Model>> make_gpt(const Settings& settings) {
  const auto config = read_settings(kGptKeys, settings);
  if (!config) return config.error();
  auto made = Gpt::open(*config);
  if (!made) return made.error();
  return std::unique_ptr<Model>(std::move(*made));
}

}  // namespace gpunode::model
