// Workspace: scratch memory of one worker, handed out by moving an offset and taken back all at
// once by Scope's destructor. It grows only between uses, so a step after the first allocates
// nothing. One thread at a time.
#pragma once

#include <cstddef>

#include "kernels/tensor/buffer.hpp"
#include "runtime/base/bytes.hpp"

namespace gpunode::tensor {

class Workspace {
 public:
  explicit Workspace(BufferPool& pool) : pool_(&pool) {}
  // Over memory that the caller keeps: it never grows.
  explicit Workspace(MutableByteView memory) : data_(memory.data()), size_(memory.size()) {}

  // Makes at least `bytes` available; nothing may be in use. Fails with: out_of_memory.
  Result<void> reserve(std::size_t bytes);

  // `count` values aligned to 64 bytes, contents unspecified; null when the workspace is too small.
  template <class T>
  T* take(std::size_t count) {
    return static_cast<T*>(take_bytes(count * sizeof(T)));
  }
  void* take_bytes(std::size_t bytes);
  std::size_t free_bytes() const { return size_ - used_; }

  class Scope {
   public:
    explicit Scope(Workspace& workspace) : workspace_(workspace), mark_(workspace.used_) {}
    ~Scope() { workspace_.used_ = mark_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Workspace& workspace_;
    std::size_t mark_;
  };

 private:
  BufferPool* pool_ = nullptr;
  Buffer buffer_;
  std::byte* data_ = nullptr;  // the buffer's
  std::size_t size_ = 0;
  std::size_t used_ = 0;
};

}  // namespace gpunode::tensor
