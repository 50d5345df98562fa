// WritableBytes: memory that somebody lends to be filled, by whoever brings the bytes, so that they
// need not be copied to their place. Owned by the lender; lent for as long as `owner` is held.
#pragma once

#include <memory>

#include "runtime/base/bytes.hpp"

namespace gpunode {

struct WritableBytes {
  std::shared_ptr<const void> owner;
  MutableByteView view;
};

}  // namespace gpunode
