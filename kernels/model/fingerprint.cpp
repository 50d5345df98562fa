#include "kernels/model/fingerprint.hpp"

#include "kernels/model/model_code.hpp"
#include "kernels/model/optimizer.hpp"
#include "kernels/ops/backend.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::model {
namespace {

constexpr std::uint64_t kSeed = 0x676e6f6465;  // any value, but the same everywhere

void add(DigestStream& stream, std::string_view text) {
  const std::uint64_t size = text.size();
  stream.add(std::as_bytes(std::span(&size, 1)));
  stream.add(as_bytes(text));
}

Digest model_digest(const Model& model, std::span<const float> weights) {
  DigestStream stream;
  add(stream, model.kind());
  for (const auto& [key, value] : model.config()) {
    add(stream, key);
    add(stream, value);
  }
  for (const ParameterSpec& parameter : model.parameters()) {
    add(stream, parameter.name);
    stream.add(std::as_bytes(std::span(parameter.shape)));
  }
  stream.add(std::as_bytes(weights));
  return stream.value();
}

}  // namespace

Result<Fingerprint> compute_fingerprint(const Model& model, ops::Backend& backend,
                                        std::span<const Sample> samples) {
  auto program = make_program(model, backend, 1);
  if (!program) return program.error().within("fingerprint");
  std::vector<float> weights(model.parameter_count()), gradient(model.parameter_count());
  model.initialise(kSeed, weights);
  const Digest definition = model_digest(model, weights);
  if (auto done = (*program)->load(weights); !done) return done.error();

  auto loss = (*program)->gradient(0, samples, gradient);
  if (!loss) return loss.error().within("fingerprint");

  Adamw optimizer(model.parameters(), AdamwOptions{}, backend);
  const auto tokens = samples.size() * model.tokens_per_sample();
  optimizer.apply(1, gradient, tokens, weights);
  DigestStream digest;
  digest.add(std::as_bytes(std::span(&*loss, 1)));
  digest.add(std::as_bytes(std::span<const float>(gradient)));
  digest.add(std::as_bytes(std::span<const float>(weights)));
  const ops::Capabilities& capabilities = backend.capabilities();
  return Fingerprint{
      digest.value(),
      backend.device().name + " " + capabilities.instruction_set + ", " + capabilities.library,
      definition};
}

}  // namespace gpunode::model
