#include "kernels/tensor/workspace.hpp"

namespace gpunode::tensor {

Result<void> Workspace::reserve(std::size_t bytes) {
  GPUNODE_CHECK(used_ == 0, "a workspace grows only while nothing of it is in use");
  GPUNODE_CHECK(pool_ || bytes <= size_, "a workspace over borrowed memory does not grow");
  if (!pool_) return {};
  auto grown = pool_->grow(buffer_, bytes);
  data_ = buffer_.as<std::byte>();
  size_ = buffer_.size();
  if (!grown) return grown.error().within("workspace");
  return {};
}

void* Workspace::take_bytes(std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (rounded > size_ - used_) return nullptr;
  void* data = data_ + used_;
  used_ += rounded;
  return data;
}

}  // namespace gpunode::tensor
