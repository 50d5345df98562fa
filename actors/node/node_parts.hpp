// The outside things of a node that tests replace by their twins: files, clocks, the link. What is
// null here is the real one. Not part of the embedder's face.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "actors/node/node.hpp"
#include "kernels/ops/backend.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/storage/file_system.hpp"
#include "runtime/transport/link.hpp"

namespace gpunode::node {

struct NodeParts {
  storage::FileSystem* files = nullptr;                      // outlives the node
  const Clock* clock = nullptr;                              // outlives the node
  std::string version;                                       // empty: this program's
  std::function<std::unique_ptr<ops::Backend>()> open_host;  // what computes where there is no GPU
  // Opens the link of this node; the endpoints of a twin are empty.
  std::function<std::shared_ptr<transport::Link>(const NodeId&, Boot, transport::LinkEvents)>
      open_link;
};

Result<std::unique_ptr<Node>> start_node(NodeConfig config, NodeParts parts);

}  // namespace gpunode::node
