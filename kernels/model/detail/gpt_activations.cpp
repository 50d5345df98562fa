#include "kernels/model/detail/gpt_activations.hpp"

#include "kernels/ops/attention.hpp"

namespace gpunode::model {
namespace {

GptNorm carve_norm(Carver& carver, std::int64_t rows, std::int64_t channels) {
  return {carver.take({rows, channels}), carver.take({rows}), carver.take({rows})};
}

GptBlockActivations carve_block(Carver& carver, const GptConfig& config, std::int64_t samples,
                                std::int64_t positions, bool keep_probabilities) {
  const std::int64_t R = samples * positions, C = config.channels, F = config.expansion * C;
  GptBlockActivations block;
  block.norm1 = carve_norm(carver, R, C);
  block.qkv = carver.take({samples, positions, 3 * C});
  if (keep_probabilities)
    block.probabilities =
        carver.take({samples, config.heads, positions, ops::padded_row(positions)});
  block.attended = carver.take({samples, positions, C});
  block.residual1 = carver.take({R, C});
  block.norm2 = carve_norm(carver, R, C);
  block.expanded = carver.take({R, F});
  block.activated = carver.take({R, F});
  block.residual2 = carver.take({R, C});
  return block;
}

}  // namespace

GptActivations carve_activations(Carver& carver, const GptConfig& config, std::int64_t samples) {
  const std::int64_t R = samples * config.context, C = config.channels;
  GptActivations activations;
  activations.embedded = carver.take({samples, config.context, C});
  for (std::int64_t layer = 0; layer < config.layers; ++layer)
    activations.blocks.push_back(carve_block(carver, config, samples, config.context, true));
  activations.norm = carve_norm(carver, R, C);
  activations.logits = carver.take({R, config.vocabulary});
  activations.losses = carver.take({R});
  activations.dstream = carver.take({R, C});
  return activations;
}

GptScratch carve_scratch(Carver& carver, const GptConfig& config, std::int64_t samples) {
  const std::int64_t T = config.context, C = config.channels;
  return {carver.take({samples * T, C}), carver.take({samples, T, 3 * C})};
}

GptActivations carve_session(Carver& carver, const GptConfig& config, std::int64_t positions) {
  GptActivations session;
  session.embedded = carver.take({1, positions, config.channels});
  session.blocks = {carve_block(carver, config, 1, positions, false)};
  session.norm = carve_norm(carver, 1, config.channels);
  return session;
}

}  // namespace gpunode::model
