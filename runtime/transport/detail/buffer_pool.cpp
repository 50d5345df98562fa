#include "runtime/transport/detail/buffer_pool.hpp"

#include <bit>
#include <new>

namespace gpunode::transport::detail {

namespace {
constexpr std::size_t kMostKept = std::size_t{64} << 20;
constexpr std::align_val_t kAlignment{64};
}  // namespace

void BufferPool::Free::operator()(std::byte* bytes) const {
  ::operator delete[](bytes, kAlignment);
}

BufferPool::Buffer BufferPool::take(std::size_t size) {
  Kept kept;
  {
    std::lock_guard lock(mutex_);
    for (std::size_t at = free_.size(); at-- > 0;) {
      if (free_[at].capacity < size || free_[at].capacity > size * 2) continue;
      kept = std::move(free_[at]);
      free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(at));
      kept_bytes_ -= kept.capacity;
      break;
    }
  }
  if (!kept.bytes) {
    kept.capacity = std::bit_ceil(size);
    kept.bytes.reset(static_cast<std::byte*>(::operator new[](kept.capacity, kAlignment)));
  }
  const std::size_t capacity = kept.capacity;
  return {kept.bytes.release(), [pool = shared_from_this(), capacity](std::byte* bytes) {
            pool->give({std::unique_ptr<std::byte[], Free>(bytes), capacity});
          }};
}

void BufferPool::give(Kept kept) {
  std::lock_guard lock(mutex_);
  if (kept_bytes_ + kept.capacity > kMostKept) return;
  kept_bytes_ += kept.capacity;
  free_.push_back(std::move(kept));
}

}  // namespace gpunode::transport::detail
