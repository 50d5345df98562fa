// Memory for payloads that is used again while it is still in the cache: the last one given back is
// the first taken. Buffers may be given back on any thread. Keeps at most 64 MiB.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "runtime/base/bytes.hpp"

namespace gpunode::transport::detail {

class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  // At least `size` bytes, aligned for vectors of any width; back in the pool once nobody holds it.
  using Buffer = std::shared_ptr<std::byte[]>;
  Buffer take(std::size_t size);

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  struct Kept {
    std::unique_ptr<std::byte[], Free> bytes;
    std::size_t capacity = 0;
  };
  void give(Kept kept);

  std::mutex mutex_;
  std::vector<Kept> free_;
  std::size_t kept_bytes_ = 0;
};

}  // namespace gpunode::transport::detail
