#include "kernels/tensor/buffer.hpp"

#include <bit>
#include <string>
#include <utility>

namespace gpunode::tensor {

// The pool's state, kept alive by every buffer that still has to come back to it.
struct Buffer::Store {
  std::mutex mutex;
  std::shared_ptr<Memory> memory;
  std::uint64_t budget = 0, in_use = 0, kept = 0;
  std::map<std::size_t, std::vector<void*>> free;  // by size class

  ~Store() { drop_kept(); }

  void drop_kept() {
    for (auto& [bytes, pieces] : free)
      for (void* piece : pieces) memory->release(piece, bytes);
    free.clear();
    kept = 0;
  }
};

namespace {

// Classes are an eighth of a power of two apart, so at most an eighth of a piece is unused.
std::size_t size_class(std::size_t bytes) {
  constexpr std::size_t kSmallest = 4096;
  if (bytes <= kSmallest) return kSmallest;
  const std::size_t step = std::bit_floor(bytes - 1) / 8;
  return (bytes + step - 1) / step * step;
}

}  // namespace

void Buffer::Return::operator()(void* data) const {
  std::lock_guard lock(store->mutex);
  store->free[class_bytes].push_back(data);
  store->in_use -= class_bytes;
  store->kept += class_bytes;
}

BufferPool::BufferPool(std::shared_ptr<Memory> memory, std::uint64_t budget_bytes)
    : store_(std::make_shared<Buffer::Store>()) {
  store_->memory = std::move(memory);
  store_->budget = budget_bytes;
}

Result<Buffer> BufferPool::take(std::size_t bytes) {
  std::lock_guard lock(store_->mutex);
  // A size that only a wrapped multiplication gives must not wrap again in its size class.
  if (bytes > store_->budget || size_class(bytes) > store_->budget - store_->in_use)
    return {ErrorCode::out_of_memory,
            std::to_string(bytes) + " bytes asked for, " + std::to_string(store_->in_use) + " of " +
                std::to_string(store_->budget) + " in use on " + store_->memory->device().name +
                ": use a smaller model, context or slice, or raise the memory budget"};
  const std::size_t needed = size_class(bytes);
  void* data = nullptr;
  auto found = store_->free.find(needed);
  if (found != store_->free.end() && !found->second.empty()) {
    data = found->second.back();
    found->second.pop_back();
    store_->kept -= needed;
  } else {
    if (needed > store_->budget - store_->in_use - store_->kept) store_->drop_kept();
    auto fresh = store_->memory->allocate(needed);
    if (!fresh && store_->kept > 0) {  // a device has less than all of its memory to give
      store_->drop_kept();
      fresh = store_->memory->allocate(needed);
    }
    if (!fresh) return fresh.error();
    data = *fresh;
  }
  store_->in_use += needed;
  Buffer buffer;
  buffer.data_ = {data, {store_, needed}};
  buffer.bytes_ = bytes;
  return buffer;
}

Result<void> BufferPool::grow(Buffer& buffer, std::size_t bytes) {
  if (buffer.size() >= bytes) return {};
  buffer = Buffer();
  auto fresh = take(bytes);
  if (!fresh) return fresh.error();
  buffer = std::move(*fresh);
  return {};
}

std::uint64_t BufferPool::in_use_bytes() const {
  std::lock_guard lock(store_->mutex);
  return store_->in_use;
}

std::uint64_t BufferPool::held_bytes() const {
  std::lock_guard lock(store_->mutex);
  return store_->in_use + store_->kept;
}

}  // namespace gpunode::tensor
