// The Memory of the machine itself: aligned, and out of memory is a result, not an exception. Large
// pieces are the system's own pages, which go back to it at once: the heap keeps what lies at its end.

#include <sys/mman.h>

#include <cstdlib>
#include <new>
#include <string>

#include "kernels/tensor/buffer.hpp"

namespace gpunode::tensor {
namespace {

class HostMemory final : public Memory {
 public:
  const Device& device() const override { return device_; }

  Result<void*> allocate(std::size_t bytes) override {
    void* data = is_large(bytes)
                     ? map(bytes)
                     : ::operator new (bytes, std::align_val_t{kAlignment}, std::nothrow);
    if (!data)
      return {ErrorCode::out_of_memory, "the machine has no " + std::to_string(bytes) +
                                            " bytes left: close other programs or use a smaller "
                                            "model, batch or number of slices in flight"};
    return data;
  }

  void release(void* data, std::size_t bytes) override {
    if (is_large(bytes))
      ::munmap(data, bytes);
    else
      ::operator delete (data, std::align_val_t{kAlignment});
  }

 private:
  static constexpr std::size_t kAlignment = 64, kLarge = 128 << 10;
  static bool is_large(std::size_t bytes) { return bytes >= kLarge; }
  static void* map(std::size_t bytes) {
    void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return data == MAP_FAILED ? nullptr : data;
  }
  Device device_{DeviceKind::cpu, "cpu"};
};

constexpr std::size_t kHuge = 8 << 20;

}  // namespace

void expect_filled(const Buffer& buffer) {
  if (buffer.size() >= kHuge)
    static_cast<void>(::madvise(buffer.data(), buffer.size(), MADV_HUGEPAGE));
}

std::shared_ptr<Memory> host_memory() {
  static const std::shared_ptr<Memory> memory = std::make_shared<HostMemory>();
  return memory;
}

}  // namespace gpunode::tensor
