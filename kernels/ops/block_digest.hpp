// Digests of the blocks of a long range of bytes, where the bytes are: XXH3-128 of each, the values
// that runtime/base/digest.hpp gives. A state that lives on a device is proven without leaving it.
#pragma once

#include <cstdint>

#include "kernels/ops/operation.hpp"
#include "runtime/base/bytes.hpp"

namespace gpunode::ops {

struct BlockDigestArgs {
  ByteView in;                   // in the device's memory
  std::size_t block_bytes = 0;   // of each block but the last, which holds the rest
  std::uint64_t* out = nullptr;  // (blocks, 2): high and low word; nothing is one empty block
};

}  // namespace gpunode::ops
