// Room for one parameter after the other, which goes back to the system with it. Grows to the largest.
#pragma once

#include <span>

#include "kernels/tensor/buffer.hpp"

namespace gpunode::checkpoint::detail {

class FloatRoom {
 public:
  // Of these many, until the next call. Fails with: out_of_memory.
  Result<std::span<float>> of(std::size_t count) {
    if (auto grown = pool_.grow(buffer_, count * sizeof(float)); !grown) return grown.error();
    return std::span<float>(buffer_.as<float>(), count);
  }

 private:
  static constexpr std::uint64_t kNoBudget = std::uint64_t{1} << 62;
  tensor::BufferPool pool_{tensor::host_memory(), kNoBudget};
  tensor::Buffer buffer_;
};

}  // namespace gpunode::checkpoint::detail
