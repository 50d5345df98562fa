#include "kernels/model/mlp.hpp"

#include <cmath>

#include "kernels/model/registry.hpp"

namespace gpunode::model {
namespace {

constexpr IntegerKey<MlpConfig> kMlpKeys[] = {{"features", &MlpConfig::features, 1, 1048576},
                                              {"classes", &MlpConfig::classes, 2, 1048576},
                                              {"layers", &MlpConfig::layers, 1, 100},
                                              {"hidden", &MlpConfig::hidden, 1, 65536},
                                              {"divisor", &MlpConfig::divisor, 1, 1048576}};

}  // namespace

void Mlp::forward(graph::Builder& g) const {
  const auto [features, classes, layers, hidden, divisor] = config_;
  const auto deviation = [](std::int64_t inputs) {
    return std::sqrt(2.0f / static_cast<float>(inputs));
  };
  const Inputs inputs = inputs_of(g);
  graph::ValueId x = inputs.features;  // (B, features)
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const std::int64_t width = layer == 0 ? features : hidden;
    const float scale = layer == 0 ? 1.0f / static_cast<float>(divisor) : 1.0f;
    g.scope("layers." + std::to_string(layer) + ".");
    g.pause();
    x = g.relu(linear(g, {"linear", hidden, width, scale * deviation(width)}, x));
  }
  g.scope("");
  g.pause();
  g.predict(linear(g, {"head", classes, hidden, deviation(hidden)}, x), inputs.labels);
}

std::string Mlp::name() const {
  return "mlp " + std::to_string(config_.layers) + "x" + std::to_string(config_.hidden);
}

Settings Mlp::config() const {
  return settings_of(kMlpKeys, config_);
}

Result<std::unique_ptr<Mlp>> Mlp::open(MlpConfig config) {
  std::unique_ptr<Mlp> model(new Mlp(config));
  if (auto done = model->prepare(); !done) return done.error();
  return model;
}

Result<std::unique_ptr<Model>> make_mlp(const Settings& settings) {
  const auto config = read_settings(kMlpKeys, settings);
  if (!config) return config.error();
  auto made = Mlp::open(*config);
  if (!made) return made.error();
  return std::unique_ptr<Model>(std::move(*made));
}

}  // namespace gpunode::model
