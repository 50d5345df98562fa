// The Memory of the machine itself: aligned, and out of memory is a result, not an exception.

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
    void* data = ::operator new (bytes, std::align_val_t{kAlignment}, std::nothrow);
    if (!data)
      return {ErrorCode::out_of_memory, "the machine has no " + std::to_string(bytes) +
                                            " bytes left: close other programs or use a smaller "
                                            "model, batch or number of slices in flight"};
    return data;
  }

  void release(void* data, std::size_t) override {
    ::operator delete (data, std::align_val_t{kAlignment});
  }

 private:
  static constexpr std::size_t kAlignment = 64;
  Device device_{DeviceKind::cpu, "cpu"};
};

}  // namespace

std::shared_ptr<Memory> host_memory() {
  static const std::shared_ptr<Memory> memory = std::make_shared<HostMemory>();
  return memory;
}

}  // namespace gpunode::tensor
