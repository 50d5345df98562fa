// Short names of nodes in tests.
#pragma once

#include "runtime/base/ids.hpp"

namespace gpunode {

inline NodeId node(int number) {
  NodeId id;
  id.value[0] = static_cast<std::byte>(number);
  return id;
}

}  // namespace gpunode
