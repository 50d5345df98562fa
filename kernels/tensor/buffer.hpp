// Memory of a device, and the pool that hands it out. A Buffer owns one piece and gives it back to
// its pool, which keeps freed pieces for the next taker of the same size class and never holds more
// than its budget: exceeding it is a typed error, not a crash. Thread-safe (one mutex).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/tensor/device.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::tensor {

// Raw memory of one device; every piece is aligned to 64 bytes at least.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual const Device& device() const = 0;
  // Fails with: out_of_memory.
  virtual Result<void*> allocate(std::size_t bytes) = 0;
  virtual void release(void* data, std::size_t bytes) = 0;
};

// The machine's own memory.
std::shared_ptr<Memory> host_memory();

class BufferPool;

class Buffer {
 public:
  void* data() const { return data_.get(); }
  std::size_t size() const { return data_ ? bytes_ : 0; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data());
  }

 private:
  friend class BufferPool;
  struct Store;
  struct Return {
    std::shared_ptr<Store> store;  // the pool's state, alive until the piece came back
    std::size_t class_bytes;
    void operator()(void* data) const;
  };
  std::unique_ptr<void, Return> data_;
  std::size_t bytes_ = 0;
};

// Of the machine's memory: every byte will be written. Large ones then come in pages of 2 MiB, where the
// system has them: one fault for 512, and none of the memory unused.
void expect_filled(const Buffer& buffer);

class BufferPool {
 public:
  // `budget_bytes`: the most that is ever allocated at once, kept pieces included.
  BufferPool(std::shared_ptr<Memory> memory, std::uint64_t budget_bytes);

  // A piece of at least `bytes` (contents unspecified). Kept pieces of other sizes are given back
  // to the device before the budget is called exhausted. Fails with: out_of_memory, naming what was
  // asked, what is in use and the budget.
  Result<Buffer> take(std::size_t bytes);
  // Makes `buffer` a piece of at least `bytes`, if it is smaller, and gives it back first. Fails
  // with: out_of_memory; `buffer` is empty then.
  Result<void> grow(Buffer& buffer, std::size_t bytes);

  std::uint64_t in_use_bytes() const;
  std::uint64_t held_bytes() const;  // in use and kept

 private:
  std::shared_ptr<Buffer::Store> store_;
};

}  // namespace gpunode::tensor
