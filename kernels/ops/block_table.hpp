// The blocks of a flat vector of parameters, as operations go through many of them in one call: a
// parameter is cut into blocks, and each block has what sets its parameter apart. Plain, as nvcc
// reads it too.
#pragma once

#include <cstdint>

namespace gpunode::ops {

struct BlockRow {
  std::int64_t begin = 0, count = 0;  // consecutive elements, from the vector's beginning
  float decay = 0;                    // AdamW's
  float share = 0;                    // of a buffer: how fast it follows
  std::int32_t is_buffer = 0;         // follow()'s, else adamw()'s
  std::int32_t unused = 0;
};

// Some rows side by side. A call's tensors begin at element `origin` of the vector, and hold all
// the rows' elements.
struct BlockTable {
  const BlockRow* rows = nullptr;  // (count), in the device's memory
  std::int64_t count = 0;          // 0: no table
  std::int64_t origin = 0;
};

}  // namespace gpunode::ops
