#include "kernels/model/llama.hpp"

#include <cmath>

#include "kernels/model/registry.hpp"

namespace gpunode::model {
namespace {

using graph::Builder;
using graph::ValueId;

constexpr float kDeviation = 0.02f;

constexpr IntegerKey<LlamaConfig> kLlamaKeys[] = {
    {"layers", &LlamaConfig::layers, 1, 1000},
    {"heads", &LlamaConfig::heads, 1, 1000},
    {"kv_heads", &LlamaConfig::kv_heads, 1, 1000},
    {"channels", &LlamaConfig::channels, 2, 65536},
    {"hidden", &LlamaConfig::hidden, 1, 1048576},
    {"context", &LlamaConfig::context, 1, 65536},
    {"vocabulary", &LlamaConfig::vocabulary, 2, kVocabularyLimit},
    {"theta", &LlamaConfig::theta, 1, 1000000000},
    {"attention_bias", &LlamaConfig::attention_bias, 0, 1},
    {"tied", &LlamaConfig::tied, 0, 1}};
constexpr RealKey<LlamaConfig> kLlamaReals[] = {{"epsilon", &LlamaConfig::epsilon, 1e-12, 1e-2}};

}  // namespace

void Llama::forward(Builder& g) const {
  const auto [L, H, K, C, F, T, V, theta, bias, tied, epsilon] = config_;
  const float residual = kDeviation / std::sqrt(2.0f * static_cast<float>(L));
  const auto norm = [&g, C = C, epsilon = static_cast<float>(epsilon)](const char* name,
                                                                       ValueId x) {
    return g.rmsnorm(x, g.parameter(std::string(name) + ".weight", {C}, graph::constant(1)),
                     epsilon);
  };
  const Inputs inputs = inputs_of(g);
  const ValueId token_table = g.parameter("token_table", {V, C}, graph::normal(kDeviation));
  ValueId x = g.embedding(inputs.tokens, token_table);  // (B, T, C)
  for (std::int64_t layer = 0; layer < L; ++layer) {
    g.scope("blocks." + std::to_string(layer) + ".");
    g.pause();
    ValueId y = norm("norm1", x);
    y = linear(g, {"attention", (H + 2 * K) * (C / H), C, kDeviation, bias == 1}, y);
    y = g.rotary(y, H, K, static_cast<double>(theta));
    y = g.attention(y, {.heads = H, .kv_heads = K});
    x = g.add(x, linear(g, {"projection", C, C, residual, false}, y));
    g.pause();
    y = norm("norm2", x);
    y = g.swiglu(linear(g, {"expand", 2 * F, C, kDeviation, false}, y));
    g.pause();
    x = g.add(x, linear(g, {"reduce", C, F, residual, false}, y));
  }
  g.scope("");
  g.pause();
  x = norm("norm", g.predicting(x));
  const ValueId logits =
      tied == 1 ? g.linear(x, token_table) : linear(g, {"head", V, C, kDeviation, false}, x);
  g.predict(logits, inputs.targets);
}

std::string Llama::name() const {
  return "llama " + std::to_string(config_.layers) + "x" + std::to_string(config_.channels);
}

Settings Llama::config() const {
  return settings_of(kLlamaKeys, config_, kLlamaReals);
}

Result<std::unique_ptr<Llama>> Llama::open(LlamaConfig config) {
  const auto refused = [](std::string text) {
    return Error{ErrorCode::invalid_argument, std::move(text)};
  };
  const std::string heads = "heads = " + std::to_string(config.heads);
  if (config.channels % config.heads != 0)
    return refused(heads + " does not divide channels = " + std::to_string(config.channels) +
                   ": choose a divisor");
  if (config.channels / config.heads % 2 != 0)
    return refused("channels / heads = " + std::to_string(config.channels / config.heads) +
                   " is odd, but rotary positions turn pairs: choose fewer or more heads");
  if (config.heads % config.kv_heads != 0)
    return refused("kv_heads = " + std::to_string(config.kv_heads) + " does not divide " + heads +
                   ": choose a divisor");
  constexpr std::int64_t kMostAngles = 1 << 26;  // a table of 256 MiB
  if (config.channels / config.heads > kMostAngles / config.context)
    return refused(
        "context = " + std::to_string(config.context) + " with heads of " +
        std::to_string(config.channels / config.heads) +
        " channels has too many rotary positions: choose more heads or a smaller context");
  std::unique_ptr<Llama> model(new Llama(config));
  if (auto done = model->prepare(); !done) return done.error();
  return model;
}

Result<std::unique_ptr<Model>> make_llama(const Settings& settings) {
  const auto config = read_settings(kLlamaKeys, settings, kLlamaReals);
  if (!config) return config.error();
  auto made = Llama::open(*config);
  if (!made) return made.error();
  return std::unique_ptr<Model>(std::move(*made));
}

}  // namespace gpunode::model
