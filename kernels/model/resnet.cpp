#include "kernels/model/resnet.hpp"

#include <cmath>

#include "kernels/model/registry.hpp"

namespace gpunode::model {
namespace {

using graph::Builder;
using graph::constant;
using graph::ValueId;

constexpr float kMomentum = 0.1f;  // of running statistics

constexpr IntegerKey<ResnetConfig> kResnetKeys[] = {
    {"height", &ResnetConfig::height, 1, 4096},     {"width", &ResnetConfig::width, 1, 4096},
    {"channels", &ResnetConfig::channels, 1, 1024}, {"classes", &ResnetConfig::classes, 2, 1048576},
    {"groups", &ResnetConfig::groups, 1, 8},        {"blocks", &ResnetConfig::blocks, 1, 100},
    {"filters", &ResnetConfig::filters, 1, 1024},   {"stem", &ResnetConfig::stem, 3, 7}};

struct Window {
  std::int64_t C, O, size, stride;  // channels in and out
};

// x (B, H, W, C) -> (B, H / stride, W / stride, O), rounded up
ValueId conv(Builder& g, const std::string& name, ValueId x, const Window& w) {
  const float deviation = std::sqrt(2.0f / static_cast<float>(w.O * w.size * w.size));
  const ValueId weight =
      g.parameter(name + ".weight", {w.O, w.size, w.size, w.C}, graph::normal(deviation));
  return g.conv2d(x, weight, {.stride = w.stride, .padding = w.size / 2});
}

// x (..., C) -> (..., C)
ValueId norm(Builder& g, const std::string& name, ValueId x, std::int64_t C) {
  const ValueId weight = g.parameter(name + ".weight", {C}, constant(1));
  const ValueId bias = g.parameter(name + ".bias", {C}, constant(0));
  const ValueId mean = g.buffer(name + ".running_mean", {C}, constant(0), kMomentum);
  const ValueId variance = g.buffer(name + ".running_var", {C}, constant(1), kMomentum);
  return g.batchnorm(x, weight, bias, {mean, variance});
}

// x (B, H, W, C) -> (B, H / stride, W / stride, O)
ValueId block(Builder& g, ValueId x, const Window& first) {
  const std::int64_t O = first.O;
  ValueId y = g.relu(norm(g, "bn1", conv(g, "conv1", x, first), O));
  y = norm(g, "bn2", conv(g, "conv2", y, {O, O, 3, 1}), O);
  if (first.stride != 1 || first.C != O)
    x = norm(g, "downsample.1", conv(g, "downsample.0", x, {first.C, O, 1, first.stride}), O);
  return g.relu(g.add(y, x));
}

}  // namespace

void Resnet::forward(Builder& g) const {
  const auto [height, width, channels, classes, groups, blocks, filters, stem] = config_;
  const Inputs inputs = inputs_of(g, {height, width, channels});
  const bool wide = stem == 7;
  ValueId x = conv(g, "conv1", inputs.features, {channels, filters, stem, wide ? 2 : 1});
  x = g.relu(norm(g, "bn1", x, filters));
  if (wide) x = g.max_pool2d(x, 3, {.stride = 2, .padding = 1});
  std::int64_t C = filters;
  for (std::int64_t group = 1; group <= groups; ++group)
    for (std::int64_t index = 0; index < blocks; ++index) {
      g.scope("layer" + std::to_string(group) + "." + std::to_string(index) + ".");
      g.pause();
      const bool halves = group > 1 && index == 0;
      const std::int64_t O = halves ? 2 * C : C;
      x = block(g, x, {C, O, 3, halves ? 2 : 1});
      C = O;
    }
  g.scope("");
  g.pause();
  const float deviation = std::sqrt(1.0f / static_cast<float>(3 * C));
  g.predict(linear(g, {"fc", classes, C, deviation}, g.mean_pool(x)), inputs.labels);
}

std::string Resnet::name() const {
  const std::int64_t layers = 2 + 2 * config_.groups * config_.blocks;
  return "resnet-" + std::to_string(layers) + " of " + std::to_string(config_.filters);
}

Settings Resnet::config() const {
  return settings_of(kResnetKeys, config_);
}

Result<std::unique_ptr<Resnet>> Resnet::open(ResnetConfig config) {
  if (config.stem != 3 && config.stem != 7)
    return {ErrorCode::invalid_argument,
            "stem = " + std::to_string(config.stem) + " is neither 3 nor 7"};
  constexpr std::int64_t kMostValues = 1 << 28;  // of an image: a gibibyte
  if (config.height > kMostValues / config.width ||
      config.height * config.width > kMostValues / config.channels)
    return {ErrorCode::invalid_argument,
            "an image of " + std::to_string(config.height) + " x " + std::to_string(config.width) +
                " with " + std::to_string(config.channels) + " channels has more than " +
                std::to_string(kMostValues) + " numbers"};
  std::unique_ptr<Resnet> model(new Resnet(config));
  if (auto done = model->prepare(); !done) return done.error();
  return model;
}

Result<std::unique_ptr<Model>> make_resnet(const Settings& settings) {
  const auto config = read_settings(kResnetKeys, settings);
  if (!config) return config.error();
  auto made = Resnet::open(*config);
  if (!made) return made.error();
  return std::unique_ptr<Model>(std::move(*made));
}

}  // namespace gpunode::model
