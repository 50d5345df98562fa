#include "kernels/model/detail/gpt_activations.hpp"

#include "kernels/ops/attention.hpp"

namespace gpunode::model {
namespace {

GptBlockActivations carve_block(Carver& carver, const GptConfig& config, std::int64_t samples,
                                std::int64_t positions, bool keep_probabilities) {
  const std::int64_t R = samples * positions, C = config.channels, F = config.expansion * C;
  GptBlockActivations block;
  block.norm1 = carver.take({R, C});
  block.mean1 = carver.take({R});
  block.rstd1 = carver.take({R});
  block.qkv = carver.take({samples, positions, 3 * C});
  if (keep_probabilities)
    block.probabilities =
        carver.take({samples, config.heads, positions, ops::padded_row(positions)});
  block.attended = carver.take({samples, positions, C});
  block.residual1 = carver.take({R, C});
  block.norm2 = carver.take({R, C});
  block.mean2 = carver.take({R});
  block.rstd2 = carver.take({R});
  block.expanded = carver.take({R, F});
  block.activated = carver.take({R, F});
  block.residual2 = carver.take({R, C});
  return block;
}

}  // namespace

GptActivations carve_activations(Carver& carver, const GptConfig& config, std::int64_t samples,
                                 std::int64_t positions) {
  const std::int64_t R = samples * positions, C = config.channels;
  GptActivations activations;
  activations.embedded = carver.take({samples, positions, C});
  for (std::int64_t layer = 0; layer < config.layers; ++layer)
    activations.blocks.push_back(carve_block(carver, config, samples, positions, true));
  activations.norm = carver.take({R, C});
  activations.mean = carver.take({R});
  activations.rstd = carver.take({R});
  activations.logits = carver.take({R, config.vocabulary});
  activations.losses = carver.take({R});
  activations.dstream = carver.take({R, C});
  return activations;
}

GptScratch carve_scratch(Carver& carver, const GptConfig& config, std::int64_t samples,
                         std::int64_t positions) {
  const std::int64_t R = samples * positions, C = config.channels;
  GptScratch scratch;
  scratch.dnorm = carver.take({R, C});
  scratch.dqkv = carver.take({samples, positions, 3 * C});
  return scratch;
}

GptSessionActivations carve_session(Carver& carver, const GptConfig& config,
                                    std::int64_t positions) {
  GptSessionActivations session;
  session.embedded = carver.take({1, positions, config.channels});
  session.block = carve_block(carver, config, 1, positions, false);
  session.norm = carver.take({1, config.channels});
  session.mean = carver.take({1});
  session.rstd = carver.take({1});
  return session;
}

}  // namespace gpunode::model
