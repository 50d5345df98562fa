#include "actors/inference/detail/device_weights.hpp"

#include "kernels/ops/lane.hpp"

namespace gpunode::inference {

Result<tensor::Buffer> host_room(const compute::NodeDevice& device, std::size_t bytes) {
  ops::Backend& backend = device.backend();
  const bool is_the_devices = backend.capabilities().host_accessible;
  tensor::BufferPool pool(is_the_devices ? backend.memory() : tensor::host_memory(),
                          is_the_devices ? backend.capabilities().memory_bytes : kUnlimitedBytes);
  auto room = pool.take(bytes);
  if (!room) return room.error().within("weights of the model");
  tensor::expect_filled(*room);
  return room;
}

Result<std::shared_ptr<const tensor::Buffer>> on_device(const compute::NodeDevice& device,
                                                        tensor::Buffer image, std::size_t bytes) {
  ops::Backend& backend = device.backend();
  if (backend.capabilities().host_accessible)
    return std::make_shared<const tensor::Buffer>(std::move(image));
  tensor::BufferPool pool(backend.memory(), backend.capabilities().memory_bytes);
  auto lane = ops::Lane::open(backend, pool);
  if (!lane) return lane.error();
  auto placed = ops::place(*lane, pool, std::span(image.as<const float>(), bytes / sizeof(float)));
  if (!placed) return placed.error().within("weights of the model");
  return std::make_shared<const tensor::Buffer>(*std::move(placed));
}

}  // namespace gpunode::inference
