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

// A gradient and a state in the device's memory.
struct Device {
  std::unique_ptr<tensor::BufferPool> pool;
  ops::Lane lane;
  tensor::Buffer memory;
  std::span<float> gradient;
  Adamw::Values values;

  static Result<Device> open(ops::Backend& backend, std::size_t count) {
    auto pool =
        std::make_unique<tensor::BufferPool>(backend.memory(), backend.capabilities().memory_bytes);
    auto lane = ops::Lane::open(backend, *pool);
    if (!lane) return lane.error();
    auto memory = pool->take(4 * count * sizeof(float));
    if (!memory) return memory.error();
    const auto part = [&](std::size_t index) {
      return std::span(memory->as<float>() + index * count, count);
    };
    const std::span<float> gradient = part(0);
    const Adamw::Values values{part(1), part(2), part(3)};
    return Device{std::move(pool), *std::move(lane), *std::move(memory), gradient, values};
  }
  // These weights, moments of zero.
  Result<void> begin(std::span<const float> weights) {
    ops::Backend& backend = lane.backend();
    auto done = backend.clear(lane.stream(), memory.data(), memory.size());
    if (done) done = backend.upload(lane.stream(), std::as_bytes(weights), values.weights.data());
    return done ? lane.finish() : done;
  }
};

}  // namespace

Result<Fingerprint> compute_fingerprint(const Model& model, ops::Backend& backend,
                                        std::span<const Sample> samples) {
  auto program = make_program(model, backend, 1);
  if (!program) return program.error().within("fingerprint");
  const std::size_t count = model.parameter_count();
  std::vector<float> values(count);
  model.initialise(kSeed, values);
  const Digest definition = model_digest(model, values);
  auto device = Device::open(backend, count);
  if (!device) return device.error().within("fingerprint");
  if (auto done = device->begin(values); !done) return done.error().within("fingerprint");
  if (auto done = (*program)->load(device->values.weights); !done) return done.error();

  auto loss = (*program)->gradient(0, samples, device->gradient);
  if (!loss) return loss.error().within("fingerprint");

  Adamw optimizer(model.parameters(), AdamwOptions{}, backend);
  const SumOf of{loss->weight, static_cast<double>(samples.size())};
  const auto updated =
      optimizer.apply(1, device->gradient, of, device->values, ops::serial(device->lane));
  if (!updated) return updated.error().within("fingerprint");
  DigestStream digest;
  const bool in_fp32 = model.precision() == Precision::fp32;
  const std::string precision = in_fp32 ? "" : ", " + std::string(to_string(model.precision()));
  if (!in_fp32) add(digest, precision);  // as bits may be equal by chance
  const ops::Capabilities& capabilities = backend.capabilities();
  std::string text = capabilities.instruction_set + ", " + capabilities.library;
  if (!capabilities.chooses_by.empty()) {
    text += ", " + capabilities.chooses_by;
    add(digest, text);
  }
  digest.add(std::as_bytes(std::span(&*loss, 1)));
  for (const std::span<const float> part :
       {std::span<const float>(device->gradient), std::span<const float>(device->values.weights)}) {
    auto read = device->lane.backend().download(device->lane.stream(), part.data(),
                                                std::as_writable_bytes(std::span(values)));
    if (read) read = device->lane.finish();
    if (!read) return read.error().within("fingerprint");
    digest.add(std::as_bytes(std::span<const float>(values)));
  }
  return Fingerprint{digest.value(), backend.device().name + " " + text + precision, definition};
}

}  // namespace gpunode::model
