// An array that ends where a page begins that nobody may touch: a kernel that reads or writes beyond
// the end ends the process there, with a signal, instead of going on with a neighbour's bytes.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>

namespace gpunode::emulation {

template <class T>
class Guarded {
 public:
  // `count` elements whose bytes are all 0xff, in floats NaN; the first at a multiple of 16 bytes.
  explicit Guarded(std::size_t count) : count_(count) {
    const std::size_t bytes = (count * sizeof(T) + 15) / 16 * 16;
    whole_ = (bytes + kPage - 1) / kPage * kPage + kPage;
    memory_ = mmap(nullptr, whole_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) std::abort();
    mprotect(static_cast<char*>(memory_) + whole_ - kPage, kPage, PROT_NONE);
    data_ = reinterpret_cast<T*>(static_cast<char*>(memory_) + whole_ - kPage - bytes);
    std::memset(static_cast<void*>(data_), 0xff, bytes);
  }
  explicit Guarded(std::span<const T> values) : Guarded(values.size()) {
    std::copy(values.begin(), values.end(), data_);
  }
  Guarded(const Guarded&) = delete;
  ~Guarded() { munmap(memory_, whole_); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::span<const T> values() const { return {data_, count_}; }

 private:
  static constexpr std::size_t kPage = 4096;
  void* memory_ = nullptr;
  T* data_ = nullptr;
  std::size_t count_ = 0, whole_ = 0;
};

}  // namespace gpunode::emulation
