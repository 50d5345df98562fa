#include "kernels/tensor/workspace.hpp"

namespace gpunode::tensor {

Result<void> Workspace::reserve(std::size_t bytes) {
  GPUNODE_CHECK(used_ == 0, "a workspace grows only while nothing of it is in use");
  if (bytes <= buffer_.size()) return {};
  buffer_ = Buffer();
  auto fresh = pool_->take(bytes);
  if (!fresh) return fresh.error().within("workspace");
  buffer_ = std::move(*fresh);
  return {};
}

void* Workspace::take_bytes(std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (rounded > buffer_.size() - used_) return nullptr;
  void* data = buffer_.as<char>() + used_;
  used_ += rounded;
  return data;
}

}  // namespace gpunode::tensor
