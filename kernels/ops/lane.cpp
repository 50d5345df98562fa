#include "kernels/ops/lane.hpp"

namespace gpunode::ops {

Result<Lane> Lane::open(Backend& backend, tensor::BufferPool& pool) {
  auto stream = backend.open_stream();
  if (!stream) return stream.error();
  return Lane(backend, pool, std::move(*stream));
}

Result<float*> Lane::scratch(std::size_t count) {
  if (auto grown = pool_->grow(scratch_, count * sizeof(float)); !grown) return grown.error();
  return scratch_.as<float>();
}

Spread serial(Lane& lane) {
  return [&lane](std::size_t count, const LaneTask& task) -> Result<void> {
    for (std::size_t index = 0; index < count; ++index)
      if (auto done = task(lane, index); !done) return done;
    return lane.finish();
  };
}

Result<tensor::Buffer> place(Lane& lane, tensor::BufferPool& pool, std::span<const float> values) {
  auto buffer = pool.take(values.size_bytes());
  if (!buffer) return buffer;
  if (auto done = lane.upload(std::as_bytes(values), buffer->data()); !done) return done.error();
  if (auto done = lane.finish(); !done) return done.error();
  return buffer;
}

}  // namespace gpunode::ops
