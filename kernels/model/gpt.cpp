#include "kernels/model/gpt.hpp"

#include <cmath>
#include <numbers>

#include "kernels/model/detail/gpt_program.hpp"
#include "kernels/model/registry.hpp"
#include "kernels/tensor/exact_math.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::model {
namespace {

constexpr float kZeros = 0.0f;
constexpr float kOnes = -1.0f;
constexpr float kDeviation = 0.02f;

// A setting, and what may be chosen.
struct Key {
  const char* name;
  std::int64_t GptConfig::*field;
  std::int64_t low, high;
};
constexpr Key kKeys[] = {
    {"layers", &GptConfig::layers, 1, 1000},        {"heads", &GptConfig::heads, 1, 1000},
    {"channels", &GptConfig::channels, 1, 65536},   {"context", &GptConfig::context, 1, 65536},
    {"vocabulary", &GptConfig::vocabulary, 2, 256}, {"expansion", &GptConfig::expansion, 1, 64}};

// One standard normal value for each counter: Box and Muller's transform of two uniform ones.
double normal_value(std::uint64_t seed, std::uint64_t element) {
  const auto uniform = [&](std::uint64_t counter) {  // in (0, 1)
    return (static_cast<double>(mix(seed, counter) >> 11) + 0.5) * 0x1.0p-53;
  };
  const double radius = std::sqrt(-2.0 * tensor::exact_log(uniform(2 * element)));
  return radius * tensor::exact_cos(2.0 * std::numbers::pi * uniform(2 * element + 1));
}

}  // namespace

Gpt::Gpt(GptConfig config) : config_(config) {
  const std::int64_t C = config.channels, F = config.expansion * C;
  const float residual =
      kDeviation / std::sqrt(2.0f * static_cast<float>(config.layers));  // IEEE square root
  places_.token_table = append("token_table", {config.vocabulary, C}, kDeviation);
  places_.position_table = append("position_table", {config.context, C}, kDeviation);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = "blocks." + std::to_string(layer) + ".";
    GptBlock<GptPlace> block;
    block.norm1_weight = append(prefix + "norm1.weight", {C}, kOnes);
    block.norm1_bias = append(prefix + "norm1.bias", {C}, kZeros);
    block.attention_weight = append(prefix + "attention.weight", {3 * C, C}, kDeviation);
    block.attention_bias = append(prefix + "attention.bias", {3 * C}, kZeros);
    block.projection_weight = append(prefix + "projection.weight", {C, C}, residual);
    block.projection_bias = append(prefix + "projection.bias", {C}, kZeros);
    block.norm2_weight = append(prefix + "norm2.weight", {C}, kOnes);
    block.norm2_bias = append(prefix + "norm2.bias", {C}, kZeros);
    block.expand_weight = append(prefix + "expand.weight", {F, C}, kDeviation);
    block.expand_bias = append(prefix + "expand.bias", {F}, kZeros);
    block.reduce_weight = append(prefix + "reduce.weight", {C, F}, residual);
    block.reduce_bias = append(prefix + "reduce.bias", {C}, kZeros);
    places_.blocks.push_back(block);
  }
  places_.norm_weight = append("norm.weight", {C}, kOnes);
  places_.norm_bias = append("norm.bias", {C}, kZeros);
}

GptPlace Gpt::append(std::string name, std::initializer_list<std::int64_t> shape, float deviation) {
  const GptPlace place{parameter_count_, shape};
  parameters_.push_back({std::move(name), shape, shape.size() > 1});
  deviations_.push_back(deviation);
  parameter_count_ += parameters_.back().element_count();
  return place;
}

std::string Gpt::name() const {
  return "gpt " + std::to_string(config_.layers) + "x" + std::to_string(config_.channels);
}

Settings Gpt::config() const {
  Settings settings;
  for (const Key& key : kKeys) settings[key.name] = std::to_string(config_.*key.field);
  return settings;
}

void Gpt::initialise(std::uint64_t seed, std::span<float> parameters) const {
  GPUNODE_CHECK(parameters.size() == parameter_count_, "initialise: wrong number of parameters");
  std::size_t element = 0;
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    const float deviation = deviations_[index];
    for (const std::size_t end = element + parameters_[index].element_count(); element < end;
         ++element) {
      if (deviation > 0)
        parameters[element] = static_cast<float>(double{deviation} * normal_value(seed, element));
      else
        parameters[element] = deviation < 0 ? 1.0f : 0.0f;
    }
  }
}

std::vector<ElementRange> Gpt::stages() const {
  std::vector<ElementRange> stages;
  std::size_t end = parameter_count_;
  const auto final_from = [&](std::size_t first) {
    stages.push_back({first, end - first});
    end = first;
  };
  for (auto block = places_.blocks.rbegin(); block != places_.blocks.rend(); ++block) {
    final_from(block->reduce_weight.first);
    final_from(block->norm2_weight.first);
    final_from(block->norm1_weight.first);
  }
  final_from(0);
  return stages;
}

std::vector<ElementRange> Gpt::forward_stages() const {
  std::vector<ElementRange> stages;
  std::size_t begin = 0;
  const auto reads_to = [&](std::size_t end) {
    stages.push_back({begin, end - begin});
    begin = end;
  };
  for (const GptBlock<GptPlace>& block : places_.blocks) {
    reads_to(block.norm1_weight.first);
    reads_to(block.norm2_weight.first);
  }
  reads_to(places_.norm_weight.first);
  reads_to(parameter_count_);
  return stages;
}

Result<std::unique_ptr<Program>> Gpt::program(ops::Backend& backend, int workers) const {
  return GptProgram::open(*this, backend, workers);
}

Result<std::unique_ptr<Model>> make_gpt(const Settings& settings) {
  GptConfig config;
  std::vector<std::string> names;
  for (const Key& key : kKeys) names.push_back(key.name);
  if (auto known = reject_unknown(settings, names); !known) return known.error();
  for (const Key& key : kKeys) {
    auto value = take_integer(settings, key.name, {config.*key.field, key.low, key.high});
    if (!value) return value.error();
    config.*key.field = *value;
  }
  if (config.channels % config.heads != 0)
    return {ErrorCode::invalid_argument,
            "heads = " + std::to_string(config.heads) + " does not divide channels = " +
                std::to_string(config.channels) + ": choose a divisor"};
  return std::unique_ptr<Model>(std::make_unique<Gpt>(config));
}

}  // namespace gpunode::model
