#include "runtime/base/ids.hpp"

#include <algorithm>

namespace gpunode {

std::optional<NodeId> NodeId::from(ByteView bytes) {
  NodeId id;
  if (bytes.size() != id.value.size()) return std::nullopt;
  std::copy(bytes.begin(), bytes.end(), id.value.begin());
  return id;
}

std::optional<NodeId> NodeId::parse(std::string_view text) {
  return from(from_hex(text));
}

}  // namespace gpunode
